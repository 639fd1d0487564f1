"""Data-parallel training on Ray Train: one worker group for all heads of a run."""

from __future__ import annotations

import uuid
from collections.abc import Sequence
from typing import Any, Final

import ray
from ray.train import RunConfig, ScalingConfig, TrainingFailedError, WorkerGroupError
from ray.train.torch import TorchTrainer, get_device

from pipeline.basis.store import BasisStore
from pipeline.config import TrainConfig
from pipeline.console import warn
from pipeline.errors import ClusterError, GscnetError
from pipeline.storage.sink import BlockSink
from pipeline.training.group import TorchDistributed
from pipeline.training.lanes import check_workers
from pipeline.training.stage import Launch, train_pending
from pipeline.training.tasks import HeadTask, pending

_RESTARTS: Final = 3


def launch_on_ray(workers: int) -> Launch:
    """A Launch that trains on `workers` Ray workers, with a GPU each where there are enough.

    When workers are lost the group is started again, and goes on with the heads that are not
    finished; an error that the user can mend ends the training at once.
    """

    def launch(config: TrainConfig, tasks: Sequence[HeadTask], sink: BlockSink) -> None:
        check_workers(workers)
        for restarts_left in range(_RESTARTS, -1, -1):
            try:
                _trainer(config, sink, workers).fit()
                return
            except TrainingFailedError as error:
                raise_what_the_user_can_mend(error)
                if restarts_left == 0:
                    raise ClusterError(
                        f"Training was given up after {_RESTARTS + 1} attempts ({_brief(error)}). "
                        "Finished heads are kept; run it again."
                    ) from error
                warn(f"workers were lost ({_brief(error)}); training goes on with new ones.")

    return launch


def raise_what_the_user_can_mend(error: Exception) -> None:
    """Raise the workers' own error where it is a sentence for the user."""
    failures = error.worker_failures.values() if isinstance(error, WorkerGroupError) else ()
    for failure in failures:
        cause = getattr(failure, "cause", failure)  # Ray wraps what a worker raises
        if isinstance(cause, GscnetError):
            raise cause from None


def _trainer(config: TrainConfig, sink: BlockSink, workers: int) -> TorchTrainer:
    gpus = int(ray.cluster_resources().get("GPU", 0))
    resources = {"CPU": config.threads} | ({"GPU": 1} if gpus >= workers else {})
    return TorchTrainer(
        _train_worker,
        train_loop_config={"config": config, "sink": sink},
        scaling_config=ScalingConfig(
            num_workers=workers, use_gpu=gpus >= workers, resources_per_worker=resources
        ),
        # a new name: Ray must not read the state of an interrupted run; finished heads are found
        # in the run's own folder
        run_config=RunConfig(name=uuid.uuid4().hex, storage_path=str(sink.work / "ray")),
    )


def _train_worker(given: dict[str, Any]) -> None:
    """What each rank runs: the heads that are not finished."""
    config: TrainConfig = given["config"]
    sink: BlockSink = given["sink"]
    basis = BasisStore.open(config.basis)
    train_pending(config, pending(config, sink), sink, basis, TorchDistributed(), get_device())


def _brief(error: BaseException) -> str:
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    return lines[-1][:200] if lines else type(error).__name__
