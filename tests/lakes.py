"""Small lakes and graphs for tests, written as real Parquet files."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.parquet as pq
from hypothesis import strategies as st

from pipeline.basis.propagate import propagate
from pipeline.basis.store import BasisStore
from pipeline.config import IngestConfig, PropagateConfig
from pipeline.graph.ingest import ingest
from pipeline.graph.store import GraphStore
from pipeline.storage.artifact import MEASUREMENTS
from pipeline.types import Operator

Floats = npt.NDArray[np.float64]
Edges = list[tuple[int, int]]


def feature_column(x: Floats | Sequence[Sequence[float]]) -> Any:
    """A fixed_size_list<float32> column."""
    matrix = np.asarray(x, dtype=np.float32)
    return pa.FixedSizeListArray.from_arrays(pa.array(matrix.ravel()), matrix.shape[1])


def write_lake(
    root: Path,
    edges: Sequence[tuple[Any, Any]],
    x: Floats | Sequence[Sequence[float]],
    y: Sequence[Any] | None = None,
    ids: Sequence[Any] | None = None,
    files: int = 1,
) -> Path:
    """Write edges/ and nodes/ below `root`; `files` edge files share the rows out."""
    nodes = len(x)
    names = pa.array(list(ids) if ids is not None else list(range(nodes)))
    labels = pa.array(list(y) if y is not None else [i % 2 for i in range(nodes)])
    (root / "edges").mkdir(parents=True)
    (root / "nodes").mkdir()
    table = pa.table({"id": names, "x": feature_column(x), "y": labels})
    pq.write_table(table, root / "nodes" / "part-0.parquet")
    src = pa.array([a for a, _ in edges], names.type)
    dst = pa.array([b for _, b in edges], names.type)
    empty = pa.table({"src": src[:0], "dst": dst[:0]})
    for part in range(files):
        rows = list(range(part, len(edges), files))
        piece = pa.table({"src": src.take(rows), "dst": dst.take(rows)}) if rows else empty
        pq.write_table(
            piece, root / "edges" / f"part-{part}.parquet", row_group_size=max(3, len(edges) // 8)
        )
    return root


def ingested(lake: Path, out: Path, **options: Any) -> GraphStore:
    """The lake's graph store."""
    ingest(IngestConfig(edges=f"{lake}/edges", nodes=f"{lake}/nodes", out=out, **options))
    return GraphStore.open(out)


def propagated(graph: GraphStore, out: Path, order: int, **options: Any) -> BasisStore:
    """The graph's basis."""
    propagate(PropagateConfig(store=graph.root, out=out, order=order, **options))
    return BasisStore.open(out)


def all_rows(basis: BasisStore) -> Floats:
    """T_k(P) X for all hops and nodes, [order + 1, nodes, features]."""
    return basis.read_rows(np.arange(basis.nodes), basis.order + 1).astype(np.float64)


def dense_operator(nodes: int, edges: Sequence[tuple[int, int]], operator: Operator) -> Floats:
    """P or P̃ as a dense matrix, straight from its definition."""
    adjacency = np.zeros((nodes, nodes))
    for a, b in edges:
        if a != b:
            adjacency[a, b] = adjacency[b, a] = 1
    if operator is Operator.SYM_LOOPS:
        adjacency += np.eye(nodes)
    degrees = adjacency.sum(axis=1)
    inverse = np.diag([d**-0.5 if d else 0.0 for d in degrees])
    return inverse @ adjacency @ inverse


@st.composite
def graphs(draw: st.DrawFn, max_nodes: int = 14) -> tuple[int, Edges, Floats]:
    """A number of nodes, messy edges (loops, duplicates, one direction or both), and features."""
    nodes = draw(st.integers(1, max_nodes))
    end = st.integers(0, nodes - 1)
    edges = draw(st.lists(st.tuples(end, end), max_size=40))
    seed = draw(st.integers(0, 2**32 - 1))
    features = draw(st.integers(1, 6))
    x = np.random.default_rng(seed).normal(size=(nodes, features)).astype(np.float32)
    return nodes, edges, x.astype(np.float64)


def tree_bytes(root: Path) -> dict[str, bytes]:
    """Every file of an artifact but the measurements, which differ from run to run."""
    return {
        path.relative_to(root).as_posix(): path.read_bytes()
        for path in sorted(root.rglob("*"))
        if path.is_file() and path.name != MEASUREMENTS and path.parent.name != "measurements"
    }
