from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from pipeline.basis.propagate import propagate
from pipeline.basis.store import LAYOUT, BasisStore, hop_name, to_half
from pipeline.config import PropagateConfig
from pipeline.errors import ConfigError, DamagedBlockError, StoreError
from pipeline.filters.gsc import GscFilter
from pipeline.graph.store import GraphStore
from pipeline.types import Operator, Span, StoreDtype
from tests.lakes import (
    Floats,
    all_rows,
    dense_operator,
    graphs,
    ingested,
    propagated,
    tree_bytes,
    write_lake,
)

OPERATORS = st.sampled_from(list(Operator))


def chebyshev_by_eigenvalues(P: Floats, X: Floats, order: int) -> Floats:
    """T_k(P) X = U cos(k arccos Λ) Uᵀ X."""
    values, U = np.linalg.eigh(P)
    angles = np.arccos(values.clip(-1, 1))
    return np.stack([U @ (np.cos(k * angles)[:, None] * (U.T @ X)) for k in range(order + 1)])


def basis_of(
    root: Path, edges: list[tuple[int, int]], x: Floats, order: int, **options: Any
) -> BasisStore:
    graph = ingested(write_lake(root / "lake", edges, x), root / "graph")
    return propagated(graph, root / "basis", order, **options)


@settings(deadline=None, max_examples=40)
@given(graph=graphs(), order=st.integers(0, 8), operator=OPERATORS)
def test_basis_equals_dense_eigendecomposition(
    tmp_path_factory: pytest.TempPathFactory, graph: Any, order: int, operator: Operator
) -> None:
    nodes, edges, x = graph
    basis = basis_of(tmp_path_factory.mktemp("eig"), edges, x, order, operator=operator)
    expected = chebyshev_by_eigenvalues(dense_operator(nodes, edges, operator), x, order)
    np.testing.assert_allclose(all_rows(basis), expected, atol=2e-5)


@settings(deadline=None, max_examples=30)
@given(graph=graphs(), K1=st.integers(0, 6), K2=st.integers(0, 6), seed=st.integers(0, 2**31))
def test_papers_filter_through_the_store_values_and_gradients(
    tmp_path_factory: pytest.TempPathFactory, graph: Any, K1: int, K2: int, seed: int
) -> None:
    nodes, edges, x = graph
    basis = basis_of(tmp_path_factory.mktemp("gsc"), edges, x, max(K1, K2))
    P = torch.from_numpy(dense_operator(nodes, edges, Operator.SYM))
    eye = torch.eye(nodes, dtype=torch.float64)
    L = eye - P
    X = torch.from_numpy(x)
    random = torch.Generator().manual_seed(seed)
    alpha = torch.randn(K1 + 1, generator=random, dtype=torch.float64).requires_grad_()
    beta = torch.randn(K2 + 1, generator=random, dtype=torch.float64).requires_grad_()
    weight = torch.randn(x.shape, generator=random, dtype=torch.float64)

    positive = [torch.linalg.matrix_power(2 * eye - L, i) @ X for i in range(K1 + 1)]
    negative = [torch.linalg.matrix_power(L, j) @ X for j in range(K2 + 1)]
    direct = sum(a * t for a, t in zip(alpha, positive, strict=True))
    direct = direct + sum(b * t for b, t in zip(beta, negative, strict=True))
    (direct * weight).sum().backward()

    filter = GscFilter(K1, K2)
    with torch.no_grad():
        filter.alpha.copy_(alpha)
        filter.beta.copy_(beta)
    stored = torch.from_numpy(all_rows(basis))
    through = torch.einsum("k,knf->nf", filter.coefficients(), stored)
    (through * weight).sum().backward()  # type: ignore[no-untyped-call]

    size = 1 + float(direct.detach().abs().max())
    torch.testing.assert_close(through, direct, atol=1e-4 * size, rtol=1e-4)
    for got, wanted in ((filter.alpha.grad, alpha.grad), (filter.beta.grad, beta.grad)):
        assert got is not None
        assert wanted is not None
        scale = 1 + float(wanted.abs().max())
        torch.testing.assert_close(got.double(), wanted, atol=1e-4 * scale, rtol=1e-4)


