"""The stage: from BasisStore to Run.

OUT/heads/MODEL-splitS.safetensors   the weights
OUT/heads/MODEL-splitS.json          scores and curves; written second: with it the head is finished
OUT/metrics.json                     accuracies over splits
OUT/measurements/MODEL-splitS.json   seconds and memory, which differ from run to run: no block
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import torch

from pipeline.basis.store import BasisStore
from pipeline.config import TrainConfig, default_batch_rows
from pipeline.console import Progress, format_seconds, say
from pipeline.measure import Phases
from pipeline.models.saved import save_head
from pipeline.storage.build import Build
from pipeline.storage.files import write_json_durably
from pipeline.storage.sink import BlockSink
from pipeline.training.group import Solo, WorkerGroup
from pipeline.training.loop import HeadResult, Schedule, train_head
from pipeline.training.rows import BasisReader, StoredBasis
from pipeline.training.splits import Split, linkx_splits
from pipeline.training.summary import outcome, run_measurements, summarise
from pipeline.training.tasks import HeadTask, check, pending, recipe, with_batch_rows

Launch = Callable[[TrainConfig, Sequence[HeadTask], BlockSink], None]
"""Trains the tasks with any number of workers; each opens the basis and calls train_pending."""

OpenBasis = Callable[[Path], StoredBasis]


def run_training(
    config: TrainConfig, launch: Launch | None = None, *, open_basis: OpenBasis = BasisStore.open
) -> dict[str, Any]:
    """Train what is not yet trained, and finish the run; the result is for the command line's JSON.

    Args:
        config: of the stage.
        launch: carries the training out; None trains in this process.
        open_basis: opens the basis; another one than BasisStore's is for tests.

    Raises:
        ConfigError: the options do not fit the basis; no worker has been started.
        StoreError: the basis or the output folder cannot be used; no worker has been started.
    """
    phases = Phases()
    with phases("check"):
        basis = open_basis(config.basis)
        check(config, basis)
        config = with_batch_rows(config, basis)
    made_from = recipe(config, basis.content)
    with Build(config.out, "run", made_from, overwrite=config.overwrite) as build:
        if build.finished is not None:
            say(f"train: {config.out} is finished already; reused.")
            return outcome(config, reused=True)
        tasks = pending(config, build.sink)
        say(f"train: {len(tasks)} heads → {config.out}")
        with phases("launch"):
            if tasks and launch is None:
                train_pending(config, tasks, build.sink, basis)
            elif tasks and launch is not None:
                launch(config, tasks, build.sink)
        with phases("summarise"):
            facts = summarise(config, build.sink, basis)
        measured = run_measurements(config, tasks, basis, phases.seconds, build.sink.root)
        build.commit(facts, measured)
    return outcome(config, reused=False)


def train_pending(
    config: TrainConfig,
    tasks: Sequence[HeadTask],
    sink: BlockSink,
    basis: BasisReader,
    group: WorkerGroup | None = None,
    device: torch.device | None = None,
) -> None:
    """Train the tasks one after another; every worker of `group` calls this, the first writes."""
    group = group or Solo()
    # Ray and containers set OMP_NUM_THREADS to what they please
    torch.set_num_threads(config.threads)
    splits = linkx_splits(basis.labels, config.splits, config.seed)
    for number, task in enumerate(tasks, start=1):
        if group.rank == 0:
            say(f"  {task.name}, head {number} of {len(tasks)}")
        result = _train(config, task, basis, splits[task.split], group, device)
        if group.rank == 0:
            _write(task, result, sink)
            _say_result(task, result)


def _train(
    config: TrainConfig,
    task: HeadTask,
    basis: BasisReader,
    split: Split,
    group: WorkerGroup,
    device: torch.device | None,
) -> HeadResult:
    schedule = Schedule(
        epochs=config.epochs,
        patience=config.patience,
        batch_rows=config.batch_rows or default_batch_rows(len(split.train)),
        memory=config.memory,
    )
    with Progress(task.name, config.epochs, "epochs") as progress:

        def on_epoch(epoch: int, valid_accuracy: float) -> None:
            if group.rank == 0:
                progress.advance(note=f"validation {valid_accuracy:.4f}")

        return train_head(
            basis,
            task.head,
            split,
            schedule,
            task.seed(config.seed),
            group=group,
            device=device,
            on_epoch=on_epoch,
        )


def _write(task: HeadTask, result: HeadResult, sink: BlockSink) -> None:
    write_json_durably(sink.root / task.measurements, result.measurements())
    with sink.file(task.weights) as path:
        save_head(result.head, path, {"split": task.split, "seed": result.seed})
    # last: its presence says that the head is finished
    record = {"model": task.head.model, "split": task.split, **result.record()}
    sink.json(task.record, record)


def _say_result(task: HeadTask, result: HeadResult) -> None:
    say(
        f"  {task.name}: test {result.test_accuracy:.4f}, validation {result.valid_accuracy:.4f} "
        f"in epoch {result.best_epoch} of {result.epochs}, "
        f"{format_seconds(sum(result.seconds.values()))}"
    )
