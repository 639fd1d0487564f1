"""The edge table → CSR row shards of the symmetrised, binary, loop-free adjacency.

Two rounds of independent tasks, both bounded in memory whatever the size of the graph:

1. runs: each takes some row groups of the table, maps ids to dense ids, adds the reverse of every
   edge and writes one sorted run of entries (row, column).
2. shards: each takes its range of rows out of every run, sorts, drops duplicates and writes CSR.

An entry is one int64, row · 2^32 + column, so that one numeric sort orders rows and columns. The
result depends on the set of edges alone: not on files, their order, tasks or workers.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from pipeline.console import Progress
from pipeline.errors import LakeError
from pipeline.graph.ids import IdMap, plain_ids
from pipeline.graph.nodes import read_ids
from pipeline.lake.tables import RowGroup, Table
from pipeline.storage.artifact import BUILDING
from pipeline.storage.build import BlockSink
from pipeline.storage.files import map_array, read_json, write_json_durably
from pipeline.types import Array, IntArray, Span, TaskRunner, split_evenly

COUNTS: Final = "counts.json"
_RUN_ROWS: Final = 8_000_000
_SHIFT: Final = np.int64(32)
_LOW: Final = np.int64(2**32 - 1)


def shard_names(index: int) -> tuple[str, str]:
    """The files of a shard: row pointers (local, int64) and column ids (int32)."""
    return f"shards/{index:04d}.indptr.npy", f"shards/{index:04d}.indices.npy"


def plan_shards(nodes: int, edge_rows: int, shard_entries: int) -> list[Span]:
    """Row ranges of the shards: equal rows, about `shard_entries` entries each at the most."""
    wanted = -(-2 * edge_rows // shard_entries)
    return split_evenly(nodes, max(1, min(wanted, nodes)))


@dataclass(frozen=True)
class RunTask:
    """One run of round 1."""

    index: int
    table: Table
    groups: tuple[RowGroup, ...]
    src: str
    dst: str
    shards: tuple[Span, ...]
    root: Path


@dataclass(frozen=True)
class ShardTask:
    """One shard of round 2."""

    index: int
    rows: Span
    runs: int
    sink: BlockSink


def ingest_edges(
    table: Table, src: str, dst: str, shards: list[Span], sink: BlockSink, run_tasks: TaskRunner
) -> None:
    """Write all CSR shards and the counts of what was read. Nodes must have been written before."""
    missing = [i for i in range(len(shards)) if not all(sink.has(n) for n in shard_names(i))]
    if not missing and sink.has(COUNTS):
        return
    tasks = [
        RunTask(index, table, groups, src, dst, tuple(shards), sink.root)
        for index, groups in enumerate(_group_runs(table))
    ]
    with Progress("edges", table.rows, "rows") as progress:
        loops = 0
        for task, found in run_tasks(write_run, tasks):
            loops += found
            progress.advance(sum(group.rows for group in task.groups))
    shard_tasks = [ShardTask(i, shards[i], len(tasks), sink) for i in missing]
    with Progress("shards", len(shard_tasks), "shards") as progress:
        for _ in run_tasks(write_shard, shard_tasks):
            progress.advance()
    sink.json(COUNTS, {"edge_rows": table.rows, "self_loops": loops})


def write_run(task: RunTask) -> int:
    """Round 1: one sorted run of both directions of some edges. Returns the self-loops dropped."""
    run, note = _run_files(task.root, task.index)
    if note.exists():  # left by an interrupted build
        return int(read_json(note)["self_loops"])
    ids = IdMap(read_ids(task.root))
    pieces: list[npt.NDArray[np.int64]] = []
    loops = 0
    for batch in task.table.batches(task.groups):
        ends = [_dense_ends(batch, name, ids) for name in (task.src, task.dst)]
        kept = ends[0] != ends[1]
        loops += int(len(kept) - kept.sum())
        a, b = ends[0][kept], ends[1][kept]
        pieces += [(a << _SHIFT) | b, (b << _SHIFT) | a]
    entries = _sorted_distinct(pieces)
    bounds = np.searchsorted(entries, [np.int64(span.start) << _SHIFT for span in task.shards])
    run.parent.mkdir(parents=True, exist_ok=True)
    with run.open("wb") as file:
        np.save(file, entries, allow_pickle=False)
        os.fsync(file.fileno())
    # the note second: it vouches for the run
    write_json_durably(
        note, {"self_loops": loops, "bounds": [*(int(b) for b in bounds), len(entries)]}
    )
    return loops


def write_shard(task: ShardTask) -> None:
    """Round 2: one CSR shard from its part of every run."""
    pieces: list[Array] = []
    for index in range(task.runs):
        run, note = _run_files(task.sink.root, index)
        bounds = read_json(note)["bounds"]
        part = slice(bounds[task.index], bounds[task.index + 1])
        if part.start < part.stop:
            pieces.append(map_array(run)[part])
    entries = _sorted_distinct(pieces)
    rows = (entries >> _SHIFT) - task.rows.start
    indptr = np.zeros(len(task.rows) + 1, dtype=np.int64)
    np.cumsum(np.bincount(rows, minlength=len(task.rows)), out=indptr[1:])
    pointer_name, index_name = shard_names(task.index)
    task.sink.array(pointer_name, indptr)
    task.sink.array(index_name, (entries & _LOW).astype(np.int32))


def _group_runs(table: Table) -> list[tuple[RowGroup, ...]]:
    """Row groups gathered until a run has about _RUN_ROWS edges."""
    runs: list[tuple[RowGroup, ...]] = []
    current: list[RowGroup] = []
    for group in table.groups:
        if current and sum(g.rows for g in current) + group.rows > _RUN_ROWS:
            runs.append(tuple(current))
            current = []
        current.append(group)
    return [*runs, tuple(current)] if current else runs


def _dense_ends(batch: Any, name: str, ids: IdMap) -> IntArray:
    column = plain_ids(batch.column(name), f"{batch.file}: column {name!r}")
    if column.type != ids.type:
        raise LakeError(
            f"{batch.file}: column {name!r} holds {column.type}, but the node ids are {ids.type}."
        )
    dense = ids.dense(column)
    if (dense < 0).any():
        row = int(np.argmax(dense < 0))
        raise LakeError(
            f"{batch.place(row)}: column {name!r} names node {column[row].as_py()!r}, "
            "which the node table does not have."
        )
    return dense


def _sorted_distinct(pieces: list[Array]) -> npt.NDArray[np.int64]:
    entries = np.concatenate(pieces) if pieces else np.empty(0, dtype=np.int64)
    entries.sort()
    distinct = np.empty(len(entries), dtype=bool)
    distinct[:1] = True
    np.not_equal(entries[1:], entries[:-1], out=distinct[1:])
    return entries[distinct]


def _run_files(root: Path, index: int) -> tuple[Path, Path]:
    folder = root / BUILDING / "runs"
    return folder / f"{index:05d}.npy", folder / f"{index:05d}.json"
