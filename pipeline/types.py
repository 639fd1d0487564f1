"""The domain's words."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from enum import StrEnum
from itertools import pairwise
from typing import Any, Protocol, TypeVar

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[Any]
FloatArray = npt.NDArray[np.float32]
IntArray = npt.NDArray[np.integer[Any]]

Task = TypeVar("Task")
Result = TypeVar("Result")


class Operator(StrEnum):
    """The propagation operator: P = S A S, or P̃ = S̃ (A + I) S̃ with self-loops."""

    SYM = "sym"
    SYM_LOOPS = "sym-loops"


class StoreDtype(StrEnum):
    """The element type of a stored basis. Arithmetic is always float32."""

    FLOAT32 = "float32"
    FLOAT16 = "float16"


@dataclass(frozen=True)
class Span:
    """A half-open range [start, stop) of rows or of columns."""

    start: int
    stop: int

    def __len__(self) -> int:
        return self.stop - self.start

    @property
    def slice(self) -> slice:
        """The same range as a slice, for indexing arrays."""
        return slice(self.start, self.stop)


def split_evenly(length: int, parts: int) -> list[Span]:
    """Cut [0, length) into `parts` contiguous spans whose sizes differ by at most one."""
    bounds = [length * i // parts for i in range(parts + 1)]
    return [Span(a, b) for a, b in pairwise(bounds)]


def split_by_size(length: int, size: int) -> list[Span]:
    """Cut [0, length) into contiguous spans of `size`; the last may be shorter."""
    return [Span(a, min(a + size, length)) for a in range(0, length, size)]


class TaskRunner(Protocol):
    """Runs one function over many tasks and yields (task, result) as each finishes, in any order.

    Stages take one of these, so that they need not know whether Ray carries the tasks out.
    `function` must be importable by name and tasks and results picklable.
    """

    def __call__(
        self, function: Callable[[Task], Result], tasks: Iterable[Task]
    ) -> Iterator[tuple[Task, Result]]:
        """Run `function` on each task."""
        ...


def run_inline(
    function: Callable[[Task], Result], tasks: Iterable[Task]
) -> Iterator[tuple[Task, Result]]:
    """The TaskRunner of `--workers 0`: one task after another in this process."""
    for task in tasks:
        yield task, function(task)
