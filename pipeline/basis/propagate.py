"""The propagate stage: GraphStore → BasisStore, one block of columns at a time.

Columns do not depend on each other, so blocks are independent tasks without any exchange:
T_0 X = X, T_1 X = P X, T_{k+1} X = 2 P T_k X − T_{k−1} X.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass, replace
from functools import lru_cache
from pathlib import Path
from typing import Any, Final

import numpy as np

from pipeline.basis.kernels import hop, inverse_sqrt_degrees, scale_rows
from pipeline.basis.plan import PropagationPlan, make_plan
from pipeline.basis.store import KIND, LAYOUT, hop_name, scale_name, to_half
from pipeline.config import PropagateConfig
from pipeline.console import Progress, format_bytes, say, warn
from pipeline.errors import StoreError
from pipeline.graph.nodes import INTEGER_IDS, LABELS, STRING_IDS
from pipeline.graph.store import GraphStore
from pipeline.measure import Phases, available_memory, peak_memory, reset_peak_memory
from pipeline.storage.artifact import Artifact
from pipeline.storage.build import Build
from pipeline.storage.files import read_json, write_json_durably
from pipeline.storage.sink import BlockSink
from pipeline.types import FloatArray, Operator, Span, StoreDtype, TaskRunner, run_inline

VALUES_VERSION: Final = 1
"""Raised whenever the same graph and options would give other bits."""


@dataclass(frozen=True)
class BlockMeasured:
    """What a worker measured on one block."""

    seconds: float
    peak_memory_bytes: int


@dataclass(frozen=True)
class BlockTask:
    """All hops of one block of columns."""

    graph: Path
    content: str
    """The graph's fingerprint."""
    columns: Span
    order: int
    operator: Operator
    dtype: StoreDtype
    threads: int
    sink: BlockSink


def chebyshev_hops(
    graph: GraphStore, columns: Span, order: int, operator: Operator, threads: int
) -> Iterator[FloatArray]:
    """Yield T_k(P) X for k = 0..order on some columns of X, [nodes, len(columns)] float32.

    A yielded array is a buffer of the recurrence: it holds until the next one is asked for.
    """
    current = graph.read_columns(columns)
    yield current
    if order == 0:
        return
    shards = graph.shards()
    scale = inverse_sqrt_degrees(graph.degrees(), operator)
    previous = np.zeros_like(current)
    gathered = np.empty_like(current)
    with ThreadPoolExecutor(threads) as pool:
        for k in range(1, order + 1):
            scale_rows(scale, current, gathered, pool, threads)
            factor = 1.0 if k == 1 else 2.0
            hop(shards, scale, operator, gathered, previous, factor, pool, threads)
            # the buffer of T_{k−1} now holds T_{k+1}
            previous, current = current, previous
            yield current


def propagate_block(task: BlockTask) -> BlockMeasured:
    """Write the hops of one block that are not there yet."""
    start = time.perf_counter()
    reset_peak_memory()
    graph = _open_once(task.graph, task.content)
    hops = chebyshev_hops(graph, task.columns, task.order, task.operator, task.threads)
    for k, values in enumerate(hops):
        if _hop_finished(task, k):
            continue
        _check_finite(task, k, values)
        if task.dtype is StoreDtype.FLOAT16:
            half, scale = to_half(values)
            task.sink.array(scale_name(k, task.columns), scale)
            task.sink.array(hop_name(k, task.columns), half)
        else:
            task.sink.array(hop_name(k, task.columns), values)
    measured = BlockMeasured(time.perf_counter() - start, peak_memory())
    # for the sum of a run that is interrupted and goes on
    write_json_durably(_measured_file(task), asdict(measured))
    return measured


def _check_finite(task: BlockTask, hop: int, values: FloatArray) -> None:
    finite = np.isfinite(values).all(axis=0)
    if not finite.all():
        column = task.columns.start + int(np.argmin(finite))
        raise StoreError(
            f"Feature {column} of {task.graph} is too large: hop {hop} does not fit in float32. "
            "Scale that column of the node table down."
        )


def _measured_file(task: BlockTask) -> Path:
    return task.sink.work / f"{task.columns.start:05d}.json"


@lru_cache(maxsize=1)
def _open_once(root: Path, content: str) -> GraphStore:
    """The graph, verified once for all the blocks that a worker propagates."""
    graph = GraphStore.open(root)
    if graph.content != content:
        raise StoreError(f"{root} was replaced while it was being propagated; run this again.")
    return graph


def propagate(
    config: PropagateConfig, run_tasks: TaskRunner = run_inline, workers: int = 0
) -> dict[str, Any]:
    """Build the BasisStore, or find it finished. Returns counts, seconds, memory and paths."""
    phases = Phases()
    with phases("open"):
        graph = GraphStore.open(config.store)
    recipe = {
        "values": VALUES_VERSION,
        "graph": graph.content,
        "order": config.order,
        "operator": str(config.operator),
        "dtype": str(config.dtype),
    }
    with Build(config.out, KIND, recipe, overwrite=config.overwrite) as build:
        reused = build.finished is not None
        if reused:
            say(f"propagate: {config.out} is finished already; reused.")
        else:
            _build(config, graph, build, run_tasks, workers, phases)
    assert build.finished is not None
    facts, blocks = build.finished.facts, build.finished.blocks
    return {
        "reused": reused,
        **{k: facts[k] for k in ("nodes", "entries", "features", "order", "operator", "dtype")},
        "bytes": sum(block.bytes for block in blocks.values()),
        "seconds": phases.seconds,
        "peak_memory_bytes": Artifact(config.out, build.finished)
        .measurements()
        .get("peak_memory_bytes", 0),
        "outputs": {"basis": str(config.out)},
    }


