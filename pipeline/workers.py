"""Who does the work: this process for `--workers 0`, Ray workers otherwise."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING

from pipeline.errors import ConfigError
from pipeline.types import TaskRunner, run_inline

if TYPE_CHECKING:
    from pipeline.training.stage import Launch


@dataclass(frozen=True, kw_only=True)
class Workers:
    """How a stage's tasks are carried out."""

    count: int
    """Ray workers; 0 is this process."""
    threads: int
    """Threads of each."""
    run_tasks: TaskRunner
    """For stages made of independent tasks."""
    launch: Launch | None
    """For training; None trains in this process."""


@contextmanager
def open_workers(count: int, threads: int | None = None) -> Iterator[Workers]:
    """Have `count` workers inside the `with`; `threads` of each default to a fair share of CPUs."""
    if count < 0:
        raise ConfigError(f"--workers must be 0 or more, not {count}.")
    if count == 0:
        cores = len(os.sched_getaffinity(0))
        yield Workers(count=0, threads=threads or cores, run_tasks=run_inline, launch=None)
        return
    from pipeline.cluster.session import ray_workers  # Ray is loaded only where it is asked for

    with ray_workers(count, threads) as workers:
        yield workers
