"""Training one head on one split, alone or as one of several workers."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Final

import torch
from torch import Tensor
from torch.nn.functional import cross_entropy

from pipeline.config import HeadConfig
from pipeline.console import warn
from pipeline.errors import ConfigError
from pipeline.measure import Phases, peak_memory, reset_peak_memory
from pipeline.models.head import PrecomputedHead, build_head
from pipeline.training.group import FlatGradients, Solo, WorkerGroup
from pipeline.training.lanes import LaneSampler, own_lanes
from pipeline.training.metrics import accuracy
from pipeline.training.rows import BasisReader, RowSource, open_rows
from pipeline.training.splits import Split
from pipeline.types import split_by_size, split_evenly

_EVALUATION_ROWS: Final = 8192

OnEpoch = Callable[[int, float], None]
"""Told the epoch's number and validation accuracy after each epoch."""


@dataclass(frozen=True, kw_only=True)
class Schedule:
    """How long and in what portions a head is trained; see TrainConfig."""

    epochs: int
    patience: int
    batch_rows: int
    memory: int | None = None


@dataclass
class Curve:
    """What each epoch gave: mean losses a row, and the share of validation rows that is right."""

    train_loss: list[float] = field(default_factory=list)
    valid_loss: list[float] = field(default_factory=list)
    valid_accuracy: list[float] = field(default_factory=list)


@dataclass(frozen=True, kw_only=True)
class HeadResult:
    """A trained head, with the weights of its best epoch, and how it came about."""

    head: PrecomputedHead
    seed: int
    best_epoch: int
    test_accuracy: float
    curve: Curve
    seconds: dict[str, float]
    """load: rows into memory; train: all training passes; evaluate: all validation and the test."""
    epoch_seconds: list[float]
    """The training pass of each epoch; they add up to seconds["train"]."""
    peak_memory_bytes: int
    """Summed over workers."""
    workers: int

    @property
    def epochs(self) -> int:
        """Epochs that were run."""
        return len(self.curve.train_loss)

    @property
    def valid_accuracy(self) -> float:
        """Of the best epoch."""
        return self.curve.valid_accuracy[self.best_epoch - 1]

    def record(self) -> dict[str, Any]:
        """What follows from the recipe, for the head's JSON file."""
        kept = self.head.filter
        return {
            "seed": self.seed,
            "epochs": self.epochs,
            "best_epoch": self.best_epoch,
            "valid_accuracy": self.valid_accuracy,
            "test_accuracy": self.test_accuracy,
            "parameters": self.head.parameter_count(),
            "curve": vars(self.curve),
            "filter": None if kept is None else kept.describe(),
        }

    def measurements(self) -> dict[str, Any]:
        """What differs from run to run."""
        return {
            **{f"{name}_seconds": self.seconds[name] for name in ("load", "train", "evaluate")},
            "epoch_seconds": self.epoch_seconds,
            "peak_memory_bytes": self.peak_memory_bytes,
            "workers": self.workers,
        }


