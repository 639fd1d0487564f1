"""What a report knows of a run.

Measurements (seconds, memory) may be lost: whatever is missing is None or an empty mapping.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from pipeline.filters.gsc import negative_response, positive_response

Floats = npt.NDArray[np.float64]


@dataclass(frozen=True, kw_only=True)
class Filter:
    """The learned h(λ) = Σ α_i (2−λ)^i + Σ β_j λ^j."""

    alpha: Floats
    beta: Floats

    @property
    def finite(self) -> bool:
        """Whether training left numbers; a diverged head leaves NaN."""
        return bool(np.isfinite(self.alpha).all() and np.isfinite(self.beta).all())

    def positive(self, eigenvalues: Floats) -> Floats:
        """Σ α_i (2−λ)^i at each λ."""
        return positive_response(self.alpha, eigenvalues)

    def negative(self, eigenvalues: Floats) -> Floats:
        """Σ β_j λ^j at each λ."""
        return negative_response(self.beta, eigenvalues)


@dataclass(frozen=True, kw_only=True)
class Head:
    """One model trained on one split. Curves have one value an epoch, the first being epoch 1."""

    split: int
    epochs: int
    best_epoch: int
    """The epoch whose weights were kept, counted from 1."""
    test_accuracy: float
    train_loss: Floats
    valid_loss: Floats
    valid_accuracy: Floats
    filter: Filter | None
    train_seconds: float | None
    peak_memory: float | None


@dataclass(frozen=True, kw_only=True)
class Model:
    """One architecture over all splits. Accuracies are shares, not per cent."""

    model: str
    label: str
    settings: dict[str, Any]
    parameters: int | None
    mean: float
    interval: float
    """The half width of the 95 % interval; 0 where there is one split."""
    low: float
    high: float
    heads: tuple[Head, ...]
    precompute_seconds: float | None
    precompute_memory: float | None

    @property
    def train_seconds(self) -> float | None:
        """The mean over the splits that were measured."""
        known = [head.train_seconds for head in self.heads if head.train_seconds is not None]
        return sum(known) / len(known) if known else None

    @property
    def total_seconds(self) -> float | None:
        """Precompute and training of one split."""
        if self.precompute_seconds is None or self.train_seconds is None:
            return None
        return self.precompute_seconds + self.train_seconds

    @property
    def peak_memory(self) -> float | None:
        """The larger of precompute and training; None unless both are known."""
        trained = [head.peak_memory for head in self.heads if head.peak_memory is not None]
        if not trained or self.precompute_memory is None:
            return None
        return max(*trained, self.precompute_memory)

    @property
    def has_filter(self) -> bool:
        """Whether this architecture learns a filter at all."""
        return any(head.filter is not None for head in self.heads)

    @property
    def filters(self) -> tuple[tuple[int, Filter], ...]:
        """(split, filter) of the heads whose training did not diverge; empty without a filter."""
        found = ((head.split, head.filter) for head in self.heads)
        return tuple((split, f) for split, f in found if f is not None and f.finite)


@dataclass(frozen=True, kw_only=True)
class Data:
    """The graph and the stored basis that the heads were trained on."""

    nodes: int
    entries: int
    """Directed entries of the symmetrised matrix: twice the undirected edges."""
    features: int
    classes: int
    class_names: tuple[str, ...]
    labelled: int | None
    homophily: float | None
    operator: str
    order: int
    dtype: str
    notes: dict[str, str]
    """Of whoever made the data or started the run: `like` and `scale` for a generated graph."""


@dataclass(frozen=True, kw_only=True)
class Measured:
    """What differs from run to run."""

    stages: dict[str, dict[str, float]] = field(default_factory=dict)
    """Seconds by stage and phase, in the order of the pipeline; `train` is this run."""
    workers: int | None = None
    threads: int | None = None
    machine: dict[str, Any] = field(default_factory=dict)
    versions: dict[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, kw_only=True)
class RunSummary:
    """Everything that the table and the page show."""

    root: Path
    content: str
    """The fingerprint of the run's metrics and heads."""
    recipe: str
    """The fingerprint of what the run was made from: its config and its inputs."""
    data: Data
    protocol: dict[str, Any]
    models: tuple[Model, ...]
    measured: Measured

    @property
    def best(self) -> Model:
        """The model of the highest mean test accuracy; the first of equals."""
        # a diverged model has NaN, which compares as neither larger nor smaller
        return max(self.models, key=lambda m: m.mean if math.isfinite(m.mean) else -1.0)
