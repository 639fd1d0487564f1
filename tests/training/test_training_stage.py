"""The stage: files, resuming, errors before any worker starts."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from pipeline.config import HeadConfig, TrainConfig
from pipeline.errors import ConfigError, StoreError
from pipeline.models.saved import load_head
from pipeline.storage.artifact import Artifact
from pipeline.storage.files import read_json
from pipeline.storage.sink import BlockSink
from pipeline.training import stage
from pipeline.training.loop import train_head
from pipeline.training.splits import linkx_splits
from pipeline.training.stage import run_training, train_pending
from pipeline.training.tasks import HeadTask, recipe
from tests.training.fakes import FakeBasis, run_workers, toy_basis

HEADS = (HeadConfig(model="gscnet", hidden=8), HeadConfig(model="mlp", hidden=8))


def make_config(out: Path, **changes: Any) -> TrainConfig:
    config = TrainConfig(
        basis=Path("basis"), out=out, heads=HEADS, splits=2, epochs=3, batch_rows=64
    )
    return replace(config, **changes)


def run(config: TrainConfig, basis: FakeBasis | None = None) -> dict[str, Any]:
    return run_training(config, open_basis=lambda _: basis or toy_basis())


def blocks(root: Path) -> dict[str, bytes]:
    found = sorted([*root.glob("heads/*"), root / "metrics.json", root / "manifest.json"])
    return {path.relative_to(root).as_posix(): path.read_bytes() for path in found}


def test_writes_a_whole_run(tmp_path: Path) -> None:
    result = run(make_config(tmp_path / "run", notes={"name": "toy"}))
    root = tmp_path / "run"
    assert result["reused"] is False
    assert [m["model"] for m in result["models"]] == ["gscnet", "mlp"]
    assert result["outputs"]["metrics"] == str(root / "metrics.json")
    run_store = Artifact.open(root, "run")
    names = [
        f"heads/{m}-split{s}.{e}"
        for m in ("gscnet", "mlp")
        for s in (0, 1)
        for e in ("json", "safetensors")
    ]
    assert set(run_store.manifest.blocks) == {*names, "metrics.json"}

    metrics = run_store.json("metrics.json")
    assert metrics["protocol"] == {
        "name": "linkx",
        "version": 1,
        "splits": 2,
        "seed": 0,
        "epochs": 3,
        "patience": 20,
        "batch_rows": 64,
    }
    assert metrics["data"]["homophily"] == 0.5
    assert metrics["data"]["labelled"] == 360
    assert metrics["data"]["notes"] == {"name": "toy"}
    gscnet, mlp = metrics["models"]
    assert (gscnet["label"], mlp["label"]) == ("GSCNet", "MLP")
    assert gscnet["settings"]["K1"] == 2
    records = [run_store.json(f"heads/gscnet-split{s}.json") for s in range(2)]
    scores = gscnet["accuracy"]
    assert scores["per_split"] == [record["test_accuracy"] for record in records]
    assert scores["low"] <= scores["mean"] <= scores["high"]
    assert result["models"][0]["accuracy"] == scores["mean"] == np.mean(scores["per_split"])
    assert list(records[0]) == [
        "model",
        "split",
        "seed",
        "epochs",
        "best_epoch",
        "valid_accuracy",
        "test_accuracy",
        "parameters",
        "curve",
        "filter",
    ]
    assert len(records[0]["curve"]["train_loss"]) == records[0]["epochs"] == 3
    assert set(records[0]["filter"]) == {"alpha", "beta", "coefficients"}
    assert run_store.json("heads/mlp-split0.json")["filter"] is None

    measured = run_store.measurements()
    assert measured["precompute"] == {"seconds": 3.0, "peak_memory_bytes": 5}
    assert measured["stages"] == {"ingest": {}, "propagate": {"read": 1.0, "hops": 2.0}}
    assert measured["workers"] == measured["threads"] == 1
    assert set(measured["seconds"]) == {
        "check",
        "launch",
        "load",
        "train",
        "evaluate",
        "summarise",
    }
    assert "torch" in measured["versions"]
    assert set(read_json(root / "measurements/mlp-split1.json")) >= {
        "load_seconds",
        "train_seconds",
        "evaluate_seconds",
        "epoch_seconds",
        "peak_memory_bytes",
    }


def test_loaded_head_scores_what_the_record_says(tmp_path: Path) -> None:
    basis = toy_basis()
    run(make_config(tmp_path / "run"), basis)
    for model in ("gscnet", "mlp"):
        for number, split in enumerate(linkx_splits(basis.labels, 2, 0)):
            head = load_head(tmp_path / f"run/heads/{model}-split{number}.safetensors")
            rows = torch.from_numpy(basis.values[: head.hops, split.test])
            right = head(rows).argmax(dim=1).numpy() == basis.labels[split.test]
            record = read_json(tmp_path / f"run/heads/{model}-split{number}.json")
            assert right.mean() == pytest.approx(record["test_accuracy"])


def test_same_recipe_gives_the_same_bytes_and_is_reused(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    first = run(make_config(tmp_path / "a"))
    run(make_config(tmp_path / "b", memory=1))
    assert blocks(tmp_path / "a") == blocks(tmp_path / "b")
    capsys.readouterr()
    basis = toy_basis()
    again = run(make_config(tmp_path / "a", threads=2), basis)
    assert basis.reads == []
    assert "finished already" in capsys.readouterr().err
    assert again == {**first, "reused": True}


def test_recipe_names_what_determines_the_result(tmp_path: Path) -> None:
    base = recipe(make_config(tmp_path), "content")
    same = make_config(tmp_path / "other", threads=2, memory=1, basis=Path("elsewhere"))
    assert recipe(same, "content") == base
    assert recipe(make_config(tmp_path), "another") != base
    for change in (
        {"splits": 3},
        {"seed": 1},
        {"epochs": 4},
        {"patience": 1},
        {"batch_rows": 65},
        {"heads": HEADS[:1]},
        {"notes": {"name": "other"}},
        {"heads": (replace(HEADS[0], dropout=0.1), HEADS[1])},
    ):
        assert recipe(make_config(tmp_path, **change), "content") != base


def test_interrupted_run_goes_on_to_the_same_bytes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run(make_config(tmp_path / "whole"))

    started = list[int]()

    def failing(*args: Any, **kwargs: Any) -> Any:
        started.append(1)
        if len(started) == 2:
            raise KeyboardInterrupt
        return train_head(*args, **kwargs)

    config = make_config(tmp_path / "broken")
    with monkeypatch.context() as patch:
        patch.setattr(stage, "train_head", failing)
        with pytest.raises(KeyboardInterrupt):
            run(config)
    with pytest.raises(StoreError, match="unfinished"):
        Artifact.open(config.out, "run")

    trained: list[str] = []

    def launch(config: TrainConfig, tasks: Sequence[HeadTask], sink: BlockSink) -> None:
        trained.extend(task.name for task in tasks)
        train_pending(config, tasks, sink, toy_basis())

    run_training(config, launch, open_basis=lambda _: toy_basis())
    assert trained == ["gscnet-split1", "mlp-split0", "mlp-split1"]
    assert blocks(config.out) == blocks(tmp_path / "whole")


def test_an_error_keeps_the_heads_that_are_finished(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    started = list[int]()

    def failing(*args: Any, **kwargs: Any) -> Any:
        started.append(1)
        if len(started) == 3:
            raise ConfigError("The loss is not finite.")
        return train_head(*args, **kwargs)

    config = make_config(tmp_path / "run")
    with monkeypatch.context() as patch:
        patch.setattr(stage, "train_head", failing)
        with pytest.raises(ConfigError):
            run(config)
    monkeypatch.setattr(stage, "train_head", failing)
    run(config)
    assert len(started) == 5  # two, the failure, and the two that were left


def test_replaced_run_stands_until_the_new_one_is_finished(tmp_path: Path) -> None:
    config = make_config(tmp_path / "run")
    run(config)
    before = blocks(config.out)
    changed = replace(config, epochs=2, overwrite=True)

    def killed(config: TrainConfig, tasks: Sequence[HeadTask], sink: BlockSink) -> None:
        train_pending(config, tasks[:2], sink, toy_basis())
        assert blocks(config.out) == before
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        run_training(changed, killed, open_basis=lambda _: toy_basis())
    assert blocks(config.out) == before
    trained: list[str] = []

    def launch(config: TrainConfig, tasks: Sequence[HeadTask], sink: BlockSink) -> None:
        trained.extend(task.name for task in tasks)
        train_pending(config, tasks, sink, toy_basis())

    result = run_training(changed, launch, open_basis=lambda _: toy_basis())
    assert trained == ["mlp-split0", "mlp-split1"]
    assert read_json(config.out / "heads/gscnet-split0.json")["epochs"] == 2
    assert result["outputs"]["run"] == str(config.out)
    assert [path.name for path in tmp_path.iterdir()] == ["run"]


def test_damaged_head_is_trained_again(tmp_path: Path) -> None:
    config = make_config(tmp_path / "run")
    run(config)
    before = blocks(config.out)
    (config.out / "heads/mlp-split0.safetensors").write_bytes(b"broken")
    assert run(config)["reused"] is False
    assert blocks(config.out) == before


def test_several_workers_write_one_run(tmp_path: Path) -> None:
    run(make_config(tmp_path / "alone"))

    def launch(config: TrainConfig, tasks: Sequence[HeadTask], sink: BlockSink) -> None:
        run_workers(2, lambda group: train_pending(config, tasks, sink, toy_basis(), group))

    config = make_config(tmp_path / "together")
    run_training(config, launch, open_basis=lambda _: toy_basis())
    assert read_json(config.out / "measurements.json")["workers"] == 2
    for name in ("gscnet-split0", "mlp-split1"):
        a = read_json(tmp_path / f"alone/heads/{name}.json")
        b = read_json(config.out / f"heads/{name}.json")
        assert a["curve"]["train_loss"] == pytest.approx(b["curve"]["train_loss"], abs=1e-5)
        assert a["test_accuracy"] == b["test_accuracy"]


def _refused(out: Path, basis: FakeBasis, **changes: Any) -> None:
    def launch(config: TrainConfig, tasks: Sequence[HeadTask], sink: BlockSink) -> None:
        raise AssertionError("a worker was started")

    run_training(make_config(out, **changes), launch, open_basis=lambda _: basis)


def test_user_errors_come_before_any_worker(tmp_path: Path) -> None:
    too_deep = (HeadConfig(model="gscnet", K1=1, K2=5),)
    with pytest.raises(ConfigError, match=r"up to order 2, .* needs order 5"):
        _refused(tmp_path / "a", toy_basis(), heads=too_deep)
    one_class = toy_basis(classes=1)
    with pytest.raises(StoreError, match="one class"):
        _refused(tmp_path / "b", one_class)
    unlabelled = toy_basis()
    unlabelled.labels[:] = -1
    with pytest.raises(StoreError, match="No node"):
        _refused(tmp_path / "c", unlabelled)
    assert list(tmp_path.iterdir()) == []


def test_another_recipe_needs_overwrite(tmp_path: Path) -> None:
    run(make_config(tmp_path / "run", splits=1))
    with pytest.raises(StoreError, match="epochs: 3 there, 4 now"):
        run(make_config(tmp_path / "run", splits=1, epochs=4))
    config = make_config(tmp_path / "run", splits=1, epochs=4, overwrite=True)
    assert run(config)["reused"] is False
    assert len(read_json(config.out / "heads/mlp-split0.json")["curve"]["train_loss"]) == 4
