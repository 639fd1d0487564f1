"""One hop on the CPU: rows of the Chebyshev recurrence, without stored matrix values.

P = S A S with S = diag(s) acts as: gather rows already multiplied by s, add them up, multiply the
sum by s. The matrix is then column ids alone. Each row is summed in the order of its column ids and
each column on its own, so the result has the same bits whatever the shards, threads or block width.
"""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import Executor
from itertools import pairwise
from typing import Final

import numba
import numpy as np

from pipeline.graph.store import Shard
from pipeline.types import FloatArray, IntArray, Operator, split_evenly

_PIECE: Final = 128
"""Neighbours that are added up at a time."""


def inverse_sqrt_degrees(degrees: IntArray, operator: Operator) -> FloatArray:
    """The diagonal of S: (d + 1)^-1/2 with self-loops, d^-1/2 without; 0 for an isolated node."""
    counted = degrees.astype(np.float64) + (1 if operator is Operator.SYM_LOOPS else 0)
    with np.errstate(divide="ignore"):
        scale = 1 / np.sqrt(counted)
    scale[counted == 0] = 0
    return scale.astype(np.float32)


@numba.njit(nogil=True, cache=True, boundscheck=False)
def _hop_rows(  # type: ignore[no-untyped-def]
    indptr, indices, first_row, start, stop, scale, gathered, loops, factor, previous
):
    """For rows start..stop of a shard: previous ← factor · s_i · Σ_j gathered_j − previous.

    Long rows are summed in pieces, so that the rounding errors of a hub with n neighbours add up to
    about n / _PIECE + _PIECE of them instead of n.
    """
    width = np.uint64(gathered.shape[1])  # unsigned: signed indices keep LLVM from vectorising
    piece = np.empty(gathered.shape[1], dtype=np.float32)
    total = np.empty(gathered.shape[1], dtype=np.float32)
    for local in range(start, stop):
        row = np.uint64(first_row + local)
        for c in range(width):
            total[c] = gathered[row, c] if loops else np.float32(0)
        first, last = np.uint64(indptr[local]), np.uint64(indptr[local + 1])
        while first < last:
            until = min(first + np.uint64(_PIECE), last)
            for c in range(width):
                piece[c] = np.float32(0)
            for entry in range(first, until):
                neighbour = np.uint64(indices[entry])
                for c in range(width):
                    piece[c] += gathered[neighbour, c]
            for c in range(width):
                total[c] += piece[c]
            first = until
        weight = factor * scale[row]
        for c in range(width):
            previous[row, c] = weight * total[c] - previous[row, c]


@numba.njit(nogil=True, cache=True, boundscheck=False)
def _scale_rows(scale, values, out, start, stop):  # type: ignore[no-untyped-def]
    """Set out ← s_i · values for rows start..stop."""
    width = np.uint64(values.shape[1])
    for row in range(np.uint64(start), np.uint64(stop)):
        for c in range(width):
            out[row, c] = scale[row] * values[row, c]


def equal_entry_chunks(indptr: IntArray, chunks: int) -> list[tuple[int, int]]:
    """Cut a shard's rows into ranges of about equally many entries, so that hubs are shared out.

    A row costs its entries and one more, so that ranges of isolated nodes are cut too.
    """
    rows = len(indptr) - 1
    cost = np.asarray(indptr, dtype=np.int64) + np.arange(rows + 1)
    marks = np.linspace(0, cost[-1], chunks + 1)
    bounds = np.searchsorted(cost, marks).clip(0, rows)
    bounds[0], bounds[-1] = 0, rows
    return [(int(a), int(b)) for a, b in pairwise(bounds) if a < b]


def hop(
    shards: Sequence[Shard],
    scale: FloatArray,
    operator: Operator,
    gathered: FloatArray,
    previous: FloatArray,
    factor: float,
    pool: Executor,
    threads: int,
) -> None:
    """Set previous ← factor · P · current − previous, where gathered = S · current.

    Args:
        shards: the whole graph.
        scale: the diagonal of S, [nodes].
        operator: with or without self-loops.
        gathered: [nodes, width], from `scale_rows`.
        previous: [nodes, width]; zeros and factor 1 give P · current itself.
        factor: 2 in the recurrence, 1 in its first step.
        pool: where the row ranges run.
        threads: how many of them run at a time.
    """
    loops = operator is Operator.SYM_LOOPS
    chunks_a_shard = 1 if threads == 1 else 4 * threads
    jobs = [
        pool.submit(
            _hop_rows,
            shard.indptr,
            shard.indices,
            shard.rows.start,
            start,
            stop,
            scale,
            gathered,
            loops,
            np.float32(factor),
            previous,
        )
        for shard in shards
        for start, stop in equal_entry_chunks(shard.indptr, chunks_a_shard)
    ]
    for job in jobs:
        job.result()


def scale_rows(
    scale: FloatArray, values: FloatArray, out: FloatArray, pool: Executor, threads: int
) -> None:
    """Set out ← S · values: what the next hop gathers."""
    jobs = [
        pool.submit(_scale_rows, scale, values, out, span.start, span.stop)
        for span in split_evenly(len(values), threads)
    ]
    for job in jobs:
        job.result()
