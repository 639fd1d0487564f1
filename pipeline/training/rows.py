"""The rows of a basis that one worker needs."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final, Protocol

import numpy as np
import torch
from torch import Tensor

from pipeline.console import format_bytes, say
from pipeline.errors import ConfigError
from pipeline.measure import available_memory
from pipeline.training.group import WorkerGroup
from pipeline.types import FloatArray, IntArray, Span, split_by_size

_LOAD_BYTES: Final = 64 << 20


class BasisReader(Protocol):
    """What training reads of a basis T_k(P)X, k = 0..order. Labels are int32 [nodes], −1 = none."""

    @property
    def nodes(self) -> int: ...  # noqa: D102

    @property
    def features(self) -> int: ...  # noqa: D102

    @property
    def classes(self) -> int: ...  # noqa: D102

    @property
    def order(self) -> int: ...  # noqa: D102

    @property
    def labels(self) -> IntArray: ...  # noqa: D102

    def read_rows(self, rows: IntArray, hops: int) -> FloatArray:
        """Hops 0..hops−1 of ascending `rows`, float32 [hops, len(rows), features]."""
        ...


class StoredBasis(BasisReader, Protocol):
    """A basis with its papers: pipeline.basis.store.BasisStore."""

    @property
    def content(self) -> str:
        """The fingerprint of its content."""
        ...

    @property
    def facts(self) -> dict[str, Any]:
        """What is known of it: counts, names of classes, operator."""
        ...

    def measurements(self) -> dict[str, Any]:
        """Seconds and memory of its making; may be empty."""
        ...


class RowSource:
    """Some rows of a basis with their labels, held in memory or read when they are asked for.

    Both ways give the same bits. Shapes: rows float32 [hops, rows, F], labels int64 [rows].
    """

    def __init__(self, basis: BasisReader, rows: IntArray, hops: int, *, hold: bool) -> None:
        self._basis, self._rows, self._hops = basis, rows, hops
        self.labels = torch.from_numpy(np.asarray(basis.labels[rows], dtype=np.int64))
        self._held = _load(basis, rows, hops) if hold else None

    def __len__(self) -> int:
        return len(self._rows)

    def take(self, positions: IntArray) -> tuple[Tensor, Tensor]:
        """The rows at ascending `positions` and their labels."""
        chosen = torch.from_numpy(positions)
        labels = self.labels[chosen]
        if self._held is None:
            return self._read(self._rows[positions]), labels
        result = torch.empty(self._hops, len(positions), self._basis.features)
        for hop in range(self._hops):  # eight times as fast as one index_select along axis 1
            torch.index_select(self._held[hop], 0, chosen, out=result[hop])
        return result, labels

    def span(self, span: Span) -> tuple[Tensor, Tensor]:
        """The rows at positions in `span` and their labels; no copy where they are in memory."""
        labels = self.labels[span.slice]
        if self._held is None:
            return self._read(self._rows[span.slice]), labels
        return self._held[:, span.slice], labels

    def _read(self, rows: IntArray) -> Tensor:
        return torch.from_numpy(self._basis.read_rows(rows, self._hops))


def _load(basis: BasisReader, rows: IntArray, hops: int) -> Tensor:
    held = torch.empty(hops, len(rows), basis.features)
    # in pieces: what the store needs on the way must not double the memory
    piece = max(1, _LOAD_BYTES // (4 * hops * basis.features))
    for span in split_by_size(len(rows), piece):
        held[:, span.slice] = torch.from_numpy(basis.read_rows(rows[span.slice], hops))
    return held


def open_rows(
    basis: BasisReader,
    parts: Sequence[IntArray],
    hops: int,
    memory: int | None,
    group: WorkerGroup,
) -> list[RowSource]:
    """A source for each of this worker's `parts`: all in memory if they fit, else none.

    `memory` is this worker's budget in bytes; None takes half of its share of what is free.
    """
    if memory is None:
        memory = available_memory() // (2 * group.size)
    needed = 4 * hops * basis.features * sum(len(rows) for rows in parts)
    hold = needed <= memory
    if group.rank == 0:
        size = format_bytes(needed)
        say(
            f"  rows: {size} a worker, held in memory"
            if hold
            else f"  rows: {size} a worker are more than the {format_bytes(memory)} it may use; "
            "each batch is read from the store"
        )
    return [RowSource(basis, rows, hops, hold=hold) for rows in parts]


def check_order(basis: BasisReader, order: int, model: str) -> None:
    """Refuse a head that needs more hops than the basis has.

    Raises:
        ConfigError: it does.
    """
    if order > basis.order:
        raise ConfigError(
            f"The basis goes up to order {basis.order}, but {model} with these K1 and K2 needs "
            f"order {order}; propagate with --order {order}, or lower K1 and K2."
        )
