"""The node table → ids, feature blocks and labels of a GraphStore."""

from __future__ import annotations

from collections.abc import Collection
from contextlib import ExitStack
from pathlib import Path
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from pipeline.config import IngestConfig
from pipeline.console import Progress
from pipeline.errors import LakeError
from pipeline.graph.ids import first_duplicate, plain_ids
from pipeline.lake.tables import Batch, Table
from pipeline.storage.files import map_array, read_json
from pipeline.storage.sink import BlockSink
from pipeline.types import FloatArray, IntArray, Span, split_by_size

FEATURE_BLOCK: Final = 64
"""Columns of a feature file: what the propagation kernel takes at a time."""
UNLABELLED: Final = -1

LABELS: Final = "labels.npy"
NODES: Final = "nodes.json"
INTEGER_IDS: Final = "ids.npy"
STRING_IDS: Final = "ids.parquet"


def feature_blocks(features: int) -> list[tuple[str, Span]]:
    """The files that hold `features` columns, each with the columns it holds."""
    spans = split_by_size(features, FEATURE_BLOCK)
    return [(f"features/{index:04d}.npy", span) for index, span in enumerate(spans)]


def nodes_finished(sink: BlockSink) -> bool:
    """Whether everything that `ingest_nodes` writes is there."""
    if not sink.has(NODES):
        return False
    found = read_json(sink.root / NODES)
    features = [name for name, _ in feature_blocks(found["features"])]
    return all(sink.has(name) for name in [LABELS, found["ids"], *features])


def ingest_nodes(table: Table, config: IngestConfig, sink: BlockSink) -> None:
    """Write ids, features and labels in the order of the node table.

    Features go to files of 64 columns, [nodes, 64] float32 each, so that a worker that propagates
    some columns reads those alone. One pass, one batch in memory at a time.

    Raises:
        LakeError: naming file, column and row of what cannot be used.
    """
    if table.rows == 0:
        raise LakeError(f"{table.uri} has no rows: a graph needs nodes.")
    if table.rows >= 2**31:
        raise LakeError(
            f"{table.uri} has {table.rows:,} rows; at most {2**31 - 1:,} are supported."
        )
    ids: list[Any] = []
    labels: list[Any] = []
    with ExitStack() as stack, Progress("nodes", table.rows, "rows") as progress:
        writers = None
        for batch in table.batches():
            features = _features(batch, config.features)
            if writers is None:
                width = features.shape[1]
                writers = [
                    (
                        span,
                        stack.enter_context(
                            sink.array_writer(name, (table.rows, len(span)), np.float32)
                        ),
                    )
                    for name, span in feature_blocks(width)
                ]
            if features.shape[1] != width:
                raise LakeError(
                    f"{batch.file}: column {config.features!r} has {features.shape[1]} features a "
                    f"row, but {width} in {table.files[0].path}."
                )
            for span, writer in writers:
                writer.append(features[:, span.slice])
            where = f"{batch.file}: column {config.id!r}"
            ids.append(plain_ids(batch.column(config.id), where))
            labels.append(_plain_labels(batch, config.label))
            progress.advance(batch.data.num_rows)
    ids_file = _write_ids(pa.concat_arrays(ids), table, config, sink)
    classes = _write_labels(pa.concat_arrays(labels), sink)
    sink.json(NODES, {"features": width, "classes": classes, "ids": ids_file})


def read_ids(path: Path) -> Any:
    """The original ids in INTEGER_IDS or STRING_IDS, as an Arrow array by dense id."""
    if path.name == INTEGER_IDS:
        return pa.array(map_array(path))
    return pq.read_table(path).column("id").combine_chunks()


def ids_name(blocks: Collection[str]) -> str:
    """Which of the two a store's blocks have."""
    return INTEGER_IDS if INTEGER_IDS in blocks else STRING_IDS


