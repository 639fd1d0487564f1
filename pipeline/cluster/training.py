"""Data-parallel training on Ray Train: one worker group for all heads of a run."""

from __future__ import annotations

import uuid
from collections.abc import Sequence
from typing import Any

import ray
from ray.train import FailureConfig, RunConfig, ScalingConfig
from ray.train.torch import TorchTrainer, get_device

from pipeline.basis.store import BasisStore
from pipeline.config import TrainConfig
from pipeline.storage.artifact import BUILDING
from pipeline.storage.build import BlockSink
from pipeline.training.group import TorchDistributed
from pipeline.training.lanes import check_workers
from pipeline.training.stage import Launch, train_pending
from pipeline.training.tasks import HeadTask, pending

_RESTARTS = 3


def launch_on_ray(workers: int) -> Launch:
    """A Launch that trains on `workers` Ray workers, with a GPU each where there are enough."""

    def launch(config: TrainConfig, tasks: Sequence[HeadTask]) -> None:
        check_workers(workers)
        gpus = int(ray.cluster_resources().get("GPU", 0))
        trainer = TorchTrainer(
            _train_worker,
            train_loop_config={"config": config},
            scaling_config=ScalingConfig(
                num_workers=workers,
                use_gpu=gpus >= workers,
                resources_per_worker={"CPU": config.threads}
                | ({"GPU": 1} if gpus >= workers else {}),
            ),
            run_config=RunConfig(
                # a new name: Ray must not read the state of an interrupted run; finished heads
                # are found in the run's own folder
                name=uuid.uuid4().hex,
                storage_path=str(config.out.absolute() / BUILDING / "ray"),
                failure_config=FailureConfig(max_failures=_RESTARTS),
            ),
        )
        trainer.fit()

    return launch


def _train_worker(loop_config: dict[str, Any]) -> None:
    """What each rank runs; after a restart it goes on with the heads that are not finished."""
    config: TrainConfig = loop_config["config"]
    sink = BlockSink(config.out)
    train_pending(
        config,
        pending(config, sink),
        sink,
        BasisStore.open(config.basis),
        TorchDistributed(),
        get_device(),
    )
