"""A basis in memory and workers that are threads."""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import Any, TypeVar

import numpy as np
from torch import Tensor

from pipeline.training.group import WorkerGroup
from pipeline.types import FloatArray, IntArray

T = TypeVar("T")


@dataclass
class FakeBasis:
    """values [order+1, nodes, F], labels [nodes]; counts what is read."""

    values: FloatArray
    labels: IntArray
    content: str = "content"
    reads: list[int] = field(default_factory=list)

    @property
    def nodes(self) -> int:
        return int(self.values.shape[1])

    @property
    def features(self) -> int:
        return int(self.values.shape[2])

    @property
    def classes(self) -> int:
        return int(self.labels.max(initial=0)) + 1

    @property
    def order(self) -> int:
        return int(self.values.shape[0]) - 1

    @property
    def facts(self) -> dict[str, Any]:
        return {
            "nodes": self.nodes,
            "entries": 2 * self.nodes,
            "features": self.features,
            "classes": self.classes,
            "class_names": [str(c) for c in range(self.classes)],
            "labelled": int((self.labels >= 0).sum()),
            "homophily": 0.5,
            "operator": "sym",
            "order": self.order,
            "dtype": "float32",
        }

    def measurements(self) -> dict[str, Any]:
        return {"seconds": {"read": 1.0, "hops": 2.0}, "peak_memory_bytes": 5}

    def read_rows(self, rows: IntArray, hops: int) -> FloatArray:
        assert np.all(np.diff(rows) > 0), "rows must ascend"
        self.reads.append(len(rows))
        return np.ascontiguousarray(self.values[:hops, rows])


def toy_basis(
    nodes: int = 400,
    features: int = 6,
    classes: int = 3,
    order: int = 2,
    signal: int = 0,
    strength: float = 3.0,
) -> FakeBasis:
    """Noise, except that hop `signal` shows the class. A tenth of the nodes is unlabelled."""
    random = np.random.RandomState(7)
    labels = random.randint(classes, size=nodes).astype(np.int32)
    values = random.standard_normal((order + 1, nodes, features)).astype(np.float32)
    centres = strength * random.standard_normal((classes, features))
    values[signal] = (centres[labels] + 0.5 * values[signal]).astype(np.float32)
    labels[random.permutation(nodes)[: nodes // 10]] = -1
    return FakeBasis(values, labels)


class ThreadGroup:
    """One of several threads that add up tensors in the order of their ranks."""

    def __init__(self, rank: int, shared: list[Tensor | None], barrier: threading.Barrier) -> None:
        self.rank, self.size = rank, len(shared)
        self._shared, self._barrier = shared, barrier

    def sum_(self, tensor: Tensor) -> None:
        self._shared[self.rank] = tensor.clone()
        self._barrier.wait(60)
        parts = [part for part in self._shared if part is not None]
        total = parts[0].clone()
        for part in parts[1:]:
            total += part
        tensor.copy_(total)
        self._barrier.wait(60)


def run_workers(size: int, function: Callable[[WorkerGroup], T]) -> list[T]:
    """What `function` gives in each of `size` workers."""
    shared: list[Tensor | None] = [None] * size
    barrier = threading.Barrier(size)
    with ThreadPoolExecutor(size) as pool:
        groups = [ThreadGroup(rank, shared, barrier) for rank in range(size)]
        return list(pool.map(function, groups))
