"""Reading a run's folder.

Metrics and heads are blocks of the run's manifest and must be there; measurements are kept beside
it and need not be.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

import numpy as np

from pipeline.errors import StoreError
from pipeline.report.summary import Data, Filter, Floats, Head, Measured, Model, RunSummary
from pipeline.storage.artifact import Artifact
from pipeline.storage.files import fingerprint, read_json

__all__ = ["RunSummary", "load_run"]

_HOP_ZERO: Final = frozenset({"mlp"})
"""Models that read the features alone: no propagation was needed for them."""


def load_run(root: Path) -> RunSummary:
    """Read the run in `root`.

    Raises:
        StoreError: there is no finished run, a block is damaged, or it lacks what a report needs.
    """
    artifact = Artifact.open(root, "run")
    measurements = _mapping(artifact.measurements())
    metrics = artifact.json("metrics.json")
    try:
        data = _data(metrics["data"], _mapping(metrics.get("settings")))
        models = tuple(_model(artifact, raw, measurements) for raw in metrics["models"])
        protocol = dict(metrics["protocol"])
    except (KeyError, TypeError, ValueError) as error:
        raise StoreError(
            f"{root} is not a run that this version can report: {type(error).__name__} {error} "
            "in metrics.json or heads/. Train it again into another folder."
        ) from error
    if not models:
        raise StoreError(f"{root / 'metrics.json'} names no model: there is nothing to report.")
    return RunSummary(
        root=root,
        content=artifact.manifest.content,
        recipe=fingerprint(artifact.manifest.recipe),
        data=data,
        protocol=protocol,
        models=models,
        measured=_measured(measurements),
    )


def _data(raw: Mapping[str, Any], settings: Mapping[str, Any]) -> Data:
    notes = {**settings, **_mapping(raw.get("notes"))}
    return Data(
        nodes=int(raw["nodes"]),
        entries=int(raw["entries"]),
        features=int(raw["features"]),
        classes=int(raw["classes"]),
        class_names=tuple(str(name) for name in raw.get("class_names") or ()),
        labelled=_whole(raw.get("labelled")),
        homophily=_number(raw.get("homophily")),
        operator=str(raw["operator"]),
        order=int(raw["order"]),
        dtype=str(raw["dtype"]),
        notes={str(k): str(v) for k, v in notes.items()},
    )


def _model(artifact: Artifact, raw: Mapping[str, Any], measurements: Mapping[str, Any]) -> Model:
    name = str(raw["model"])
    accuracy = raw["accuracy"]
    mean = _or(_number(accuracy["mean"]), math.nan)  # a diverged model has none
    splits = range(len(accuracy["per_split"]))
    precompute = _mapping(measurements.get("precompute"))
    if name in _HOP_ZERO:
        precompute = {"seconds": 0.0, "peak_memory_bytes": 0.0}
    return Model(
        model=name,
        label=str(raw.get("label") or name),
        settings=dict(raw.get("settings") or {}),
        parameters=_whole(raw.get("parameters")),
        mean=mean,
        interval=_number(accuracy.get("interval")) or 0.0,
        low=_or(_number(accuracy.get("low")), mean),
        high=_or(_number(accuracy.get("high")), mean),
        heads=tuple(_head(artifact, f"{name}-split{split}") for split in splits),
        precompute_seconds=_number(precompute.get("seconds")),
        precompute_memory=_number(precompute.get("peak_memory_bytes")),
    )


def _head(artifact: Artifact, name: str) -> Head:
    raw = artifact.json(f"heads/{name}.json")
    measured = _read_measurement(artifact.root / "measurements" / f"{name}.json")
    curve, learned = raw["curve"], raw.get("filter")
    return Head(
        split=int(raw["split"]),
        epochs=int(raw["epochs"]),
        best_epoch=int(raw["best_epoch"]),
        test_accuracy=_or(_number(raw["test_accuracy"]), math.nan),
        train_loss=_floats(curve["train_loss"]),
        valid_loss=_floats(curve["valid_loss"]),
        valid_accuracy=_floats(curve["valid_accuracy"]),
        filter=None
        if learned is None
        else Filter(alpha=_floats(learned["alpha"]), beta=_floats(learned["beta"])),
        train_seconds=_number(measured.get("train_seconds")),
        peak_memory=_number(measured.get("peak_memory_bytes")),
    )


def _measured(raw: Mapping[str, Any]) -> Measured:
    stages = {str(name): _seconds(phases) for name, phases in _mapping(raw.get("stages")).items()}
    stages["train"] = _seconds(raw.get("seconds"))
    return Measured(
        stages={name: phases for name, phases in stages.items() if phases},
        workers=_whole(raw.get("workers")),
        threads=_whole(raw.get("threads")),
        machine=dict(_mapping(raw.get("machine"))),
        versions=dict(_mapping(raw.get("versions"))),
    )


def _read_measurement(path: Path) -> Mapping[str, Any]:
    try:
        return _mapping(read_json(path))
    except (OSError, json.JSONDecodeError, UnicodeDecodeError):
        return {}


def _seconds(raw: object) -> dict[str, float]:
    numbers = {str(name): _number(value) for name, value in _mapping(raw).items()}
    return {name: value for name, value in numbers.items() if value is not None and value >= 0}


def _mapping(raw: object) -> Mapping[str, Any]:
    return raw if isinstance(raw, dict) else {}


def _number(raw: object) -> float | None:
    """A finite number, or None for anything else."""
    if isinstance(raw, bool) or not isinstance(raw, int | float) or not math.isfinite(raw):
        return None
    return float(raw)


def _whole(raw: object) -> int | None:
    number = _number(raw)
    return None if number is None else round(number)


def _or(value: float | None, default: float) -> float:
    return default if value is None else value


def _floats(raw: list[float | None]) -> Floats:
    """Null, which some writers put for NaN, becomes NaN."""
    return np.array([math.nan if value is None else value for value in raw], dtype=np.float64)
