from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import scipy.sparse as sp
from hypothesis import given, settings
from hypothesis import strategies as st

from pipeline.config import IngestConfig
from pipeline.errors import ConfigError, LakeError
from pipeline.graph import edges as edges_module
from pipeline.graph.ingest import ingest
from pipeline.graph.store import GraphStore
from pipeline.types import Result, Span, Task
from tests.lakes import feature_column, graphs, ingested, tree_bytes, write_lake

X = np.arange(8, dtype=np.float64).reshape(4, 2)


def neighbours(graph: GraphStore) -> list[list[int]]:
    return [
        shard.indices[shard.indptr[row] : shard.indptr[row + 1]].tolist()
        for shard in graph.shards()
        for row in range(len(shard.rows))
    ]


def symmetric(nodes: int, edges: list[tuple[int, int]]) -> list[list[int]]:
    """The adjacency by scipy: symmetrised, without loops, duplicates counted once."""
    a = np.array(edges, dtype=int).reshape(-1, 2)
    a = a[a[:, 0] != a[:, 1]]
    ones = np.ones(len(a))
    half = sp.coo_matrix((ones, (a[:, 0], a[:, 1])), shape=(nodes, nodes)).tocsr()
    both = (half + half.T).tocsr()
    both.sort_indices()
    return [both.indices[a:b].tolist() for a, b in itertools.pairwise(both.indptr)]


