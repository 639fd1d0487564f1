"""What a run consists of: heads × splits, each a unit that is finished or not."""

from __future__ import annotations

from dataclasses import asdict, dataclass, replace
from typing import Any

import numpy as np

from pipeline.config import HeadConfig, TrainConfig, default_batch_rows
from pipeline.storage.artifact import MEASURED
from pipeline.storage.sink import BlockSink
from pipeline.training.rows import BasisReader, check_order
from pipeline.training.splits import PROTOCOL, linkx_splits, warn_of_missing_classes


@dataclass(frozen=True)
class HeadTask:
    """One head on one split. Small and picklable: workers get a copy."""

    head: HeadConfig
    split: int

    @property
    def name(self) -> str:
        """What its files are called."""
        return f"{self.head.model}-split{self.split}"

    @property
    def weights(self) -> str:
        """The block that holds the weights."""
        return f"heads/{self.name}.safetensors"

    @property
    def record(self) -> str:
        """The block that is written last: with it the task is finished."""
        return f"heads/{self.name}.json"

    @property
    def measurements(self) -> str:
        """The file, no block, that holds seconds and memory."""
        return f"{MEASURED}/{self.name}.json"

    def seed(self, run_seed: int) -> int:
        """The seed of weights, order of rows and dropout: one a split, the same for each model."""
        return int(np.random.SeedSequence((run_seed, self.split)).generate_state(1)[0])


def protocol(config: TrainConfig) -> dict[str, Any]:
    """How heads are trained and scored, for the recipe and for the report."""
    return {
        **PROTOCOL,
        "splits": config.splits,
        "seed": config.seed,
        "epochs": config.epochs,
        "patience": config.patience,
        "batch_rows": config.batch_rows,
    }


def recipe(config: TrainConfig, basis_content: str) -> dict[str, Any]:
    """All that determines a run's content. Workers, threads and memory do not."""
    return {
        "basis": basis_content,
        "heads": [asdict(head) for head in config.heads],
        **{("protocol" if k == "name" else k): v for k, v in protocol(config).items()},
        "notes": dict(config.notes),
    }


def all_tasks(config: TrainConfig) -> list[HeadTask]:
    """Every head on every split, in the order of the tables."""
    return [HeadTask(head, split) for head in config.heads for split in range(config.splits)]


def pending(config: TrainConfig, sink: BlockSink) -> list[HeadTask]:
    """The tasks that are not yet finished in the build."""
    return [
        task for task in all_tasks(config) if not (sink.has(task.record) and sink.has(task.weights))
    ]


def with_batch_rows(config: TrainConfig, basis: BasisReader) -> TrainConfig:
    """The config with the batch size that it leaves open worked out, so that a run records it."""
    if config.batch_rows is not None:
        return config
    labelled = int((basis.labels >= 0).sum())
    return replace(config, batch_rows=default_batch_rows(labelled // 2))


def check(config: TrainConfig, basis: BasisReader) -> None:
    """Find what would make training fail, before any worker starts.

    Raises:
        ConfigError: a head needs more hops than the basis has.
        StoreError: the labels allow no training.
    """
    for head in config.heads:
        check_order(basis, head.order, head.model)
    splits = linkx_splits(basis.labels, config.splits, config.seed)
    warn_of_missing_classes(basis.labels, splits)
