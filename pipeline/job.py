"""All stages in a row, as the jobs run them: lake → graph → basis → run → report."""

from __future__ import annotations

import argparse
import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pipeline.basis.propagate import propagate
from pipeline.cli import add_column_options, add_head_options, guarded, head_config
from pipeline.config import (
    MODELS,
    GraphShape,
    HeadConfig,
    IngestConfig,
    PropagateConfig,
    SynthConfig,
    TrainConfig,
)
from pipeline.console import format_seconds, say
from pipeline.errors import ConfigError
from pipeline.graph.ingest import ingest
from pipeline.lake.synth import synthesize
from pipeline.measure import Phases
from pipeline.report.page import write_report
from pipeline.report.run import load_run
from pipeline.report.table import comparison_table
from pipeline.storage.uri import local_path
from pipeline.training.stage import run_training
from pipeline.types import Operator, StoreDtype
from pipeline.workers import Workers, open_workers


@dataclass(frozen=True, kw_only=True)
class JobDefaults:
    """What a job does when no option says otherwise."""

    like: GraphShape
    """The graph whose shape the generated lake has."""
    scale: float
    """Of the generated lake."""
    head: HeadConfig
    """The settings of the heads; `model` is replaced by each model's name."""
    epochs: int
    """At the most."""


def run_job(defaults: JobDefaults, about: str, argv: Sequence[str] | None = None) -> int:
    """Parse the options of a job, run every stage and return the exit code."""
    options = _parser(defaults, about).parse_args(argv)
    return guarded(lambda: _run(defaults, options))


def _run(defaults: JobDefaults, options: argparse.Namespace) -> int:
    if (options.edges is None) != (options.nodes is None):
        raise ConfigError("--edges and --nodes go together: give both, or none.")
    work = local_path(options.work or _default_work(defaults, options), "--work").absolute()
    phases = Phases()
    with open_workers(options.workers) as workers:
        with phases("lake"):
            edges, nodes, notes = _lake(defaults, options, work, workers)
        with phases("ingest"):
            _ingest(options, edges, nodes, work, workers)
        with phases("propagate"):
            _propagate(options, work, workers)
        with phases("train"):
            _train(options, work, workers, notes)
    with phases("report"):
        page = write_report(work / "run")
    say("seconds: " + ", ".join(f"{name} {s:.1f}" for name, s in phases.seconds.items()))
    say(f"done in {format_seconds(phases.total)}")
    print(comparison_table(load_run(work / "run")))
    print(f"report: {page}", flush=True)
    return 0


def _lake(
    defaults: JobDefaults, options: argparse.Namespace, work: Path, workers: Workers
) -> tuple[str, str, dict[str, str]]:
    """The URIs of the edge and node table, and notes for the report."""
    if options.edges is not None:
        return options.edges, options.nodes, {"edges": options.edges, "nodes": options.nodes}
    config = SynthConfig(
        like=defaults.like,
        scale=options.scale,
        seed=options.seed,
        out=work / "lake",
        overwrite=True,
    )
    synthesize(config, workers.run_tasks)
    notes = {"like": defaults.like, "scale": f"{options.scale:g}"}
    return str(config.out / "edges"), str(config.out / "nodes"), notes


def _ingest(
    options: argparse.Namespace, edges: str, nodes: str, work: Path, workers: Workers
) -> None:
    config = IngestConfig(
        edges=edges,
        nodes=nodes,
        out=work / "graph",
        src=options.src,
        dst=options.dst,
        id=options.id,
        features=options.features,
        label=options.label,
        overwrite=True,
    )
    ingest(config, workers.run_tasks)


def _propagate(options: argparse.Namespace, work: Path, workers: Workers) -> None:
    config = PropagateConfig(
        store=work / "graph",
        out=work / "basis",
        order=max(options.K1, options.K2),
        operator=Operator.SYM,
        dtype=StoreDtype(options.dtype),
        threads=workers.threads,
        overwrite=True,
    )
    propagate(config, workers.run_tasks, workers.count)


def _train(
    options: argparse.Namespace, work: Path, workers: Workers, notes: dict[str, str]
) -> dict[str, Any]:
    config = TrainConfig(
        basis=work / "basis",
        out=work / "run",
        heads=tuple(head_config(name, options) for name in MODELS),
        splits=options.splits,
        seed=options.seed,
        epochs=options.epochs,
        batch_rows=options.batch_rows,
        threads=workers.threads,
        notes=notes,
        overwrite=True,
    )
    return run_training(config, workers.launch)


def _default_work(defaults: JobDefaults, options: argparse.Namespace) -> str:
    """A folder for each kind of job, so that one does not replace what another has made."""
    root = os.environ.get("GSCNET_WORK", "runs")
    if "working_dir_files" in Path.cwd().parts and root == "runs":
        # Ray's copy of an uploaded --working-dir is removed after the job
        root = str(Path.home() / "gscnet-runs")
    if options.edges is not None:
        return f"{root}/{defaults.like}-lake"
    return f"{root}/{defaults.like}-{options.scale:g}-seed{options.seed}"


def _parser(defaults: JobDefaults, about: str) -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        description=about,
        epilog="Finished stages are reused when the job is run again; stages whose input or "
        "options have changed are built anew. On a cluster, --work must be on a disk that all "
        "nodes share.",
        formatter_class=argparse.ArgumentDefaultsHelpFormatter,
    )
    data = parser.add_argument_group("the data: a lake of your own, or a generated one")
    data.add_argument("--edges", metavar="URI", help="edge table: a Parquet file or folder")
    data.add_argument("--nodes", metavar="URI", help="node table: a Parquet file or folder")
    add_column_options(data)
    data.add_argument(
        "--scale",
        type=float,
        default=defaults.scale,
        help=f"of the generated {defaults.like.capitalize()}-shaped lake; 1 is the real size",
    )
    run = parser.add_argument_group("the run")
    run.add_argument(
        "--work",
        help="folder of all artifacts (default: a folder named after the data in $GSCNET_WORK, "
        "else in runs/ or, with an uploaded working directory, in ~/gscnet-runs/)",
    )
    run.add_argument("--workers", type=int, default=2, help="Ray workers; 0 works without Ray")
    run.add_argument("--splits", type=int, default=5, help="random 50/25/25 splits")
    run.add_argument("--seed", type=int, default=0, help="of everything random")
    run.add_argument("--epochs", type=int, default=defaults.epochs, help="at the most")
    run.add_argument("--batch-rows", type=int, help="a step (default: ten steps an epoch)")
    run.add_argument("--dtype", choices=list(StoreDtype), default="float32", help="of the basis")
    add_head_options(parser, defaults.head)
    return parser
