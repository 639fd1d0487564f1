"""Reading Parquet tables in bounded memory, with errors that name file, column and row."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from itertools import groupby
from typing import Any, Final

import pyarrow as pa
import pyarrow.parquet as pq

from pipeline.errors import LakeError
from pipeline.storage.uri import SourceFile, list_parquet, resolve

_WIDTHS: Final = {"BOOLEAN": 1, "INT32": 4, "INT64": 8, "FLOAT": 4, "DOUBLE": 8}
BATCH_BYTES: Final = 64 << 20
"""About how much decoded data a batch may hold."""


@dataclass(frozen=True)
class RowGroup:
    """A piece of a table that can be read on its own."""

    file: str
    index: int
    first_row: int
    """The row's number within the file, for error messages."""
    rows: int


@dataclass(frozen=True)
class Batch:
    """Some rows of one file, as Arrow columns."""

    file: str
    first_row: int
    data: Any

    def column(self, name: str) -> Any:
        """One column as an Arrow array without nulls.

        Raises:
            LakeError: a value is null.
        """
        column = self.data.column(name)
        if column.null_count:
            row = self.first_row + column.is_null().index(True).as_py()
            raise LakeError(f"{self.file}: column {name!r} is null in row {row:,}.")
        return column

    def place(self, row: int) -> str:
        """Where row `row` of this batch stands, for error messages."""
        return f"{self.file}, row {self.first_row + row:,}"


@dataclass(frozen=True)
class Table:
    """A Parquet table of one or many files with the columns that are needed of it."""

    uri: str
    files: tuple[SourceFile, ...]
    groups: tuple[RowGroup, ...]
    columns: tuple[str, ...]
    row_bytes: float
    """Decoded bytes of the needed columns in one row, about."""

    @property
    def rows(self) -> int:
        """How many rows the table has."""
        return sum(group.rows for group in self.groups)

    def identity(self) -> list[list[str | int]]:
        """What tells this version of the table from another: name, size and time of each file."""
        names = [file.path.rsplit("/", 1)[-1] for file in self.files]
        return [
            [name, file.size, file.modified_ns]
            for name, file in zip(names, self.files, strict=True)
        ]

    def batches(self, groups: Sequence[RowGroup] | None = None) -> Iterator[Batch]:
        """All rows, or those of some row groups, in order and in batches of bounded size.

        Row groups of one file must be consecutive, as `groups` has them.
        """
        filesystem, _ = resolve(self.uri)
        rows = max(1, int(BATCH_BYTES / max(self.row_bytes, 1)))
        wanted = self.groups if groups is None else groups
        for file, of_file in groupby(wanted, key=lambda group: group.file):
            together = list(of_file)
            first = together[0].first_row
            try:
                with filesystem.open_input_file(file) as source:
                    reader = pq.ParquetFile(source, page_checksum_verification=True)
                    for data in reader.iter_batches(
                        batch_size=rows,
                        row_groups=[group.index for group in together],
                        columns=list(self.columns),
                    ):
                        yield Batch(file, first, data)
                        first += data.num_rows
            except (OSError, pa.ArrowException) as error:
                raise LakeError(
                    f"{file} cannot be read past row {first:,} ({_brief(error)})."
                ) from error


def open_table(uri: str, columns: Sequence[str]) -> Table:
    """Read the footers of all files of a table and check that each has the columns.

    Raises:
        LakeError: the table does not exist, is no Parquet, lacks a column, or mixes types.
    """
    filesystem, files = list_parquet(uri)
    groups: list[RowGroup] = []
    first_types: dict[str, Any] = {}
    total_bytes = 0
    for file in files:
        try:
            with filesystem.open_input_file(file.path) as source:
                reader = pq.ParquetFile(source)
                metadata, schema = reader.metadata, reader.schema_arrow
        except (OSError, pa.ArrowException) as error:
            raise LakeError(
                f"{file.path} is not a readable Parquet file ({_brief(error)})."
            ) from error
        _check_columns(file.path, schema, columns, first_types, files[0].path)
        total_bytes += _needed_bytes(metadata, columns)
        first = 0
        for index in range(metadata.num_row_groups):
            rows = metadata.row_group(index).num_rows
            groups.append(RowGroup(file.path, index, first, rows))
            first += rows
    rows = sum(group.rows for group in groups)
    return Table(uri, tuple(files), tuple(groups), tuple(columns), total_bytes / max(rows, 1))


def _check_columns(
    file: str, schema: Any, columns: Sequence[str], first_types: dict[str, Any], first_file: str
) -> None:
    for name in columns:
        if schema.get_field_index(name) < 0:
            close = get_close_matches(name, schema.names, n=1)
            hint = f" Did you mean {close[0]!r}?" if close else ""
            raise LakeError(
                f"{file} has no column {name!r}; it has {', '.join(schema.names)}.{hint}"
            )
        found = schema.field(name).type
        expected = first_types.setdefault(name, found)
        if found != expected:
            raise LakeError(f"{file}: column {name!r} is {found}, but {expected} in {first_file}.")


def _needed_bytes(metadata: Any, columns: Sequence[str]) -> int:
    """Decoded size of the needed columns: leaves of a list column are named x.list.element.

    Dictionaries and bit packing make the encoded size far smaller, so numbers are counted.
    """
    total = 0
    for group in range(metadata.num_row_groups):
        for leaf in range(metadata.num_columns):
            chunk = metadata.row_group(group).column(leaf)
            if chunk.path_in_schema.split(".", 1)[0] in columns:
                decoded = chunk.num_values * _WIDTHS.get(chunk.physical_type, 0)
                total += max(decoded, chunk.total_uncompressed_size)
    return total


def _brief(error: BaseException) -> str:
    lines = str(error).strip().splitlines()
    return lines[0].rstrip(".") if lines else type(error).__name__
