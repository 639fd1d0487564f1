"""From the records of finished heads to the run's metrics and measurements."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict
from importlib.metadata import version
from pathlib import Path
from typing import Any, Final

import pipeline
from pipeline.config import HeadConfig, TrainConfig
from pipeline.measure import machine
from pipeline.models.head import LABELS
from pipeline.storage.artifact import MEASUREMENTS
from pipeline.storage.files import read_json
from pipeline.storage.sink import BlockSink
from pipeline.training.metrics import bootstrap_interval
from pipeline.training.rows import StoredBasis
from pipeline.training.tasks import HeadTask, all_tasks, protocol

METRICS: Final = "metrics.json"
_PACKAGES: Final = ("torch", "ray", "numba", "numpy", "pyarrow")
_HEAD_PHASES: Final = ("load", "train", "evaluate")

_DATA: Final = (
    "nodes",
    "entries",
    "features",
    "classes",
    "class_names",
    "labelled",
    "homophily",
    "operator",
    "order",
    "dtype",
)


def summarise(config: TrainConfig, sink: BlockSink, basis: StoredBasis) -> dict[str, Any]:
    """Write the block metrics.json and return the facts of the run's manifest."""
    models = [_model_metrics(config, head, sink.root) for head in config.heads]
    sink.json(
        METRICS,
        {
            "data": {key: basis.facts.get(key) for key in _DATA} | {"notes": dict(config.notes)},
            "protocol": protocol(config),
            "models": models,
        },
    )
    return {
        "splits": config.splits,
        "models": {m["model"]: {k: m["accuracy"][k] for k in ("mean", "interval")} for m in models},
    }


def _model_metrics(config: TrainConfig, head: HeadConfig, root: Path) -> dict[str, Any]:
    records = [read_json(root / HeadTask(head, s).record) for s in range(config.splits)]
    scores = [float(record["test_accuracy"]) for record in records]
    found = bootstrap_interval(scores)
    return {
        "model": head.model,
        "label": LABELS[head.model],
        "settings": asdict(head),
        "parameters": records[0]["parameters"],
        "accuracy": {
            "mean": found.mean,
            "interval": found.interval,
            "low": found.low,
            "high": found.high,
            "per_split": scores,
        },
    }


def run_measurements(
    config: TrainConfig,
    trained: Sequence[HeadTask],
    basis: StoredBasis,
    seconds: dict[str, float],
    root: Path,
) -> dict[str, Any]:
    """Seconds and memory of the whole run, whose phases do not overlap.

    Args:
        config: of the stage.
        trained: what was trained now; other heads are from an interrupted run.
        basis: the input.
        seconds: the driver's phases check, launch and summarise.
        root: where the heads' measurements are.
    """
    heads = _measurements(root, all_tasks(config))
    in_workers = sum(_seconds(m) for m in _measurements(root, trained))
    precompute = basis.measurements()
    return {
        "seconds": {
            "check": seconds["check"],
            # what launching took beyond the heads' own seconds: starting workers, writing blocks
            "launch": max(0.0, seconds["launch"] - in_workers),
            **{name: sum(m[f"{name}_seconds"] for m in heads) for name in _HEAD_PHASES},
            "summarise": seconds["summarise"],
        },
        "peak_memory_bytes": max((m["peak_memory_bytes"] for m in heads), default=0),
        "workers": max((m["workers"] for m in heads), default=1),
        "threads": config.threads,
        "precompute": {
            "seconds": sum(precompute.get("seconds", {}).values()),
            "peak_memory_bytes": precompute.get("peak_memory_bytes", 0),
        }
        if precompute
        else {},
        "stages": {
            "ingest": precompute.get("graph", {}).get("seconds", {}),
            "propagate": precompute.get("seconds", {}),
        },
        "machine": machine(),
        "versions": {
            "gscnet": pipeline.__version__,  # a shipped working directory is not installed
            **{name: version(name) for name in _PACKAGES},
        },
    }


def _measurements(root: Path, tasks: Sequence[HeadTask]) -> list[dict[str, Any]]:
    """Those of each task; a file lost in a crash leaves its task out."""
    found = []
    for task in tasks:
        try:
            found.append(read_json(root / task.measurements))
        except (FileNotFoundError, json.JSONDecodeError):
            continue
    return found


def _seconds(measured: dict[str, Any]) -> float:
    return sum(float(measured[f"{name}_seconds"]) for name in _HEAD_PHASES)


def outcome(config: TrainConfig, *, reused: bool) -> dict[str, Any]:
    """The result of a finished run, for the command line's JSON.

    A model's train_seconds are those of all its splits, its memory is the largest of any split.
    """
    root = config.out
    metrics = read_json(root / METRICS)
    try:
        measured = read_json(root / MEASUREMENTS)
    except (FileNotFoundError, json.JSONDecodeError):
        measured = {}
    models = []
    for head, found in zip(config.heads, metrics["models"], strict=True):
        heads = _measurements(root, [t for t in all_tasks(config) if t.head == head])
        models.append(
            {
                "model": head.model,
                "accuracy": found["accuracy"]["mean"],
                "interval": found["accuracy"]["interval"],
                "train_seconds": sum(m["train_seconds"] for m in heads),
                "peak_memory_bytes": max((m["peak_memory_bytes"] for m in heads), default=0),
            }
        )
    return {
        "reused": reused,
        **{name: metrics["data"][name] for name in ("nodes", "labelled", "features", "classes")},
        "splits": config.splits,
        "heads": len(all_tasks(config)),
        "models": models,
        "seconds": measured.get("seconds", {}),
        "peak_memory_bytes": measured.get("peak_memory_bytes", 0),
        "outputs": {
            "run": str(root),
            "metrics": str(root / METRICS),
            "heads": str(root / "heads"),
            "measurements": str(root / MEASUREMENTS),
        },
    }
