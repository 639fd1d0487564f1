"""`gscnet synth`: a lake of Parquet files in the shape of a real graph, made from a seed.

    LAKE/edges/part-00000.parquet …   src, dst: distinct directed edges without loops
    LAKE/nodes/part-00000.parquet …   id, x, y: every node once, all labelled

Each file is a task of its own: it depends on the seed and its number alone, so the bytes are the
same whoever makes it, and an interrupted lake goes on with the files that it lacks.
`pipeline.lake.synth_model` says what is drawn.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from pipeline.config import GraphShape, SynthConfig
from pipeline.console import Progress, say
from pipeline.lake.synth_model import SHAPES, draw_edges, draw_nodes, make_plan, scaled_sizes
from pipeline.measure import Phases, peak_memory, reset_peak_memory
from pipeline.storage.build import Build
from pipeline.storage.sink import BlockSink
from pipeline.types import Span, Task, TaskRunner, run_inline, split_evenly

GENERATOR_VERSION: Final = 1
"""Part of the recipe: raise it whenever other bytes come out of the same config."""

_MIN_EDGE_FILES: Final = 4
_MIN_NODE_FILES: Final = 2
_EDGES_PER_FILE: Final = 4_000_000
_FEATURES_PER_FILE: Final = 30_000_000
_EDGES_PER_ROW_GROUP: Final = 1 << 20
_FEATURES_PER_ROW_GROUP: Final = 1 << 23


@dataclass(frozen=True)
class EdgeFile:
    """One file of edges to make."""

    like: GraphShape
    scale: float
    seed: int
    part: int
    parts: int
    sink: BlockSink

    @property
    def name(self) -> str:
        """Its block in the lake."""
        return f"edges/part-{self.part:05d}.parquet"


@dataclass(frozen=True)
class NodeFile:
    """One file of nodes to make."""

    like: GraphShape
    scale: float
    seed: int
    part: int
    ids: Span
    sink: BlockSink

    @property
    def name(self) -> str:
        """Its block in the lake."""
        return f"nodes/part-{self.part:05d}.parquet"


def write_edge_file(task: EdgeFile) -> int:
    """Draw and write one file of edges; returns how many."""
    src, dst = draw_edges(make_plan(task.like, task.scale, task.seed), task.part, task.parts)
    with task.sink.file(task.name) as path:
        pq.write_table(
            pa.table({"src": src, "dst": dst}),
            path,
            row_group_size=_EDGES_PER_ROW_GROUP,
            compression="snappy",
            use_dictionary=False,
            # a third of the bytes of plain int64, faster to write and to read
            column_encoding="DELTA_BINARY_PACKED",
            write_page_checksum=True,
        )
    return len(src)


def write_node_file(task: NodeFile) -> int:
    """Draw and write one file of nodes; returns how many."""
    plan = make_plan(task.like, task.scale, task.seed)
    features = plan.shape.features
    x, y = draw_nodes(plan, task.ids, task.part)
    columns = {
        "id": pa.array(np.arange(task.ids.start, task.ids.stop, dtype=np.int64)),
        "x": pa.FixedSizeListArray.from_arrays(pa.array(x.ravel()), features),
        "y": pa.array(y),
    }
    with task.sink.file(task.name) as path:
        pq.write_table(
            pa.table(columns),
            path,
            row_group_size=max(1, _FEATURES_PER_ROW_GROUP // features),
            compression="none",  # random floats do not shrink
            use_dictionary=False,
            write_page_checksum=True,
        )
    return len(y)


def synthesize(config: SynthConfig, run_tasks: TaskRunner = run_inline) -> dict[str, Any]:
    """Make the lake `config` describes, or find it made; returns counts, seconds and folders.

    Raises:
        StoreError: `config.out` holds something else, or another process is at work on it.
    """
    reset_peak_memory()
    phases = Phases()
    recipe = {
        "like": config.like,
        "scale": config.scale,
        "seed": config.seed,
        "generator": GENERATOR_VERSION,
    }
    with Build(config.out, "lake", recipe, overwrite=config.overwrite) as build:
        reused = build.finished is not None
        if build.finished is not None:
            say(f"synth: {config.out} is finished already; reused.")
            facts = build.finished.facts
        else:
            say(f"synth: a lake like {config.like} at scale {config.scale:g} → {config.out}")
            facts = _write_files(config, build.sink, run_tasks, phases)
            measured = {"seconds": phases.seconds, "peak_memory_bytes": peak_memory()}
            build.commit(facts, measured)
    return {
        "reused": reused,
        **{key: facts[key] for key in ("nodes", "edges", "features", "classes")},
        "seconds": phases.seconds,
        "peak_memory_bytes": peak_memory(),
        "outputs": {kind: str(config.out / kind) for kind in ("edges", "nodes")},
    }


def _write_files(
    config: SynthConfig, sink: BlockSink, run_tasks: TaskRunner, phases: Phases
) -> dict[str, Any]:
    """Make the files that are missing; returns the facts of the whole lake."""
    shape, graph = SHAPES[config.like], (config.like, config.scale, config.seed)
    sizes = scaled_sizes(shape, config.scale)
    edge_files = max(_MIN_EDGE_FILES, -(-sizes.edges // _EDGES_PER_FILE))
    node_files = max(_MIN_NODE_FILES, -(-sizes.nodes * shape.features // _FEATURES_PER_FILE))
    edges = [EdgeFile(*graph, part, edge_files, sink) for part in range(edge_files)]
    spans = split_evenly(sizes.nodes, node_files)
    nodes = [NodeFile(*graph, part, ids, sink) for part, ids in enumerate(spans)]
    with phases("edges"):
        _run("edges", write_edge_file, [t for t in edges if not sink.has(t.name)], run_tasks)
    with phases("nodes"):
        _run("nodes", write_node_file, [t for t in nodes if not sink.has(t.name)], run_tasks)
    return {
        "nodes": sizes.nodes,
        "edges": sizes.edges,
        "features": shape.features,
        "classes": shape.classes,
        "edge_files": edge_files,
        "node_files": node_files,
    }


def _run(
    label: str, write: Callable[[Task], int], tasks: list[Task], run_tasks: TaskRunner
) -> None:
    """Carry out the tasks and show how many files are done."""
    rows = 0
    with Progress(label, len(tasks), "files") as progress:
        for _, count in run_tasks(write, tasks):
            rows += count
            progress.advance(note=f"{rows:,} {label}")
