"""What can be said of a graph and its labels."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from pipeline.graph.edges import shard_names
from pipeline.storage.files import map_array
from pipeline.types import IntArray, Span


def edge_homophily(root: Path, shards: list[Span], labels: IntArray) -> float | None:
    """The share of edges, among those with two labelled ends, that join nodes of one class.

    1 − the paper's label smoothness λ_l. None where no edge has two labelled ends.
    """
    same = counted = 0
    for index, rows in enumerate(shards):
        indptr, indices = (map_array(root / name) for name in shard_names(index))
        own = np.repeat(labels[rows.slice], np.diff(indptr))
        other = labels[indices]
        both = (own >= 0) & (other >= 0)
        counted += int(both.sum())
        same += int((both & (own == other)).sum())
    return same / counted if counted else None
