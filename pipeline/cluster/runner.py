"""The TaskRunner that carries tasks out on Ray."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Any

import ray
from ray.exceptions import RayTaskError

from pipeline.types import Result, Task

_RETRIES = 3


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
            raise error.cause from error
        finally:
            for reference in running:
                ray.cancel(reference)
