"""All stages in a row, as the jobs run them: lake → graph → basis → run → report."""

from __future__ import annotations

import argparse
import os
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from pipeline.basis.propagate import propagate
from pipeline.config import (
    MODELS,
    GraphShape,
    HeadConfig,
    IngestConfig,
    PropagateConfig,
    SynthConfig,
    TrainConfig,
)
from pipeline.console import format_seconds, guarded, say
from pipeline.errors import ConfigError
from pipeline.graph.ingest import ingest
from pipeline.lake.synth import synthesize
from pipeline.measure import Phases
from pipeline.options import HelpFormatter, add_column_options, add_head_options, head_config
from pipeline.report.page import write_report
from pipeline.report.run import load_run
from pipeline.report.table import comparison_table
from pipeline.storage.files import fingerprint
from pipeline.storage.uri import local_path
from pipeline.training.stage import run_training
from pipeline.types import StoreDtype
from pipeline.workers import open_workers


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


@dataclass(frozen=True)
class _Configs:
    """The configs of all stages, made and so checked before any of them begins."""

    synth: SynthConfig | None
    ingest: IngestConfig
    propagate: PropagateConfig
    train: TrainConfig


def _run(defaults: JobDefaults, options: argparse.Namespace) -> int:
    configs = _configs(defaults, options)
    phases = Phases()
    with open_workers(options.workers) as workers:
        if configs.synth is not None:
            with phases("lake"):
                synthesize(configs.synth, workers.run_tasks)
        with phases("ingest"):
            ingest(configs.ingest, workers.run_tasks)
        with phases("propagate"):
            propagate(
                replace(configs.propagate, threads=workers.threads),
                workers.run_tasks,
                workers.count,
            )
        with phases("train"):
            run_training(replace(configs.train, threads=workers.threads), workers.launch)
    with phases("report"):
        page = write_report(configs.train.out)
    say("seconds: " + ", ".join(f"{name} {s:.1f}" for name, s in phases.seconds.items()))
    say(f"done in {format_seconds(phases.total)}")
    print(comparison_table(load_run(configs.train.out)))
    print(f"report: {page}", flush=True)
    return 0


def _configs(defaults: JobDefaults, options: argparse.Namespace) -> _Configs:
    if (options.edges is None) != (options.nodes is None):
        raise ConfigError("--edges and --nodes go together: give both, or none.")
    work = local_path(options.work or _default_work(defaults, options), "--work").absolute()
    heads = tuple(head_config(name, options) for name in MODELS)
    synth = None
    if options.edges is None:
        synth = SynthConfig(
            like=defaults.like,
            scale=options.scale,
            seed=options.seed,
            out=work / "lake",
            overwrite=True,
        )
        notes = {"like": defaults.like, "scale": f"{options.scale:g}"}
    else:
        notes = {"edges": options.edges, "nodes": options.nodes}
    return _Configs(
        synth=synth,
        ingest=IngestConfig(
            edges=options.edges or str(work / "lake" / "edges"),
            nodes=options.nodes or str(work / "lake" / "nodes"),
            out=work / "graph",
            src=options.src,
            dst=options.dst,
            id=options.id,
            features=options.features,
            label=options.label,
            overwrite=True,
        ),
        propagate=PropagateConfig(
            store=work / "graph",
            out=work / "basis",
            order=max(head.order for head in heads),
            dtype=StoreDtype(options.dtype),
            overwrite=True,
        ),
        train=TrainConfig(
            basis=work / "basis",
            out=work / "run",
            heads=heads,
            splits=options.splits,
            seed=options.seed,
            epochs=options.epochs,
            batch_rows=options.batch_rows,
            notes=notes,
            overwrite=True,
        ),
    )


def _default_work(defaults: JobDefaults, options: argparse.Namespace) -> str:
    """A folder for each lake, so that a job does not replace what another has made."""
    root = os.environ.get("GSCNET_WORK", "runs")
    if "working_dir_files" in Path.cwd().parts and root == "runs":
        # Ray's copy of an uploaded --working-dir is removed after the job
        root = str(Path.home() / "gscnet-runs")
    if options.edges is not None:
        return f"{root}/lake-{fingerprint([options.edges, options.nodes])[:8]}"
    return f"{root}/{defaults.like}-{options.scale:g}-seed{options.seed}"


def _parser(defaults: JobDefaults, about: str) -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        description=about,
        epilog="Finished stages are reused when the job is run again; stages whose input or "
        "options have changed are built anew. On a cluster, --work must be on a disk that all "
        "nodes share.",
        formatter_class=HelpFormatter,
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