@settings(deadline=None, max_examples=40)
@given(graph=graphs(), shards=st.integers(1, 5), files=st.integers(1, 3))
def test_adjacency_equals_scipy(
    tmp_path_factory: pytest.TempPathFactory, graph: Any, shards: int, files: int
) -> None:
    nodes, edges, x = graph
    root = tmp_path_factory.mktemp("ingest")
    lake = write_lake(root / "lake", edges, x, files=files)
    store = ingested(lake, root / "graph", shard_entries=max(1, 2 * len(edges) // shards))
    assert neighbours(store) == symmetric(nodes, edges)
    np.testing.assert_array_equal(store.degrees(), [len(n) for n in neighbours(store)])
    np.testing.assert_array_equal(store.read_columns(Span(0, x.shape[1])), x.astype(np.float32))
    assert store.facts["self_loops"] == sum(a == b for a, b in edges)
    assert store.facts["edge_rows"] == len(edges)


def test_agrees_with_torch_geometric(tmp_path: Path, datasets: Path) -> None:
    torch = pytest.importorskip("torch")
    from torch_geometric.utils import homophily, to_undirected

    source = datasets / "chameleon"
    ingest(
        IngestConfig(
            edges=f"{source}/edges.parquet", nodes=f"{source}/nodes.parquet", out=tmp_path / "g"
        )
    )
    store = GraphStore.open(tmp_path / "g")
    frame = pl.read_parquet(source / "edges.parquet")
    pairs = torch.from_numpy(frame.select("src", "dst").to_numpy().T.copy())
    expected = to_undirected(pairs)
    found = [[i, j] for i, row in enumerate(neighbours(store)) for j in row]
    np.testing.assert_array_equal(np.array(found).T, expected.numpy())
    labels = torch.from_numpy(store.labels().astype(np.int64))
    assert store.facts["homophily"] == pytest.approx(homophily(expected, labels), abs=1e-6)
    assert store.facts["homophily"] == pytest.approx(0.230, abs=5e-4)  # the datasets' README


def test_file_order_and_directions_do_not_matter(tmp_path: Path) -> None:
    edges = [(0, 1), (1, 2), (3, 0)]
    one = ingested(write_lake(tmp_path / "a", edges, X), tmp_path / "one")
    turned = [(b, a) for a, b in reversed(edges)] + edges
    two = ingested(write_lake(tmp_path / "b", turned, X, files=3), tmp_path / "two")
    assert neighbours(one) == neighbours(two) == [[1, 3], [0, 2], [1], [0]]


class ThreadedRunner:
    """A TaskRunner that finishes tasks out of order."""

    def __call__(
        self, function: Callable[[Task], Result], tasks: Iterable[Task]
    ) -> Iterator[tuple[Task, Result]]:
        ordered = list(tasks)[::-1]
        with ThreadPoolExecutor(3) as pool:
            yield from zip(ordered, pool.map(function, ordered), strict=True)


def test_runs_and_runner_do_not_change_a_byte(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    random = np.random.default_rng(5)
    edges = [(int(a), int(b)) for a, b in random.integers(0, 50, size=(300, 2))]
    lake = write_lake(tmp_path / "lake", edges, random.normal(size=(50, 3)), files=4)
    ingested(lake, tmp_path / "one", shard_entries=100)
    monkeypatch.setattr(edges_module, "_RUN_ROWS", 20)
    config = IngestConfig(
        edges=f"{lake}/edges", nodes=f"{lake}/nodes", out=tmp_path / "two", shard_entries=100
    )
    ingest(config, ThreadedRunner())
    assert len(GraphStore.open(tmp_path / "two").shards()) == 6
    assert tree_bytes(tmp_path / "one") == tree_bytes(tmp_path / "two")


@pytest.mark.parametrize(
    "ids",
    [
        [0, 1, 2, 3],
        [10, 13, 11, 12],
        [-5, 7_000_000_000, 3, 2**62],
        ["b", "a", "", "née"],
    ],
    ids=["dense", "shuffled", "sparse", "strings"],
)
def test_ids_keep_the_order_of_the_node_table(tmp_path: Path, ids: list[Any]) -> None:
    edges = [(ids[0], ids[2]), (ids[3], ids[2])]
    store = ingested(write_lake(tmp_path / "lake", edges, X, ids=ids), tmp_path / "graph")
    assert neighbours(store) == [[2], [], [0, 3], [2]]
    assert store.ids().to_pylist() == ids
    assert store.facts["isolated_nodes"] == 1


@pytest.mark.parametrize("kind", [pa.int32(), pa.uint64(), pa.dictionary(pa.int32(), pa.string())])
def test_id_types(tmp_path: Path, kind: Any) -> None:
    values = ["p", "q", "r"] if pa.types.is_dictionary(kind) else [4, 9, 2]
    lake = tmp_path / "lake"
    (lake / "edges").mkdir(parents=True)
    (lake / "nodes").mkdir()
    ids = pa.array(values).cast(kind)
    pq.write_table(pa.table({"src": ids[:1], "dst": ids[2:]}), lake / "edges" / "e.parquet")
    table = pa.table({"id": ids, "x": feature_column([[1.0], [2.0], [3.0]]), "y": [0, 1, 0]})
    pq.write_table(table, lake / "nodes" / "n.parquet")
    store = ingested(lake, tmp_path / "graph")
    assert neighbours(store) == [[2], [], [0]]
    assert store.ids().to_pylist() == values


@pytest.mark.parametrize(
    ("given_labels", "dense", "names"),
    [
        ([3, 7, 3, 9], [0, 1, 0, 2], [3, 7, 9]),
        ([1, None, -1, 0], [1, -1, -1, 0], [0, 1]),
        (["cat", None, "ant", "cat"], [1, -1, 0, 1], ["ant", "cat"]),
        ([None] * 4, [-1] * 4, []),
    ],
)
def test_labels(
    tmp_path: Path, given_labels: list[Any], dense: list[int], names: list[Any]
) -> None:
    store = ingested(write_lake(tmp_path / "lake", [(0, 1)], X, y=given_labels), tmp_path / "g")
    assert store.labels().tolist() == dense
    assert store.facts["class_names"] == names
    assert store.facts["labelled"] == sum(label >= 0 for label in dense)


def test_homophily_counts_edges_with_two_labelled_ends(tmp_path: Path) -> None:
    edges = [(0, 1), (1, 2), (2, 3), (0, 3)]
    lake = write_lake(tmp_path / "lake", edges, X, y=[0, 0, 1, None])
    assert ingested(lake, tmp_path / "graph").facts["homophily"] == 0.5


def test_no_edges_at_all(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    store = ingested(write_lake(tmp_path / "lake", [], X), tmp_path / "graph")
    assert neighbours(store) == [[], [], [], []]
    assert store.facts["homophily"] is None
    assert "no edges" in capsys.readouterr().err


def test_wide_features_span_several_files(tmp_path: Path) -> None:
    x = np.random.default_rng(0).normal(size=(4, 150)).astype(np.float32)
    store = ingested(write_lake(tmp_path / "lake", [(0, 1)], x.astype(float)), tmp_path / "graph")
    np.testing.assert_array_equal(store.read_columns(Span(60, 131)), x[:, 60:131])


def nodes_table(**columns: Any) -> Any:
    return pa.table({"id": [0, 1, 2, 3], "x": feature_column(X), "y": [0, 1, 0, 1], **columns})


BAD_NODES: dict[str, tuple[Any, str]] = {
    "no rows": (nodes_table().slice(0, 0), "has no rows"),
    "no id column": (nodes_table().drop_columns("id"), "has no column 'id'"),
    "misnamed column": (
        nodes_table().rename_columns({"x": "xx"}),
        r"has no column 'x'.*it has id, xx, y.*Did you mean 'xx'",
    ),
    "duplicate id": (nodes_table(id=[0, 1, 1, 3]), r"row 2: column 'id' holds 1"),
    "null id": (nodes_table(id=[0, None, 2, 3]), "column 'id' is null in row 1"),
    "float id": (nodes_table(id=[0.0, 1.0, 2.0, 3.0]), "must hold integers or strings, not double"),
    "huge id": (nodes_table(id=pa.array([0, 1, 2, 2**64 - 1], pa.uint64())), "2.63"),
    "scalar features": (nodes_table(x=[1.0, 2.0, 3.0, 4.0]), "list of numbers.* not double"),
    "text features": (nodes_table(x=[["a"]] * 4), "not of string"),
    "ragged features": (
        nodes_table(x=[[1.0, 2.0], [1.0, 2.0], [1.0], [1.0, 2.0]]),
        "row 2: column 'x' has 1 features",
    ),
    "empty features": (nodes_table(x=pa.array([[]] * 4, pa.list_(pa.float32()))), "empty lists"),
    "null feature": (nodes_table(x=[[1.0], [None], [2.0], [3.0]]), "row 1: column 'x'.*null"),
    "null features": (nodes_table(x=[[1.0], None, [2.0], [3.0]]), "column 'x' is null in row 1"),
    "NaN": (
        nodes_table(x=[[1.0, 2], [1, 2], [1, float("nan")], [0, 0]]),
        "row 2.*nan as feature 1",
    ),
    "infinity": (nodes_table(x=[[1.0], [float("-inf")], [1], [0]]), "row 1.*-inf as feature 0"),
    "past float32": (nodes_table(x=[[1.0], [1e300], [1], [0]]), "row 1.*float32"),
    "float labels": (nodes_table(y=[0.5, 1.0, 0.0, 1.0]), "column 'y' must hold integer or string"),
}


@pytest.mark.parametrize("case", BAD_NODES)
def test_bad_node_tables(tmp_path: Path, case: str) -> None:
    table, sentence = BAD_NODES[case]
    lake = write_lake(tmp_path / "lake", [(0, 1)], X)
    pq.write_table(table, lake / "nodes" / "part-0.parquet")
    with pytest.raises(LakeError, match=sentence) as caught:
        ingested(lake, tmp_path / "graph")
    assert "nodes" in str(caught.value)
    assert not (tmp_path / "graph").exists()


BAD_EDGES: dict[str, tuple[Any, str]] = {
    "no dst": (pa.table({"src": [0], "dest": [1]}), r"no column 'dst'.*Did you mean 'dest'"),
    "unknown node": (pa.table({"src": [0, 1], "dst": [1, 9]}), "row 1: column 'dst' names node 9"),
    "negative node": (pa.table({"src": [-1], "dst": [1]}), "row 0: column 'src' names node -1"),
    "null end": (pa.table({"src": [0, None], "dst": [1, 1]}), "column 'src' is null in row 1"),
    "text ids": (pa.table({"src": ["0"], "dst": ["1"]}), "the node ids are int64"),
    "float ids": (pa.table({"src": [0.0], "dst": [1.0]}), "must hold integers or strings"),
}


@pytest.mark.parametrize("case", BAD_EDGES)
def test_bad_edge_tables(tmp_path: Path, case: str) -> None:
    table, sentence = BAD_EDGES[case]
    lake = write_lake(tmp_path / "lake", [(0, 1)], X)
    pq.write_table(table, lake / "edges" / "part-0.parquet")
    with pytest.raises(LakeError, match=sentence) as caught:
        ingested(lake, tmp_path / "graph")
    assert "part-0.parquet" in str(caught.value)
    assert not (tmp_path / "graph").exists()


def test_files_of_different_types_are_named(tmp_path: Path) -> None:
    lake = write_lake(tmp_path / "lake", [(0, 1)], X)
    table = pa.table({"src": pa.array([0], pa.int32()), "dst": pa.array([1], pa.int32())})
    pq.write_table(table, lake / "edges" / "part-1.parquet")
    with pytest.raises(LakeError, match=r"part-1.parquet: column 'src' is int32, but int64"):
        ingested(lake, tmp_path / "graph")


@pytest.mark.parametrize("harm", ["truncated", "not parquet", "empty file"])
def test_unreadable_files_are_named(tmp_path: Path, harm: str) -> None:
    lake = write_lake(tmp_path / "lake", [(0, 1)], X)
    path = lake / "edges" / "part-0.parquet"
    content = {"truncated": path.read_bytes()[:-9], "not parquet": b"hello", "empty file": b""}
    path.write_bytes(content[harm])
    with pytest.raises(LakeError, match=r"part-0.parquet is not a readable Parquet file"):
        ingested(lake, tmp_path / "graph")


def test_config_names_the_field() -> None:
    with pytest.raises(ConfigError, match=r"IngestConfig.dst must be another column than src"):
        IngestConfig(edges="e", nodes="n", out=Path("o"), dst="src")
