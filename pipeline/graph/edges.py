"""The edge table → CSR row shards of the symmetrised, binary, loop-free adjacency.

Two rounds of independent tasks, both bounded in memory whatever the size of the graph:

1. runs: each takes some row groups of the table, maps ids to dense ids, adds the reverse of every
   edge and writes sorted runs of entries (row, column).
2. shards: each takes its range of rows out of every run, sorts, drops duplicates and writes CSR.

Between the rounds the rows are cut into shards of about as many entries each. An entry is one
int64, row · 2^32 + column, so that one numeric sort orders rows and columns. The result depends on
the edges alone: not on files, their order, tasks or workers.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Final

import numpy as np
import numpy.typing as npt

from pipeline.console import Progress
from pipeline.errors import LakeError
from pipeline.graph.ids import IdMap, plain_ids
from pipeline.graph.nodes import NODES, read_ids
from pipeline.lake.tables import Batch, RowGroup, Table
from pipeline.storage.files import map_array, read_json, write_json_durably
from pipeline.storage.sink import BlockSink
from pipeline.types import Array, IntArray, Span, TaskRunner

EDGES: Final = "edges.json"
"""The block that counts what was read and says how rows are cut into shards."""
_RUN_ROWS: Final = 6_000_000
_SHIFT: Final = np.int64(32)

Entries = npt.NDArray[np.int64]


def shard_names(index: int) -> tuple[str, str]:
    """The files of a shard: row pointers (local, int64) and column ids (int32)."""
    return f"shards/{index:04d}.indptr.npy", f"shards/{index:04d}.indices.npy"


def shard_spans(sink: BlockSink) -> list[Span]:
    """The row ranges of the shards, once EDGES is written."""
    return [Span(*ends) for ends in read_json(sink.root / EDGES)["shards"]]


def cut_shards(counts: IntArray, limit: int) -> list[Span]:
    """Ranges of rows with about `limit` entries each, and no more than that and one row's."""
    before = np.concatenate([[0], np.cumsum(counts, dtype=np.int64)])
    inner = np.searchsorted(before, np.arange(limit, before[-1], limit))
    bounds = np.unique(np.concatenate([[0], inner, [len(counts)]]))
    return [Span(int(a), int(b)) for a, b in pairwise(bounds)]


@dataclass(frozen=True)
class RunTask:
    """Some row groups of round 1."""

    index: int
    table: Table
    groups: tuple[RowGroup, ...]
    src: str
    dst: str
    nodes: int
    sink: BlockSink

    @property
    def note(self) -> Path:
        """Says that the task is done, and what it counted."""
        return self.sink.work / f"{self.index:05d}.json"

    @property
    def counts(self) -> Path:
        """Entries of each row, duplicates included: so the sum does not depend on the tasks."""
        return self.sink.work / f"{self.index:05d}.counts.npy"

    def run(self, number: int) -> Path:
        """One sorted run."""
        return self.sink.work / f"{self.index:05d}-{number:03d}.npy"


@dataclass(frozen=True)
class ShardTask:
    """One shard of round 2."""

    index: int
    rows: Span
    parts: tuple[tuple[Path, Span], ...]
    """Its entries in each run."""
    sink: BlockSink


def ingest_edges(
    table: Table,
    src: str,
    dst: str,
    nodes: int,
    shard_entries: int,
    sink: BlockSink,
    run_tasks: TaskRunner,
) -> None:
    """Write all CSR shards and EDGES. The nodes must have been written before."""
    if sink.has(EDGES) and not _missing_shards(sink):
        return
    sink.work.mkdir(parents=True, exist_ok=True)
    tasks = [
        RunTask(index, table, groups, src, dst, nodes, sink)
        for index, groups in enumerate(_group_runs(table))
    ]
    runs: list[Path] = []
    loops = 0
    with Progress("edges", table.rows, "rows") as progress:
        for task, (count, found) in run_tasks(write_runs, tasks):
            runs += [task.run(number) for number in range(count)]
            loops += found
            progress.advance(sum(group.rows for group in task.groups))
    if not sink.has(EDGES):
        counts = np.zeros(nodes, dtype=np.int64)
        for task in tasks:
            counts += map_array(task.counts)
        spans = [[span.start, span.stop] for span in cut_shards(counts, shard_entries)]
        sink.json(EDGES, {"edge_rows": table.rows, "self_loops": loops, "shards": spans})
    shard_tasks = _shard_tasks(runs, sink)
    with Progress("shards", len(shard_tasks), "shards") as progress:
        for _ in run_tasks(write_shard, shard_tasks):
            progress.advance()


