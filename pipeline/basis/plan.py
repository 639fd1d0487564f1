"""Which columns are propagated together, and what that will cost: decided before any work."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from pipeline.console import format_bytes
from pipeline.errors import ConfigError
from pipeline.types import Span, StoreDtype, split_by_size, split_evenly

BEST_WIDTH: Final = 64
"""Columns of a block when memory allows: gathers of 256 bytes, and a feature file's width."""
_BUFFERS: Final = 3
"""float32 [nodes, width] arrays a worker holds: previous, current, and current scaled by S."""
_FIXED_BYTES: Final = 300 << 20
"""The interpreter and its libraries in each worker."""


@dataclass(frozen=True, kw_only=True)
class PropagationPlan:
    """The passes of one propagation."""

    blocks: tuple[Span, ...]
    """Column ranges; each is one independent task."""
    hops: int
    """Sparse products for each block."""
    column_bytes: int
    """Memory a worker needs for each column of a block."""
    fixed_bytes: int
    """Memory a worker needs besides."""
    bytes_written: int
    """What all blocks take on disk."""
    graph_bytes: int
    """The memory-mapped graph, once a machine."""

    @property
    def worker_bytes(self) -> int:
        """Memory a worker needs for the widest block, besides the shared, memory-mapped graph."""
        return self.fixed_bytes + max(map(len, self.blocks)) * self.column_bytes

    def describe(self, workers: int, threads: int) -> str:
        """One line to print before the work."""
        width = max(len(block) for block in self.blocks)
        who = f"{workers} workers" if workers else "this process"
        return (
            f"{len(self.blocks)} column blocks of up to {width}, {self.hops} hops each, on {who} "
            f"of {threads} thread{'s' if threads > 1 else ''}; "
            f"{format_bytes(self.worker_bytes)} a worker, graph {format_bytes(self.graph_bytes)} "
            f"shared, {format_bytes(self.bytes_written)} to write"
        )


def make_plan(
    *,
    nodes: int,
    entries: int,
    features: int,
    order: int,
    dtype: StoreDtype,
    memory: int,
    workers: int,
    block_columns: int | None = None,
) -> PropagationPlan:
    """Choose the widest useful block that fits in `memory` bytes a worker.

    Raises:
        ConfigError: not even one column fits; the message names the memory that would do.
    """
    item = 2 if dtype is StoreDtype.FLOAT16 else 4
    column_bytes = nodes * (_BUFFERS * 4 + (item if dtype is StoreDtype.FLOAT16 else 0))
    fixed = _FIXED_BYTES + nodes * 8  # degrees and S
    fitting = (memory - fixed) // max(column_bytes, 1)
    if fitting < 1:
        raise ConfigError(
            f"memory of {format_bytes(memory)} a worker is too little: one column of {nodes:,} "
            f"nodes needs {format_bytes(fixed + column_bytes)}."
        )
    if block_columns is not None and block_columns > fitting:
        raise ConfigError(
            f"block_columns {block_columns} needs "
            f"{format_bytes(fixed + block_columns * column_bytes)} a worker, more than the "
            f"{format_bytes(memory)} there is."
        )
    width = block_columns or int(min(fitting, BEST_WIDTH, features))
    blocks = split_by_size(features, width)
    if block_columns is None and len(blocks) < workers:  # a block for everyone
        blocks = split_evenly(features, min(workers, features))
    return PropagationPlan(
        blocks=tuple(blocks),
        hops=order,
        column_bytes=column_bytes,
        fixed_bytes=fixed,
        bytes_written=nodes * features * item * (order + 1),
        graph_bytes=entries * 4 + nodes * 8,
    )