def _build(
    config: PropagateConfig,
    graph: GraphStore,
    build: Build,
    run_tasks: TaskRunner,
    workers: int,
    phases: Phases,
) -> None:
    """Run all blocks and commit."""
    plan = _plan(config, graph, workers, build)
    say(f"propagate: T_0..T_{config.order}({_letter(config)}) X → {config.out}")
    say(f"  plan: {plan.describe(workers, config.threads)}")
    tasks = _tasks(config, graph, plan, build.sink)
    with phases("propagate"):
        measured = _run_blocks(tasks, run_tasks)
    with phases("commit"):
        _copy_labels_and_ids(graph, build.sink)
    worker_peak = max(m.peak_memory_bytes for m in measured)
    say(f"  measured peak: {format_bytes(worker_peak)} a worker")
    at_once = max(1, min(workers, len(tasks)))
    earlier = sum(m.seconds for m in measured) / at_once - phases.seconds["propagate"]
    if build.resumed and earlier > 0:
        phases.seconds["before the interruption"] = earlier
    measurements = {
        "seconds": dict(phases.seconds),
        "peak_memory_bytes": worker_peak * at_once,
        "workers": workers,
        "threads": config.threads,
        "graph": graph.artifact.measurements(),
    }
    build.commit(_facts(config, graph), measurements)


def _plan(
    config: PropagateConfig, graph: GraphStore, workers: int, build: Build
) -> PropagationPlan:
    """The plan of this run; its blocks are those of an interrupted run where there is one.

    The free memory may differ from run to run, but blocks of two layouts do not fit together.
    """
    sink = build.sink
    plan = make_plan(
        nodes=graph.nodes,
        entries=graph.entries,
        features=graph.features,
        order=config.order,
        dtype=config.dtype,
        memory=config.memory or available_memory() // max(workers, 1),
        workers=workers,
        block_columns=config.block_columns,
    )
    if not sink.has(LAYOUT):
        build.start_afresh()  # without it, blocks that may be there cannot be trusted
        sink.json(LAYOUT, [[block.start, block.stop] for block in plan.blocks])
        return plan
    blocks = tuple(Span(*ends) for ends in read_json(sink.root / LAYOUT))
    if blocks != plan.blocks:
        warn(
            "the column blocks of the interrupted run are kept; --block-columns and --memory wait."
        )
    return replace(plan, blocks=blocks)


def _tasks(
    config: PropagateConfig, graph: GraphStore, plan: PropagationPlan, sink: BlockSink
) -> list[BlockTask]:
    return [
        BlockTask(
            graph=graph.root.absolute(),
            content=graph.content,
            columns=block,
            order=config.order,
            operator=config.operator,
            dtype=config.dtype,
            threads=config.threads,
            sink=sink,
        )
        for block in plan.blocks
    ]


def _run_blocks(tasks: list[BlockTask], run_tasks: TaskRunner) -> list[BlockMeasured]:
    """Propagate the blocks that are not finished; what was measured on all of them."""
    pending = [
        task for task in tasks if not all(_hop_finished(task, k) for k in range(task.order + 1))
    ]
    measured = [_measured_before(task) for task in tasks if task not in pending]
    with Progress("propagate", len(tasks), "blocks") as progress:
        progress.advance(len(measured))
        for _, found in run_tasks(propagate_block, pending):
            measured.append(found)
            progress.advance()
    return measured


def _measured_before(task: BlockTask) -> BlockMeasured:
    try:
        return BlockMeasured(**read_json(_measured_file(task)))
    except OSError:  # killed in between, or a finished store that is being repaired
        return BlockMeasured(0.0, 0)


def _hop_finished(task: BlockTask, hop: int) -> bool:
    if not task.sink.has(hop_name(hop, task.columns)):
        return False
    return task.dtype is StoreDtype.FLOAT32 or task.sink.has(scale_name(hop, task.columns))


def _copy_labels_and_ids(graph: GraphStore, sink: BlockSink) -> None:
    for name in (LABELS, INTEGER_IDS):
        if name in graph.artifact.manifest.blocks:
            sink.array(name, graph.artifact.array(name))
    if STRING_IDS in graph.artifact.manifest.blocks:
        with sink.file(STRING_IDS) as path:
            path.write_bytes(graph.artifact.path(STRING_IDS).read_bytes())


def _facts(config: PropagateConfig, graph: GraphStore) -> dict[str, Any]:
    kept = ("nodes", "entries", "features", "classes", "class_names", "labelled", "homophily")
    return {
        **{name: graph.facts[name] for name in kept},
        "operator": str(config.operator),
        "order": config.order,
        "dtype": str(config.dtype),
    }


def _letter(config: PropagateConfig) -> str:
    return "P̃" if config.operator is Operator.SYM_LOOPS else "P"