def train_head(
    basis: BasisReader,
    config: HeadConfig,
    split: Split,
    schedule: Schedule,
    seed: int,
    *,
    group: WorkerGroup | None = None,
    device: torch.device | None = None,
    on_epoch: OnEpoch | None = None,
) -> HeadResult:
    """Train with Adam until validation accuracy has not risen for `patience` epochs.

    The first epoch with the best validation accuracy is kept, and the test rows are scored with its
    weights. Every worker of `group` calls this with the same arguments and gets the same result;
    with one worker it is the same to the bit each time, with several up to the order of sums.

    Raises:
        ConfigError: more workers than lanes, or the loss is not finite in the first epoch.
    """
    group = group or Solo()
    device = device or torch.device("cpu")
    reset_peak_memory()
    phases = Phases()
    with phases("load"):
        lanes = own_lanes(group.rank, group.size)
        sampler = LaneSampler(len(split.train), schedule.batch_rows, lanes, seed)
        share = [
            split_evenly(len(part), group.size)[group.rank] for part in (split.valid, split.test)
        ]
        parts = [
            split.train[sampler.own.slice],
            split.valid[share[0].slice],
            split.test[share[1].slice],
        ]
        train, valid, test = open_rows(basis, parts, config.order + 1, schedule.memory, group)
    head = build_head(config, basis.features, basis.classes, seed).to(device)
    gradients, optimiser = FlatGradients(head.parameters()), head.optimiser()

    curve, epoch_seconds = Curve(), list[float]()
    best_epoch, best_weights = 0, dict[str, Tensor]()
    for epoch in range(1, schedule.epochs + 1):
        before = phases.seconds.get("train", 0.0)
        with phases("train"):
            loss = _train_epoch(head, optimiser, gradients, train, sampler, epoch, group)
            _wait_for(device)
        epoch_seconds.append(phases.seconds["train"] - before)
        with phases("evaluate"):
            sums = torch.cat([loss.view(1), _evaluate(head, valid)])
            group.sum_(sums)
            train_loss, valid_loss, correct = sums.tolist()
        if not math.isfinite(train_loss + valid_loss):
            _say_diverged(config, epoch, best_epoch, group)
            epoch_seconds.pop()
            break
        curve.train_loss.append(train_loss / len(split.train))
        curve.valid_loss.append(valid_loss / len(split.valid))
        curve.valid_accuracy.append(accuracy(int(correct), len(split.valid)))
        if best_epoch == 0 or curve.valid_accuracy[-1] > curve.valid_accuracy[best_epoch - 1]:
            best_epoch = epoch
            best_weights = {name: w.clone() for name, w in head.state_dict().items()}
        if on_epoch is not None:
            on_epoch(epoch, curve.valid_accuracy[-1])
        # every worker has the same sums, so all of them stop here or none
        if epoch - best_epoch >= schedule.patience:
            break

    head.load_state_dict(best_weights)
    with phases("evaluate"):
        sums = _evaluate(head, test)
        group.sum_(sums)
        test_correct = int(sums[1].item())
    peak = torch.tensor([peak_memory()], dtype=torch.float64, device=device)
    group.sum_(peak)
    return HeadResult(
        head=head.cpu(),
        seed=seed,
        best_epoch=best_epoch,
        test_accuracy=accuracy(test_correct, len(split.test)),
        curve=curve,
        seconds=phases.seconds,
        epoch_seconds=epoch_seconds,
        peak_memory_bytes=int(peak.item()),
        workers=group.size,
    )


def _train_epoch(
    head: PrecomputedHead,
    optimiser: torch.optim.Optimizer,
    gradients: FlatGradients,
    rows: RowSource,
    sampler: LaneSampler,
    epoch: int,
    group: WorkerGroup,
) -> Tensor:
    """One pass over the training rows; the summed loss of this worker's rows, float64."""
    device = gradients.buffer.device
    total = torch.zeros((), dtype=torch.float64, device=device)
    for step, positions in enumerate(sampler.epoch(epoch)):
        batch, labels = rows.take(positions)
        dropout = sampler.dropout(head.config.dropout, epoch, step)
        logits = head(batch.to(device), dropout)
        loss = cross_entropy(logits, labels.to(device), reduction="sum")
        gradients.clear()
        # shares of the global mean: workers' gradients then only need adding up
        (loss / sampler.batch_size(step)).backward()  # type: ignore[no-untyped-call]
        gradients.sum_over(group)
        optimiser.step()
        total += loss.detach()
    return total


@torch.no_grad()
def _evaluate(head: PrecomputedHead, rows: RowSource) -> Tensor:
    """[summed loss, rows that are right] of this worker's rows, float64."""
    device = next(head.parameters()).device
    sums = torch.zeros(2, dtype=torch.float64, device=device)
    for span in split_by_size(len(rows), _EVALUATION_ROWS):
        batch, labels = rows.span(span)
        labels = labels.to(device)
        logits = head(batch.to(device))
        sums[0] += cross_entropy(logits, labels, reduction="sum")
        sums[1] += (logits.argmax(dim=1) == labels).sum()
    return sums


def _wait_for(device: torch.device) -> None:
    """Let a stopwatch stop only once the device has finished."""
    if device.type == "cuda":
        torch.cuda.synchronize(device)


def _say_diverged(config: HeadConfig, epoch: int, best_epoch: int, group: WorkerGroup) -> None:
    what = f"The loss of {config.model} is not a finite number in epoch {epoch}"
    advice = f"lower lr ({config.lr:g}) or filter_lr ({config.filter_lr:g})"
    if best_epoch == 0:
        raise ConfigError(f"{what}; {advice}.")
    if group.rank == 0:
        warn(f"{what}: training stops, epoch {best_epoch} is kept; {advice}.")