@settings(deadline=None, max_examples=25)
@given(graph=graphs(), seed=st.integers(0, 2**31), operator=OPERATORS)
def test_relabelling_nodes_permutes_the_result(
    tmp_path_factory: pytest.TempPathFactory, graph: Any, seed: int, operator: Operator
) -> None:
    nodes, edges, x = graph
    root = tmp_path_factory.mktemp("permute")
    new = np.random.default_rng(seed).permutation(nodes)
    moved = np.empty_like(x)
    moved[new] = x
    renamed = [(int(new[a]), int(new[b])) for a, b in edges]
    one = all_rows(basis_of(root / "one", edges, x, 4, operator=operator))
    two = all_rows(basis_of(root / "two", renamed, moved, 4, operator=operator))
    # the order of a row's sum changes, so equality is up to rounding
    np.testing.assert_allclose(two[:, new], one, atol=1e-5)


@settings(deadline=None, max_examples=25)
@given(
    graph=graphs(),
    shards=st.integers(1, 6),
    width=st.integers(1, 7),
    threads=st.integers(1, 4),
    operator=OPERATORS,
)
def test_shards_blocks_and_threads_do_not_change_a_bit(
    tmp_path_factory: pytest.TempPathFactory,
    graph: Any,
    shards: int,
    width: int,
    threads: int,
    operator: Operator,
) -> None:
    _, edges, x = graph
    root = tmp_path_factory.mktemp("bits")
    lake = write_lake(root / "lake", edges, x)
    plain = propagated(ingested(lake, root / "g1"), root / "b1", 5, operator=operator)
    entries = max(1, 2 * len(edges) // shards)
    cut = propagated(
        ingested(lake, root / "g2", shard_entries=entries),
        root / "b2",
        5,
        operator=operator,
        block_columns=width,
        threads=threads,
    )
    assert all_rows(plain).tobytes() == all_rows(cut).tobytes()


def test_odd_widths_agree_to_the_bit(tmp_path: Path) -> None:
    random = np.random.default_rng(3)
    edges = [(int(a), int(b)) for a, b in random.integers(0, 300, size=(3000, 2))]
    lake = write_lake(tmp_path / "lake", edges, random.normal(size=(300, 100)))
    graph = ingested(lake, tmp_path / "graph", shard_entries=1500)
    wide = all_rows(propagated(graph, tmp_path / "wide", 3))
    for width in (1, 5, 17, 65, 100):
        narrow = propagated(graph, tmp_path / f"w{width}", 3, block_columns=width, threads=2)
        assert all_rows(narrow).tobytes() == wide.tobytes()


@pytest.mark.parametrize(
    ("edges", "expected"),
    [
        ([], [[1.0, 2.0], [0.0, 0.0], [-1.0, -2.0], [0.0, 0.0]]),
        ([(0, 1)], [[1.0, 2.0], [2.0, 1.0], [1.0, 2.0], [2.0, 1.0]]),
        ([(0, 0), (1, 1)], [[1.0, 2.0], [0.0, 0.0], [-1.0, -2.0], [0.0, 0.0]]),
    ],
    ids=["isolated nodes", "a single edge", "only self-loops"],
)
def test_smallest_graphs_by_hand(
    tmp_path: Path, edges: list[tuple[int, int]], expected: list[list[float]]
) -> None:
    basis = basis_of(tmp_path, edges, np.array([[1.0], [2.0]]), 3)
    np.testing.assert_array_equal(all_rows(basis)[:, :, 0], expected)


def test_self_loops_make_an_isolated_node_its_own_neighbour(tmp_path: Path) -> None:
    basis = basis_of(tmp_path, [], np.array([[3.0]]), 2, operator=Operator.SYM_LOOPS)
    np.testing.assert_array_equal(all_rows(basis).ravel(), [3.0, 3.0, 3.0])


def test_real_graph_against_sparse_products(tmp_path: Path, datasets: Path) -> None:
    """Actor, with torch's sparse product as the peer."""
    from pipeline.config import IngestConfig
    from pipeline.graph.ingest import ingest

    source = datasets / "actor"
    ingest(
        IngestConfig(
            edges=f"{source}/edges.parquet", nodes=f"{source}/nodes.parquet", out=tmp_path / "g"
        )
    )
    graph = GraphStore.open(tmp_path / "g")
    basis = propagated(graph, tmp_path / "b", 4, threads=2)
    (shard,) = graph.shards()
    degrees = graph.degrees().astype(np.float64)
    scale = np.divide(1, np.sqrt(degrees), out=np.zeros_like(degrees), where=degrees > 0)
    rows = np.repeat(np.arange(graph.nodes), graph.degrees())
    indices = np.stack([rows, np.asarray(shard.indices, dtype=np.int64)])
    P = torch.sparse_coo_tensor(
        torch.from_numpy(indices),
        torch.from_numpy(scale[rows] * scale[shard.indices]),
        (graph.nodes, graph.nodes),
        check_invariants=True,
    )
    before = torch.from_numpy(graph.read_columns(Span(0, graph.features)).astype(np.float64))
    current = P @ before
    for k in range(1, 5):
        got = basis.read_rows(np.arange(graph.nodes), k + 1)[k]
        np.testing.assert_allclose(got, current.numpy(), atol=5e-6 * float(current.abs().max()))
        before, current = current, 2 * (P @ current) - before


@settings(deadline=None, max_examples=20)
@given(graph=graphs())
def test_half_precision_keeps_eleven_bits(
    tmp_path_factory: pytest.TempPathFactory, graph: Any
) -> None:
    _, edges, x = graph
    root = tmp_path_factory.mktemp("half")
    x = x * 10.0 ** np.random.default_rng(0).integers(-6, 6, size=x.shape[1])
    graph_store = ingested(write_lake(root / "lake", edges, x), root / "graph")
    single = all_rows(propagated(graph_store, root / "single", 4))
    half = all_rows(propagated(graph_store, root / "half", 4, dtype=StoreDtype.FLOAT16))
    np.testing.assert_allclose(half, single, rtol=2**-11, atol=1e-7 * np.abs(single).max())


def test_to_half_of_zeros_and_extremes() -> None:
    values = np.array([[0.0, 3e38, 1e-30, 1e-38], [0.0, -3e37, 2e-31, -2e-39]], dtype=np.float32)
    half, scale = to_half(values)
    assert np.isfinite(half).all()
    np.testing.assert_allclose(half.astype(np.float32) * scale, values, rtol=2**-11)


def test_rows_can_be_read_in_any_pattern(tmp_path: Path) -> None:
    random = np.random.default_rng(1)
    edges = [(int(a), int(b)) for a, b in random.integers(0, 40, size=(100, 2))]
    basis = basis_of(tmp_path, edges, random.normal(size=(40, 9)), 2, block_columns=4)
    whole = basis.read_rows(np.arange(40), 3)
    for rows in ([], [7], [3, 4, 5], [0, 2, 39]):
        chosen = np.array(rows, dtype=np.int64)
        np.testing.assert_array_equal(basis.read_rows(chosen, 2), whole[:2, chosen])


def test_finished_basis_is_reused_whatever_the_plan(tmp_path: Path) -> None:
    basis_of(tmp_path, [(0, 1)], np.ones((2, 6)), 2)
    before = tree_bytes(tmp_path / "basis")
    config = PropagateConfig(
        store=tmp_path / "graph", out=tmp_path / "basis", order=2, block_columns=2
    )
    assert propagate(config)["reused"]
    assert tree_bytes(tmp_path / "basis") == before


def test_damaged_block_is_named_then_rebuilt(tmp_path: Path) -> None:
    basis = basis_of(tmp_path, [(0, 1), (1, 2)], np.eye(3), 2)
    before = tree_bytes(tmp_path / "basis")
    name = hop_name(1, basis.blocks[0])
    content = bytearray((tmp_path / "basis" / name).read_bytes())
    content[-1] ^= 1
    (tmp_path / "basis" / name).write_bytes(content)
    with pytest.raises(DamagedBlockError, match=re.escape(name)):
        all_rows(BasisStore.open(tmp_path / "basis"))
    config = PropagateConfig(store=tmp_path / "graph", out=tmp_path / "basis", order=2)
    assert not propagate(config)["reused"]
    assert tree_bytes(tmp_path / "basis") == before


def test_damaged_graph_is_named_not_used(tmp_path: Path) -> None:
    graph = ingested(write_lake(tmp_path / "lake", [(0, 1)], np.eye(2)), tmp_path / "graph")
    block = tmp_path / "graph" / "features" / "0000.npy"
    content = bytearray(block.read_bytes())
    content[-3] ^= 4
    block.write_bytes(content)
    with pytest.raises(DamagedBlockError, match=r"features/0000.npy"):
        propagated(graph, tmp_path / "basis", 2)
    with pytest.raises(StoreError, match="unfinished"):
        BasisStore.open(tmp_path / "basis")


def test_damaged_layout_is_never_guessed(tmp_path: Path) -> None:
    x = np.random.default_rng(0).normal(size=(4, 5))
    basis = basis_of(tmp_path, [(0, 1), (2, 3)], x, 2, block_columns=1)
    wanted = all_rows(basis)
    (tmp_path / "basis" / LAYOUT).write_text("[]")
    config = PropagateConfig(store=tmp_path / "graph", out=tmp_path / "basis", order=2)
    propagate(config)
    again = BasisStore.open(tmp_path / "basis")
    assert again.blocks == [Span(0, 5)]
    assert all_rows(again).tobytes() == wanted.tobytes()
    assert {p.name for p in (tmp_path / "basis" / "hops" / "00").iterdir()} == {"00000-00005.npy"}


def test_damaged_ids_are_named(tmp_path: Path) -> None:
    basis_of(tmp_path, [(0, 1)], np.eye(2), 1)
    for store, kind in (("graph", GraphStore), ("basis", BasisStore)):
        path = tmp_path / store / "ids.npy"
        content = bytearray(path.read_bytes())
        content[-8] ^= 1
        path.write_bytes(content)
        with pytest.raises(DamagedBlockError, match=r"ids\.npy"):
            kind.open(tmp_path / store).ids()


def test_too_little_memory_keeps_what_an_interrupted_run_finished(tmp_path: Path) -> None:
    graph = ingested(write_lake(tmp_path / "lake", [(0, 1)], np.eye(4)), tmp_path / "graph")

    def two_then_killed(function: Any, tasks: Any) -> Any:
        for number, task in enumerate(tasks):
            if number == 2:
                raise KeyboardInterrupt
            yield task, function(task)

    config = PropagateConfig(store=graph.root, out=tmp_path / "basis", order=1, block_columns=1)
    with pytest.raises(KeyboardInterrupt):
        propagate(config, two_then_killed)
    with pytest.raises(ConfigError, match="too little"):
        propagate(replace(config, memory=1 << 20))
    done: list[Any] = []

    def counted(function: Any, tasks: Any) -> Any:
        for task in tasks:
            done.append(task)
            yield task, function(task)

    propagate(config, counted)
    assert len(done) == 2


def test_values_past_float32_are_refused_with_their_column(tmp_path: Path) -> None:
    x = np.ones((3, 2))
    x[:, 1] = 3e38
    graph = ingested(write_lake(tmp_path / "lake", [(0, 1), (0, 2)], x), tmp_path / "graph")
    with pytest.raises(StoreError, match=r"Feature 1 .* hop 1"):
        propagated(graph, tmp_path / "basis", 2)


def test_same_values_in_other_blocks_are_the_same_basis(tmp_path: Path) -> None:
    graph = ingested(write_lake(tmp_path / "lake", [(0, 1)], np.eye(4)), tmp_path / "graph")
    one = propagated(graph, tmp_path / "one", 2, block_columns=1)
    two = propagated(graph, tmp_path / "two", 2, block_columns=3)
    assert one.content == two.content
    assert one.content != propagated(graph, tmp_path / "three", 1).content


def test_changed_graph_is_another_recipe(tmp_path: Path) -> None:
    basis_of(tmp_path / "one", [(0, 1)], np.eye(2), 1)
    other = ingested(write_lake(tmp_path / "lake", [], np.eye(2)), tmp_path / "graph")
    with pytest.raises(StoreError, match=r"graph: .* there, .* now"):
        propagated(other, tmp_path / "one" / "basis", 1)


def test_order_is_checked() -> None:
    with pytest.raises(ConfigError, match=r"PropagateConfig\.order"):
        PropagateConfig(store=Path("s"), out=Path("o"), order=-1)


def test_hub_is_summed_without_drift(tmp_path: Path) -> None:
    """Equal terms round the same way: summed one by one, 100,000 of them lose three digits."""
    leaves = 100_000
    x = np.full((leaves + 1, 1), 0.1)
    basis = basis_of(tmp_path, [(0, leaf) for leaf in range(1, leaves + 1)], x, 1)
    hub = basis.read_rows(np.array([0]), 2)[1, 0, 0]
    assert hub == pytest.approx(np.sqrt(leaves) * np.float32(0.1), rel=3e-5)