def _features(batch: Batch, name: str) -> FloatArray:
    column = batch.column(name)
    kind = column.type
    is_list = pa.types.is_list(kind) or pa.types.is_large_list(kind)
    if pa.types.is_fixed_size_list(kind):
        width = kind.list_size
    elif is_list:
        width = _common_length(batch, name, column)
    else:
        raise LakeError(
            f"{batch.file}: column {name!r} must hold a list of numbers in each row, not {kind}."
        )
    values = column.flatten()
    if not (pa.types.is_integer(values.type) or pa.types.is_floating(values.type)):
        raise LakeError(
            f"{batch.file}: column {name!r} must hold lists of numbers, not of {values.type}."
        )
    if width == 0:
        raise LakeError(f"{batch.file}: column {name!r} holds empty lists: no features.")
    if values.null_count:
        row = values.is_null().index(True).as_py() // width
        raise LakeError(f"{batch.place(row)}: column {name!r} holds a null among its features.")
    with np.errstate(over="ignore"):  # what does not fit becomes infinite and is refused below
        flat: FloatArray = values.to_numpy(zero_copy_only=False).astype(np.float32, copy=False)
    matrix = flat.reshape(-1, width)
    finite = np.isfinite(matrix)
    if not finite.all():
        row, feature = (int(i) for i in np.argwhere(~finite)[0])
        raise LakeError(
            f"{batch.place(row)}: column {name!r} holds {matrix[row, feature]} as feature "
            f"{feature}; features must be finite numbers within the range of float32."
        )
    return matrix


def _common_length(batch: Batch, name: str, column: Any) -> int:
    lengths = pc.list_value_length(column).to_numpy(zero_copy_only=False)
    if len(lengths) == 0:
        return 0
    odd = np.flatnonzero(lengths != lengths[0])
    if len(odd):
        row = int(odd[0])
        raise LakeError(
            f"{batch.place(row)}: column {name!r} has {lengths[row]} features, "
            f"but {lengths[0]} in row {batch.first_row:,}; all rows must have as many."
        )
    return int(lengths[0])


def _plain_labels(batch: Batch, name: str) -> Any:
    column = batch.data.column(name)
    if pa.types.is_dictionary(column.type):
        column = column.dictionary_decode()
    if pa.types.is_integer(column.type):
        try:
            column = column.cast(pa.int64())
        except pa.ArrowInvalid as error:
            raise LakeError(
                f"{batch.file}: column {name!r} holds a class past 2^63 − 1 ({error})."
            ) from error
        return pc.if_else(pc.equal(column, UNLABELLED), None, column)
    if pa.types.is_string(column.type) or pa.types.is_large_string(column.type):
        return column.cast(pa.large_string())
    if pa.types.is_null(column.type):
        return column.cast(pa.int64())
    raise LakeError(
        f"{batch.file}: column {name!r} must hold integer or string classes, not {column.type}."
    )


def _write_ids(ids: Any, table: Table, config: IngestConfig, sink: BlockSink) -> str:
    row = first_duplicate(ids)
    if row is not None:
        file, local = _file_of_row(table, row)
        raise LakeError(
            f"{file}, row {local:,}: column {config.id!r} holds {ids[row].as_py()!r}, "
            "which an earlier row has too; ids must be unique."
        )
    if pa.types.is_integer(ids.type):
        sink.array(INTEGER_IDS, ids.to_numpy(zero_copy_only=False))
        return INTEGER_IDS
    with sink.file(STRING_IDS) as path:
        pq.write_table(pa.table({"id": ids}), path, write_page_checksum=True)
    return STRING_IDS


def _file_of_row(table: Table, row: int) -> tuple[str, int]:
    for group in table.groups:
        if row < group.rows:
            return group.file, group.first_row + row
        row -= group.rows
    raise AssertionError("row past the end of the table")


def _write_labels(labels: Any, sink: BlockSink) -> list[Any]:
    classes = pc.unique(labels.drop_null()).sort()
    dense = pc.fill_null(pc.index_in(labels, value_set=classes), UNLABELLED)
    dense = pc.if_else(labels.is_valid(), dense, UNLABELLED)
    values: IntArray = dense.to_numpy(zero_copy_only=False).astype(np.int32)
    sink.array(LABELS, values)
    return list(classes.to_pylist())
