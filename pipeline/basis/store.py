"""The BasisStore: T_k(P) X for k = 0..K, in files of one hop and one block of columns each.

hops/03/00064-00128.npy         [nodes, 64]   hop 3, columns 64..127
hops/03/00064-00128.scale.npy   float32 [64]  what a float16 column is multiplied by
layout.json                     the column blocks
labels.npy, ids.*               copied from the graph, so that training needs this store alone
"""

from __future__ import annotations

from pathlib import Path
from typing import Any, Final

import numpy as np

from pipeline.graph.nodes import LABELS, ids_name, read_ids
from pipeline.storage.artifact import Artifact
from pipeline.storage.files import fingerprint
from pipeline.types import Array, FloatArray, IntArray, Span, StoreDtype, split_by_size

KIND: Final = "basis"
LAYOUT: Final = "layout.json"
_LARGEST_EXPONENT: Final = 15
_SMALLEST_EXPONENT: Final = -126
"""Of a normal float32: smaller scales would lose bits themselves."""
_CONVERTED_ROWS: Final = 1 << 16


def hop_name(hop: int, columns: Span) -> str:
    """The file of one hop of one block of columns."""
    return f"hops/{hop:02d}/{columns.start:05d}-{columns.stop:05d}.npy"


def scale_name(hop: int, columns: Span) -> str:
    """The file of the column scales that belong to `hop_name`."""
    return f"hops/{hop:02d}/{columns.start:05d}-{columns.stop:05d}.scale.npy"


def to_half(values: FloatArray) -> tuple[Array, FloatArray]:
    """float16 values and the scale of each column: values ≈ half · scale.

    Scales are powers of two that bring the largest value of a column to at most 2^15: dividing by
    them is exact, and small values keep their full 11 bits down to 2^-29 of the largest.
    """
    largest = np.maximum(values.max(axis=0), -values.min(axis=0)).astype(np.float64)
    exponent = np.ceil(np.log2(np.where(largest > 0, largest, 1.0))) - _LARGEST_EXPONENT
    scale = np.exp2(np.maximum(exponent, _SMALLEST_EXPONENT)).astype(np.float32)
    half = np.empty(values.shape, dtype=np.float16)
    for rows in split_by_size(len(values), _CONVERTED_ROWS):  # no second copy of all values
        half[rows.slice] = values[rows.slice] / scale
    return half, scale


class BasisStore:
    """A finished basis, memory-mapped. Reading returns float32 whatever the stored dtype."""

    def __init__(self, artifact: Artifact) -> None:
        self.artifact = artifact
        facts = artifact.facts
        self.nodes: int = facts["nodes"]
        self.features: int = facts["features"]
        self.classes: int = facts["classes"]
        self.order: int = facts["order"]
        self.dtype = StoreDtype(facts["dtype"])
        self.blocks = [Span(a, b) for a, b in artifact.json(LAYOUT)]
        self.labels: IntArray = artifact.array(LABELS)

    @classmethod
    def open(cls, root: Path) -> BasisStore:
        """Open the store in `root`; raises StoreError where there is none."""
        return cls(Artifact.open(root, KIND))

    @property
    def facts(self) -> dict[str, Any]:
        """Counts, classes, operator, order."""
        return self.artifact.facts

    @property
    def content(self) -> str:
        """The fingerprint of the values, which follow from the recipe to the bit.

        How they are cut into files depends on the memory there was, and is no part of it.
        """
        return fingerprint(self.artifact.manifest.recipe)

    def measurements(self) -> dict[str, Any]:
        """Seconds and memory of the propagation."""
        return self.artifact.measurements()

    def ids(self) -> Any:
        """The nodes' original ids as an Arrow array."""
        return read_ids(self.artifact.path(ids_name(self.artifact.manifest.blocks)))

    def read_rows(self, rows: IntArray, hops: int) -> FloatArray:
        """Hops 0..hops−1 of some rows: float32 [hops, len(rows), features].

        Args:
            rows: row numbers, ascending (reading is then sequential on disk).
            hops: how many hops from 0 on; at most order + 1.
        """
        out = np.empty((hops, len(rows), self.features), dtype=np.float32)
        contiguous = len(rows) > 0 and int(rows[-1]) - int(rows[0]) + 1 == len(rows)
        wanted = slice(int(rows[0]), int(rows[-1]) + 1) if contiguous else rows
        for hop in range(hops):
            for block in self.blocks:
                target = out[hop, :, block.slice]
                target[...] = self.artifact.array(hop_name(hop, block))[wanted]
                if self.dtype is StoreDtype.FLOAT16:
                    target *= self.artifact.array(scale_name(hop, block))
        return out
