"""The ingest stage: Parquet edge and node tables → GraphStore."""

from __future__ import annotations

from typing import Any

import numpy as np

from pipeline.config import IngestConfig
from pipeline.console import say, warn
from pipeline.graph.edges import EDGES, ingest_edges, shard_names, shard_spans
from pipeline.graph.nodes import LABELS, NODES, ingest_nodes, nodes_finished
from pipeline.graph.statistics import edge_homophily
from pipeline.graph.store import DEGREES, KIND
from pipeline.lake.tables import open_table
from pipeline.measure import Phases, peak_memory
from pipeline.storage.artifact import Manifest
from pipeline.storage.build import Build
from pipeline.storage.files import map_array, read_json
from pipeline.types import TaskRunner, run_inline


def ingest(config: IngestConfig, run_tasks: TaskRunner = run_inline) -> dict[str, Any]:
    """Build the GraphStore, or find it finished. Returns counts, seconds, memory and paths."""
    phases = Phases()
    with phases("open"):
        nodes = open_table(config.nodes, [config.id, config.features, config.label])
        edges = open_table(config.edges, [config.src, config.dst])
    recipe = {
        "edges": edges.identity(),
        "nodes": nodes.identity(),
        "columns": [config.src, config.dst, config.id, config.features, config.label],
        "shard_entries": config.shard_entries,
    }
    with Build(config.out, KIND, recipe, overwrite=config.overwrite) as build:
        reused = build.finished is not None
        if build.finished is not None:
            say(f"ingest: {config.out} is finished already; reused.")
            manifest = build.finished
        else:
            say(f"ingest: {nodes.rows:,} nodes and {edges.rows:,} edge rows → {config.out}")
            with phases("nodes"):
                if not nodes_finished(build.sink):
                    ingest_nodes(nodes, config, build.sink)
            with phases("edges"):
                ingest_edges(
                    edges,
                    config.src,
                    config.dst,
                    nodes.rows,
                    config.shard_entries,
                    build.sink,
                    run_tasks,
                )
            with phases("commit"):
                manifest = _commit(build, nodes.rows, phases)
    return {
        "reused": reused,
        **{k: v for k, v in manifest.facts.items() if k != "shards"},
        "shards": len(manifest.facts["shards"]),
        "seconds": phases.seconds,
        "peak_memory_bytes": peak_memory(),
        "outputs": {"store": str(config.out)},
    }


def _commit(build: Build, nodes: int, phases: Phases) -> Manifest:
    sink = build.sink
    shards = shard_spans(sink)
    pointers = [map_array(sink.root / shard_names(i)[0]) for i in range(len(shards))]
    degrees = np.concatenate([np.diff(p) for p in pointers]).astype(np.int32)
    sink.array(DEGREES, degrees)
    labels = map_array(sink.root / LABELS)
    table, read = read_json(sink.root / NODES), read_json(sink.root / EDGES)
    if not degrees.any():
        warn("the graph has no edges: propagation will add nothing to the features.")
    facts = {
        "nodes": nodes,
        "entries": int(degrees.sum(dtype=np.int64)),
        "edge_rows": read["edge_rows"],
        "self_loops": read["self_loops"],
        "isolated_nodes": int((degrees == 0).sum()),
        "max_degree": int(degrees.max()),
        "features": table["features"],
        "classes": len(table["classes"]),
        "class_names": table["classes"],
        "labelled": int((labels >= 0).sum()),
        "homophily": edge_homophily(sink.root, shards, labels),
        "shards": [[span.start, span.stop] for span in shards],
    }
    return build.commit(
        facts, {"seconds": dict(phases.seconds), "peak_memory_bytes": peak_memory()}
    )
