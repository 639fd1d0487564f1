"""The generated lakes: exact, distinct, heavy-tailed, as hard as the real graphs, reproducible."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import scipy.sparse as sp

from pipeline.config import GraphShape, SynthConfig
from pipeline.errors import ConfigError, StoreError
from pipeline.lake.synth import EdgeFile, synthesize
from pipeline.lake.synth_model import SHAPES, affinity, make_plan, scaled_sizes
from pipeline.storage.artifact import Artifact
from pipeline.types import Array, Result, Task, TaskRunner, run_inline

SCALES: dict[GraphShape, float] = {"wiki": 0.004, "pokec": 0.01}


@dataclass(frozen=True)
class Lake:
    """A generated lake, read back, with nodes in the order of their ids."""

    like: GraphShape
    root: Path
    report: dict[str, Any]
    src: Array
    dst: Array
    x: Array
    y: Array

    @property
    def adjacency(self) -> Any:
        """Symmetric and binary."""
        nodes = len(self.y)
        ones = np.ones(len(self.src), dtype=np.float32)
        directed = sp.csr_matrix((ones, (self.src, self.dst)), (nodes, nodes))
        return ((directed + directed.T) > 0).astype(np.float32).tocsr()


def read_lake(like: GraphShape, root: Path, report: dict[str, Any]) -> Lake:
    edges, nodes = pq.read_table(root / "edges"), pq.read_table(root / "nodes")
    assert edges.schema.equals(pa.schema({"src": pa.int64(), "dst": pa.int64()}))
    width = SHAPES[like].features
    vector = pa.list_(pa.float32(), width)
    assert nodes.schema.equals(pa.schema({"id": pa.int64(), "x": vector, "y": pa.int64()}))
    ids = nodes["id"].to_numpy()
    assert np.array_equal(np.sort(ids), np.arange(len(ids)))
    order = np.argsort(ids)
    x = nodes["x"].combine_chunks().flatten().to_numpy().reshape(-1, width)
    return Lake(
        like=like,
        root=root,
        report=report,
        src=edges["src"].to_numpy(),
        dst=edges["dst"].to_numpy(),
        x=x[order],
        y=nodes["y"].to_numpy()[order],
    )


@pytest.fixture(scope="module", params=["wiki", "pokec"])
def lake(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Lake:
    like: GraphShape = request.param
    root = tmp_path_factory.mktemp("synth") / like
    report = synthesize(SynthConfig(like=like, scale=SCALES[like], seed=3, out=root))
    return read_lake(like, root, report)


def tiny(out: Path, **changes: Any) -> SynthConfig:
    fields: dict[str, Any] = {"like": "pokec", "scale": 0.0005, "seed": 1}
    return SynthConfig(out=out, **fields | changes)


def content(root: Path) -> dict[str, bytes]:
    """Every Parquet file's bytes and the manifest's."""
    files = [*root.rglob("*.parquet"), root / "manifest.json"]
    return {path.relative_to(root).as_posix(): path.read_bytes() for path in files}


def in_threads_from_the_end(
    function: Callable[[Task], Result], tasks: Iterable[Task]
) -> Iterator[tuple[Task, Result]]:
    """A TaskRunner that works on two tasks at a time, in another order."""
    turned = list(tasks)[::-1]
    with ThreadPoolExecutor(2) as pool:
        yield from zip(turned, pool.map(function, turned), strict=True)


def test_counts_are_exact(lake: Lake) -> None:
    shape, scale = SHAPES[lake.like], SCALES[lake.like]
    assert len(lake.y) == round(scale * shape.nodes)
    assert len(lake.src) == round(scale * shape.edges)
    facts = Artifact.open(lake.root, "lake").facts
    for key, value in (
        ("nodes", len(lake.y)),
        ("edges", len(lake.src)),
        ("features", shape.features),
        ("classes", shape.classes),
    ):
        assert facts[key] == lake.report[key] == value
    assert facts["edge_files"] == len(list((lake.root / "edges").iterdir())) >= 4
    assert facts["node_files"] == len(list((lake.root / "nodes").iterdir())) >= 2


def test_report_says_where_and_how_long(lake: Lake) -> None:
    assert lake.report["reused"] is False
    assert set(lake.report["seconds"]) == {"edges", "nodes"}
    assert lake.report["peak_memory_bytes"] > 0
    assert lake.report["outputs"] == {
        "edges": str(lake.root / "edges"),
        "nodes": str(lake.root / "nodes"),
    }


def test_edges_are_distinct_and_without_loops(lake: Lake) -> None:
    assert (lake.src != lake.dst).all()
    assert len(np.unique(lake.src * len(lake.y) + lake.dst)) == len(lake.src)
    assert min(lake.src.min(), lake.dst.min()) >= 0
    assert max(lake.src.max(), lake.dst.max()) < len(lake.y)


def test_as_many_pairs_are_mutual_as_stated(lake: Lake) -> None:
    pairs = lake.adjacency.nnz // 2
    mutual = len(lake.src) - pairs
    assert mutual == scaled_sizes(SHAPES[lake.like], SCALES[lake.like]).mutual
    assert mutual / pairs == pytest.approx(SHAPES[lake.like].mutual, abs=0.001)


def test_homophily_is_the_real_graphs(lake: Lake) -> None:
    agree = (lake.y[lake.src] == lake.y[lake.dst]).mean()
    assert agree == pytest.approx(SHAPES[lake.like].homophily, abs=0.02)


def test_degrees_have_a_heavy_tail_in_both_directions(lake: Lake) -> None:
    for ends in (lake.src, lake.dst):
        degree = np.sort(np.bincount(ends, minlength=len(lake.y)))
        assert degree[-1] > 7 * degree.mean()
        assert degree[-len(degree) // 100 :].sum() > 0.035 * degree.sum()
        assert np.median(degree) < 0.9 * degree.mean()


def test_classes_are_balanced(lake: Lake) -> None:
    classes = SHAPES[lake.like].classes
    share = np.bincount(lake.y, minlength=classes) / len(lake.y)
    assert share == pytest.approx(np.full(classes, 1 / classes), abs=0.02)


def test_ids_tell_neither_class_nor_degree(lake: Lake) -> None:
    ids, limit = np.arange(len(lake.y)), 4 / np.sqrt(len(lake.y))
    for known in (lake.y, np.bincount(lake.src, minlength=len(ids))):
        assert abs(np.corrcoef(ids, known)[0, 1]) < limit
        assert abs(np.corrcoef(known[1:], known[:-1])[0, 1]) < limit
    same = lake.y == ids % SHAPES[lake.like].classes
    assert same.mean() == pytest.approx(1 / SHAPES[lake.like].classes, abs=limit)


def test_features_have_unit_scale(lake: Lake) -> None:
    assert np.isfinite(lake.x).all()
    assert lake.x.std(axis=0) == pytest.approx(1, abs=0.15)
    assert abs(lake.x.mean(axis=0)).max() < 0.5


def ridge_accuracy(features: Array, y: Array) -> float:
    """Accuracy of least squares on one-hot labels: fitted on even rows, tested on odd ones."""
    design = np.hstack([features, np.ones((len(features), 1))]).astype(np.float64)
    train, test = design[::2], design[1::2]
    gram = train.T @ train + 10 * np.eye(design.shape[1])
    weights = np.linalg.solve(gram, train.T @ np.eye(y.max() + 1)[y[::2]])
    return float(((test @ weights).argmax(axis=1) == y[1::2]).mean())


def test_neighbours_tell_much_more_than_own_features(lake: Lake) -> None:
    latent = np.linalg.svd(lake.x[:2000], full_matrices=False)[2][:24]
    x = lake.x @ latent.T
    adjacency = lake.adjacency
    mean = sp.diags(1 / np.maximum(np.asarray(adjacency.sum(axis=1)).ravel(), 1)) @ adjacency
    own, around = ridge_accuracy(x, lake.y), ridge_accuracy(mean @ (mean @ x), lake.y)
    chance = 1 / SHAPES[lake.like].classes
    assert chance + 0.05 < own < around - 0.1
    assert around < SHAPES[lake.like].purity + 0.04


@pytest.mark.parametrize("like", ["wiki", "pokec"])
def test_affinity_is_symmetric_and_gives_the_homophily(like: GraphShape) -> None:
    shape = SHAPES[like]
    table = affinity(shape)
    assert np.allclose(table, table.T)
    assert np.allclose(table.sum(axis=1), 1)
    stray = (1 - shape.purity) / (shape.classes - 1)
    label = np.full((shape.groups, shape.classes), stray)
    label[np.arange(shape.groups), np.arange(shape.groups) % shape.classes] = shape.purity
    agree = np.einsum("gh,gc,hc->", table, label, label) / shape.groups
    assert agree == pytest.approx(shape.homophily)


@pytest.mark.parametrize("like", ["wiki", "pokec"])
@pytest.mark.parametrize("scale", [1e-9, 0.0005])
def test_tiny_scales_are_exact_too(like: GraphShape, scale: float, tmp_path: Path) -> None:
    report = synthesize(tiny(tmp_path / "lake", like=like, scale=scale))
    lake = read_lake(like, tmp_path / "lake", report)
    sizes = scaled_sizes(SHAPES[like], scale)
    assert (len(lake.y), len(lake.src)) == (sizes.nodes, sizes.edges)
    assert 0 < sizes.edges <= 0.1 * sizes.nodes * (sizes.nodes - 1)
    assert len(np.unique(lake.src * sizes.nodes + lake.dst)) == sizes.edges
    assert (lake.src != lake.dst).all()


def test_files_split_the_owners_without_gap() -> None:
    plan = make_plan("pokec", 0.001, 0)
    spans = [plan.owners(part, 7) for part in range(7)]
    assert all(a.stop == b.start for a, b in pairwise(spans))
    assert spans[0].start == 0
    assert plan.offsets[spans[-1].stop] == plan.sizes.pairs


def test_same_bytes_whoever_makes_them(tmp_path: Path) -> None:
    runners: list[TaskRunner] = [run_inline, run_inline, in_threads_from_the_end]
    for number, runner in enumerate(runners):
        make_plan.cache_clear()
        synthesize(tiny(tmp_path / str(number)), runner)
    first = content(tmp_path / "0")
    assert len(first) == 4 + 2 + 1
    assert first == content(tmp_path / "1") == content(tmp_path / "2")


def test_another_seed_gives_other_files(tmp_path: Path) -> None:
    synthesize(tiny(tmp_path / "a", seed=1))
    synthesize(tiny(tmp_path / "b", seed=2))
    one, other = content(tmp_path / "a"), content(tmp_path / "b")
    assert one.keys() == other.keys()
    assert all(one[name] != other[name] for name in one)


@pytest.mark.parametrize("done", [1, 3, 5])
def test_interrupted_lake_goes_on(done: int, tmp_path: Path) -> None:
    made: list[str] = []

    def counting(
        function: Callable[[Task], Result], tasks: Iterable[Task]
    ) -> Iterator[tuple[Task, Result]]:
        for task, result in run_inline(function, tasks):
            made.append(task.name)  # type: ignore[attr-defined]
            yield task, result
            if len(made) == done:
                raise KeyboardInterrupt

    config = tiny(tmp_path / "lake")
    with pytest.raises(KeyboardInterrupt):
        synthesize(config, counting)
    with pytest.raises(StoreError, match="unfinished"):
        Artifact.open(config.out, "lake")
    assert synthesize(config, counting)["reused"] is False
    assert len(made) == len(set(made)) == 6
    synthesize(tiny(tmp_path / "whole"))
    assert content(config.out) == content(tmp_path / "whole")


def test_finished_lake_is_reused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    def never(
        function: Callable[[Task], Result], tasks: Iterable[Task]
    ) -> Iterator[tuple[Task, Result]]:
        raise AssertionError("a finished lake was made again")

    first = synthesize(tiny(tmp_path / "lake"))
    again = synthesize(tiny(tmp_path / "lake"), never)
    assert (first["reused"], again["reused"]) == (False, True)
    for key in ("nodes", "edges", "features", "classes", "outputs"):
        assert first[key] == again[key]
    assert "reused" in capsys.readouterr().err


def test_damaged_file_alone_is_made_again(tmp_path: Path) -> None:
    made: list[EdgeFile] = []

    def counting(
        function: Callable[[Task], Result], tasks: Iterable[Task]
    ) -> Iterator[tuple[Task, Result]]:
        for task, result in run_inline(function, tasks):
            made.append(task)  # type: ignore[arg-type]
            yield task, result

    config = tiny(tmp_path / "lake")
    synthesize(config)
    before = content(config.out)
    victim = config.out / "edges/part-00002.parquet"
    victim.write_bytes(victim.read_bytes()[:-1] + b"?")
    synthesize(config, counting)
    assert [task.part for task in made] == [2]
    assert content(config.out) == before


def test_other_recipe_needs_overwrite(tmp_path: Path) -> None:
    synthesize(tiny(tmp_path / "lake", seed=1))
    with pytest.raises(StoreError, match="seed"):
        synthesize(tiny(tmp_path / "lake", seed=2))
    assert synthesize(tiny(tmp_path / "lake", seed=2, overwrite=True))["reused"] is False


@pytest.mark.parametrize(
    ("field", "value"), [("like", "cora"), ("scale", 0.0), ("scale", 1.5), ("seed", -1)]
)
def test_bad_config_names_the_field(field: str, value: object, tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=f"SynthConfig.{field} must be"):
        tiny(tmp_path, **{field: value})