def _shard_tasks(runs: list[Path], sink: BlockSink) -> list[ShardTask]:
    spans = shard_spans(sink)
    parts: list[list[tuple[Path, Span]]] = [[] for _ in spans]
    first_entries = [np.int64(span.start) << _SHIFT for span in spans]
    for path in runs:
        run = map_array(path)
        for part, (a, b) in zip(
            parts, pairwise([*np.searchsorted(run, first_entries), len(run)]), strict=True
        ):
            part.append((path, Span(int(a), int(b))))
    return [
        ShardTask(index, spans[index], tuple(parts[index]), sink) for index in _missing_shards(sink)
    ]


def _missing_shards(sink: BlockSink) -> list[int]:
    count = len(shard_spans(sink))
    return [i for i in range(count) if not all(sink.has(name) for name in shard_names(i))]


def write_runs(task: RunTask) -> tuple[int, int]:
    """Round 1: sorted runs of both directions of some edges.

    Returns how many runs there are and how many self-loops were left out.
    """
    if task.note.exists():  # left by an interrupted build
        note = read_json(task.note)
        return note["runs"], note["self_loops"]
    counts = np.zeros(task.nodes, dtype=np.int64)
    runs = loops = 0
    for pieces, found in _entries_in_portions(task):
        loops += found
        for piece in pieces:
            counts += np.bincount(piece >> _SHIFT, minlength=task.nodes)
        _save(task.run(runs), _sorted_distinct(pieces))
        runs += 1
    _save(task.counts, counts)
    # the note last: it vouches for the files
    write_json_durably(task.note, {"runs": runs, "self_loops": loops})
    return runs, loops


def write_shard(task: ShardTask) -> None:
    """Round 2: one CSR shard from its part of every run."""
    entries = _sorted_distinct([_load(path, part) for path, part in task.parts])
    row_starts = np.arange(task.rows.start, task.rows.stop + 1, dtype=np.int64) << _SHIFT
    indptr = np.searchsorted(entries, row_starts).astype(np.int64)
    pointer_name, index_name = shard_names(task.index)
    task.sink.array(pointer_name, indptr)
    task.sink.array(index_name, entries.astype(np.int32))  # keeps the low half: the column


def _group_runs(table: Table) -> list[tuple[RowGroup, ...]]:
    """Row groups gathered until a task has about _RUN_ROWS edges."""
    tasks: list[list[RowGroup]] = []
    rows = 0
    for group in table.groups:
        if not tasks or rows + group.rows > _RUN_ROWS:
            tasks.append([])
            rows = 0
        tasks[-1].append(group)
        rows += group.rows
    return [tuple(groups) for groups in tasks]


def _entries_in_portions(task: RunTask) -> Iterator[tuple[list[Entries], int]]:
    """Entries of both directions and the number of self-loops left out.

    About _RUN_ROWS edges at a time, however large a row group is.
    """
    ids = IdMap(read_ids(task.sink.root / read_json(task.sink.root / NODES)["ids"]))
    pieces: list[Entries] = []
    rows = loops = 0
    for batch in task.table.batches(task.groups):
        a, b = (_dense_ends(batch, name, ids) for name in (task.src, task.dst))
        kept = a != b
        loops += int(len(kept) - kept.sum())
        a, b = a[kept], b[kept]
        pieces += [(a << _SHIFT) | b, (b << _SHIFT) | a]
        rows += batch.data.num_rows
        if rows >= _RUN_ROWS:
            yield pieces, loops
            pieces, rows, loops = [], 0, 0
    if rows:
        yield pieces, loops


def _dense_ends(batch: Batch, name: str, ids: IdMap) -> IntArray:
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


def _sorted_distinct(pieces: list[Array]) -> Entries:
    """All entries, each once, in order. Empties `pieces`: they need not stay in memory."""
    entries = np.concatenate(pieces) if pieces else np.empty(0, dtype=np.int64)
    pieces.clear()
    entries.sort()
    distinct = np.empty(len(entries), dtype=bool)
    distinct[:1] = True
    np.not_equal(entries[1:], entries[:-1], out=distinct[1:])
    return entries[distinct]


def _load(path: Path, part: Span) -> Entries:
    """Some entries of a run, read rather than mapped: mapped pages would count as memory."""
    with path.open("rb") as file:
        header = np.lib.format.read_magic(file)
        assert header == (1, 0), header
        np.lib.format.read_array_header_1_0(file)
        return np.fromfile(file, dtype=np.int64, count=len(part), offset=8 * part.start)


def _save(path: Path, array: Array) -> None:
    with path.open("wb") as file:
        np.save(file, array, allow_pickle=False)
        os.fsync(file.fileno())
