"""The TaskRunner that carries tasks out on Ray."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Any, Final

import ray
from ray.exceptions import RayError, RayTaskError

from pipeline.errors import ClusterError
from pipeline.types import Result, Task

_RETRIES: Final = 3
_END_SECONDS: Final = 60


class RayRunner:
    """Runs tasks on Ray workers, at most `workers` at a time; a lost worker's task is run again."""

    def __init__(self, workers: int, cpus: int) -> None:
        self.workers, self.cpus = workers, cpus

    def __call__(
        self, function: Callable[[Task], Result], tasks: Iterable[Task]
    ) -> Iterator[tuple[Task, Result]]:
        """Run `function` on each task; an error in one cancels the others and is raised here."""
        remote = ray.remote(num_cpus=self.cpus, max_retries=_RETRIES)(function)
        waiting = iter(tasks)
        running: dict[Any, Task] = {}
        try:
            while True:
                while len(running) < self.workers and (task := next(waiting, None)) is not None:
                    running[remote.remote(task)] = task
                if not running:
                    return
                finished, _ = ray.wait(list(running), num_returns=1)
                for reference in finished:
                    yield running.pop(reference), ray.get(reference)
        except RayTaskError as error:
            # the sentence for the user is in the worker's own error, without Ray's traceback
            raise error.cause from None
        except RayError as error:
            raise ClusterError(
                f"A task was lost {_RETRIES + 1} times ({str(error).splitlines()[0]}). "
                "Finished work is kept; run it again."
            ) from error
        finally:
            _end(list(running))


def _end(running: list[Any]) -> None:
    """End tasks and wait for it: nothing may be written any more once this runner has returned."""
    for reference in running:
        ray.cancel(reference, force=True)
    if running:
        ray.wait(running, num_returns=len(running), timeout=_END_SECONDS, fetch_local=False)
