"""From the lake's node ids to dense ids 0..N−1: the order of the node table."""

from __future__ import annotations

from typing import Any

import numpy as np
import polars as pl
import pyarrow as pa
import pyarrow.compute as pc

from pipeline.errors import LakeError
from pipeline.types import IntArray


def plain_ids(column: Any, where: str) -> Any:
    """An id column as int64 or large_string, whatever integer or string type it came in.

    Raises:
        LakeError: ids of another type, or integers past 2^63 − 1.
    """
    if pa.types.is_dictionary(column.type):
        column = column.dictionary_decode()
    if pa.types.is_integer(column.type):
        try:
            return column.cast(pa.int64())
        except pa.ArrowInvalid as error:
            raise LakeError(f"{where} holds an id past 2^63 − 1 ({error}).") from error
    if pa.types.is_string(column.type) or pa.types.is_large_string(column.type):
        return column.cast(pa.large_string())
    raise LakeError(f"{where} must hold integers or strings, not {column.type}.")


def first_duplicate(ids: Any) -> int | None:
    """The row of the first id that has stood in an earlier row."""
    series = pl.Series(pl.from_arrow(ids))
    repeated = ~series.is_first_distinct()
    found = repeated.arg_max() if repeated.any() else None
    return None if found is None else int(found)


class IdMap:
    """Looks up the dense id of original ids; −1 where there is none."""

    def __init__(self, ids: Any) -> None:
        self._strings = None
        self.type = ids.type
        self.count = len(ids)
        if not pa.types.is_integer(ids.type):
            self._strings = ids
            return
        values = ids.to_numpy(zero_copy_only=False)
        low, high = (int(values.min()), int(values.max())) if len(values) else (0, -1)
        self._low = low
        self._identity = low == 0 and bool(np.array_equal(values, np.arange(len(values))))
        self._table: IntArray | None = None
        if not self._identity and high - low < 4 * len(values):
            self._table = np.full(high - low + 1, -1, dtype=np.int32)
            self._table[values - low] = np.arange(len(values), dtype=np.int32)
        elif not self._identity:
            self._order = np.argsort(values, kind="stable")
            self._sorted = values[self._order]

    def dense(self, column: Any) -> IntArray:
        """The dense ids of a column of original ids, as int64; −1 for an unknown id."""
        if self._strings is not None:
            found = pc.index_in(column, value_set=self._strings)
            dense: IntArray = pc.fill_null(found, -1).to_numpy(zero_copy_only=False)
            return dense.astype(np.int64)
        values = column.to_numpy(zero_copy_only=False)
        if self._identity:
            return np.where((values >= 0) & (values < self.count), values, -1)
        if self._table is not None:
            inside = (values >= self._low) & (values < self._low + len(self._table))
            return np.where(inside, self._table[np.where(inside, values - self._low, 0)], -1)
        place = np.minimum(np.searchsorted(self._sorted, values), max(self.count - 1, 0))
        known = self._sorted[place] == values
        return np.where(known, self._order[place], -1)
