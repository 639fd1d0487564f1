"""The GraphStore: CSR row shards, degrees, features, labels and original ids of one graph.

shards/0000.indptr.npy    int64 [rows + 1]    row pointers of the shard's rows
shards/0000.indices.npy   int32 [entries]     column ids, ascending within a row
degrees.npy               int32 [nodes]
features/0000.npy         float32 [nodes, ≤ 64]  a block of feature columns
labels.npy                int32 [nodes]       class number, −1 = unlabelled
nodes.json                the classes' own names, and how ids and features are stored
ids.npy | ids.parquet     original ids, in the order of the dense ids
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import numpy as np

from pipeline.graph.edges import shard_names
from pipeline.graph.nodes import LABELS, feature_blocks, ids_name, read_ids
from pipeline.storage.artifact import Artifact
from pipeline.types import Array, FloatArray, IntArray, Span

KIND: Final = "graph"
DEGREES: Final = "degrees.npy"


@dataclass(frozen=True)
class Shard:
    """A range of rows of the adjacency in CSR; `indptr` counts from the shard's own start."""

    rows: Span
    indptr: Array
    indices: Array


class GraphStore:
    """A finished GraphStore. Arrays are memory-mapped: workers of one machine share the pages."""

    def __init__(self, artifact: Artifact) -> None:
        self.artifact = artifact
        facts = artifact.facts
        self.nodes: int = facts["nodes"]
        self.entries: int = facts["entries"]
        self.features: int = facts["features"]
        self.row_ranges = [Span(a, b) for a, b in facts["shards"]]

    @classmethod
    def open(cls, root: Path) -> GraphStore:
        """Open the store in `root`; raises StoreError where there is none."""
        return cls(Artifact.open(root, KIND))

    @property
    def root(self) -> Path:
        """The store's folder."""
        return self.artifact.root

    @property
    def facts(self) -> dict[str, Any]:
        """Counts, classes and homophily."""
        return self.artifact.facts

    @property
    def content(self) -> str:
        """The fingerprint of what the store holds."""
        return self.artifact.manifest.content

    def shards(self) -> list[Shard]:
        """All shards, in the order of their rows."""
        return [
            Shard(rows, *(self.artifact.array(name) for name in shard_names(index)))
            for index, rows in enumerate(self.row_ranges)
        ]

    def degrees(self) -> IntArray:
        """Neighbours of each node."""
        return self.artifact.array(DEGREES)

    def labels(self) -> IntArray:
        """The class number of each node, −1 = unlabelled."""
        return self.artifact.array(LABELS)

    def ids(self) -> Any:
        """The nodes' original ids as an Arrow array."""
        return read_ids(self.artifact.path(ids_name(self.artifact.manifest.blocks)))

    def read_columns(self, columns: Span) -> FloatArray:
        """Feature columns [nodes, len(columns)], copied out of the blocks that hold them."""
        out = np.empty((self.nodes, len(columns)), dtype=np.float32)
        for name, block in feature_blocks(self.features):
            start, stop = max(block.start, columns.start), min(block.stop, columns.stop)
            if start < stop:
                source = self.artifact.array(name)
                out[:, start - columns.start : stop - columns.start] = source[
                    :, start - block.start : stop - block.start
                ]
        return out
