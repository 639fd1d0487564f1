"""A small run with the values that a real one would have."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Protocol

import numpy as np
import pytest

from pipeline.storage.build import Build
from pipeline.storage.files import write_json_durably

LEVEL = {"gscnet": 0.60, "mlp": 0.375}
LABELS = {"gscnet": "GSCNet", "mlp": "MLP"}


class MakeRun(Protocol):
    def __call__(
        self,
        *,
        models: tuple[str, ...] = ("gscnet", "mlp"),
        labels: dict[str, str] | None = None,
        splits: int = 5,
        epochs: int = 60,
        measured: bool = True,
        data: dict[str, Any] | None = None,
        heads: dict[str, dict[str, Any]] | None = None,
        measurements: dict[str, Any] | None = None,
    ) -> Path: ...


def head_of(model: str, split: int, epochs: int) -> dict[str, Any]:
    random = np.random.default_rng([split, len(model)])
    length = max(1, epochs - 7 * split)
    t = np.arange(1, length + 1)
    level = LEVEL.get(model, 0.5) + 0.003 * (split - 2)
    accuracy = level - 0.25 * np.exp(-t / 9) + random.normal(0, 0.003, length)
    train = 1.05 + 0.9 * np.exp(-t / 7) - 0.002 * t + random.normal(0, 0.006, length)
    valid = 1.12 + 0.9 * np.exp(-t / 7) + 0.0006 * t + random.normal(0, 0.012, length)
    if model == "mlp":
        train, valid = train + 0.35, valid + 0.38
    best = int(accuracy.argmax())
    learned = None
    if model == "gscnet":
        alpha = np.array([0.42, 0.31, 0.55, -0.06]) + random.normal(0, 0.02, 4)
        beta = np.array([0.18, -0.36, 0.21]) + random.normal(0, 0.02, 3)
        learned = {
            "alpha": alpha.tolist(),
            "beta": beta.tolist(),
            "coefficients": [1.0, 0.5, 0.2, 0.1],
        }
    return {
        "model": model,
        "split": split,
        "seed": 100 + split,
        "epochs": length,
        "best_epoch": best + 1,
        "valid_accuracy": float(accuracy[best]),
        "test_accuracy": level,
        "parameters": 38725,
        "curve": {
            "train_loss": train.tolist(),
            "valid_loss": valid.tolist(),
            "valid_accuracy": accuracy.tolist(),
        },
        "filter": learned,
    }


def model_of(model: str, label: str, accuracies: list[float]) -> dict[str, Any]:
    mean = float(np.mean(accuracies))
    interval = 0.0 if len(accuracies) == 1 else 0.0041
    settings = {
        "model": model,
        "K1": 3,
        "K2": 2,
        "hidden": 64,
        "layers": 2,
        "lr": 0.01,
        "filter_lr": 0.01,
        "weight_decay": 0.0,
        "filter_weight_decay": 0.0005,
        "dropout": 0.2,
    }
    return {
        "model": model,
        "label": label,
        "settings": settings,
        "parameters": 38725 if model == "gscnet" else 38718,
        "accuracy": {
            "mean": mean,
            "interval": interval,
            "low": mean - interval,
            "high": mean + interval,
            "per_split": accuracies,
        },
    }


DATA: dict[str, Any] = {
    "nodes": 19253,
    "entries": 6_068_698,
    "features": 600,
    "classes": 5,
    "class_names": ["0", "1", "2", "3", "4"],
    "labelled": 19253,
    "homophily": 0.389,
    "operator": "sym",
    "order": 3,
    "dtype": "float32",
    "notes": {"like": "wiki", "scale": "0.01"},
}

MEASUREMENTS: dict[str, Any] = {
    "seconds": {"plan": 0.2, "start workers": 19.4, "train": 143.8, "write": 0.6},
    "peak_memory_bytes": 1_400_000_000,
    "workers": 2,
    "threads": 1,
    "precompute": {"seconds": 12.3, "peak_memory_bytes": 910_000_000},
    "stages": {
        "synth": {"edges": 8.1, "nodes": 6.7},
        "ingest": {"read": 3.2, "number the nodes": 4.4, "symmetrise": 9.8, "write": 2.1},
        "propagate": {"plan": 0.1, "propagate": 10.9, "write": 1.3},
    },
    "machine": {
        "cpu": "AMD EPYC 7B13",
        "cores": 2,
        "memory_bytes": 16_800_000_000,
        "system": "Linux 6.1.0",
        "python": "3.11.9",
    },
    "versions": {"gscnet": "0.1.0", "torch": "2.9.0", "ray": "2.60.0"},
}


@pytest.fixture
def make_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> MakeRun:
    # a power cut during these tests costs nothing, waiting for the disk does
    monkeypatch.setattr("os.fsync", lambda handle: None)

    def make(
        *,
        models: tuple[str, ...] = ("gscnet", "mlp"),
        labels: dict[str, str] | None = None,
        splits: int = 5,
        epochs: int = 60,
        measured: bool = True,
        data: dict[str, Any] | None = None,
        heads: dict[str, dict[str, Any]] | None = None,
        measurements: dict[str, Any] | None = None,
    ) -> Path:
        root = tmp_path / "run"
        names = LABELS | (labels or {})
        metrics: dict[str, Any] = {
            "data": DATA | (data or {}),
            "protocol": {
                "name": "linkx",
                "splits": splits,
                "seed": 0,
                "epochs": 100,
                "patience": 20,
                "batch_rows": 10000,
            },
            "models": [],
        }
        with Build(root, "run", {"seed": 0}) as build:
            for model in models:
                made = [head_of(model, split, epochs) for split in range(splits)]
                for head in made:
                    name = f"{model}-split{head['split']}"
                    build.sink.json(f"heads/{name}.json", head | (heads or {}).get(name, {}))
                accuracies = [head["test_accuracy"] for head in made]
                metrics["models"].append(model_of(model, names.get(model, model), accuracies))
            build.sink.json("metrics.json", metrics)
            build.commit({}, MEASUREMENTS | (measurements or {}))
        for model in models:
            for split in range(splits):
                seconds = (14.2 if model == "gscnet" else 11.8) + 0.4 * split
                write_json_durably(
                    root / "measurements" / f"{model}-split{split}.json",
                    {
                        "load_seconds": 0.8,
                        "train_seconds": seconds,
                        "evaluate_seconds": 0.3,
                        "epoch_seconds": [0.25] * epochs,
                        "peak_memory_bytes": 850_000_000 + 90_000_000 * (model == "gscnet"),
                    },
                )
        if not measured:
            (root / "measurements.json").unlink()
            for path in (root / "measurements").iterdir():
                path.unlink()
        return root

    return make
