"""The command line `gscnet`: one verb a stage.

Progress goes to stderr, results to stdout; with --json the last line of stdout is one JSON object.
Exit codes: 0 done, 2 for input that cannot be used (one sentence on stderr), 130 interrupted.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pipeline
from pipeline.config import (
    MODELS,
    HeadConfig,
    IngestConfig,
    PropagateConfig,
    SynthConfig,
    TrainConfig,
)
from pipeline.console import guarded
from pipeline.options import (
    HelpFormatter,
    add_column_options,
    add_head_options,
    add_resource_options,
    count,
    head_config,
    model_names,
    positive,
)
from pipeline.storage.uri import local_path
from pipeline.types import Operator, StoreDtype
from pipeline.workers import open_workers

Outcome = dict[str, Any]


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command line and return the exit code."""
    options = _parser().parse_args(argv)
    return guarded(lambda: _run(options))


def _run(options: argparse.Namespace) -> int:
    outcome = options.run(options)
    if options.json:
        print(json.dumps({"verb": options.verb, **outcome}, ensure_ascii=False), flush=True)
    else:
        for name, path in outcome["outputs"].items():
            print(f"{name}: {path}")
    return 0


def _synth(options: argparse.Namespace) -> Outcome:
    from pipeline.lake.synth import synthesize

    config = SynthConfig(
        like=options.like,
        scale=options.scale,
        seed=options.seed,
        out=_folder(options.out, "--out"),
        overwrite=options.overwrite,
    )
    with open_workers(options.workers) as workers:
        return synthesize(config, workers.run_tasks)


def _ingest(options: argparse.Namespace) -> Outcome:
    from pipeline.graph.ingest import ingest

    config = IngestConfig(
        edges=options.edges,
        nodes=options.nodes,
        out=_folder(options.out, "--out"),
        src=options.src,
        dst=options.dst,
        id=options.id,
        features=options.features,
        label=options.label,
        overwrite=options.overwrite,
    )
    with open_workers(options.workers) as workers:
        return ingest(config, workers.run_tasks)


def _propagate(options: argparse.Namespace) -> Outcome:
    from pipeline.basis.propagate import propagate

    store, out = _folder(options.store, "STORE"), _folder(options.out, "--out")
    with open_workers(options.workers, options.threads) as workers:
        config = PropagateConfig(
            store=store,
            out=out,
            order=options.order,
            operator=Operator(options.operator),
            dtype=StoreDtype(options.dtype),
            block_columns=options.block_columns,
            memory=options.memory,
            threads=workers.threads,
            overwrite=options.overwrite,
        )
        return propagate(config, workers.run_tasks, workers.count)


def _train(options: argparse.Namespace) -> Outcome:
    from pipeline.report.run import load_run
    from pipeline.report.table import comparison_table
    from pipeline.training.stage import run_training

    heads = tuple(head_config(name, options) for name in options.models)
    basis, out = _folder(options.basis, "BASIS"), _folder(options.out, "--out")
    with open_workers(options.workers, options.threads) as workers:
        config = TrainConfig(
            basis=basis,
            out=out,
            heads=heads,
            splits=options.splits,
            seed=options.seed,
            epochs=options.epochs,
            patience=options.patience,
            batch_rows=options.batch_rows,
            memory=options.memory,
            threads=workers.threads,
            overwrite=options.overwrite,
        )
        outcome = run_training(config, workers.launch)
    print(comparison_table(load_run(config.out)))
    return outcome


def _report(options: argparse.Namespace) -> Outcome:
    from pipeline.measure import Phases, peak_memory
    from pipeline.report.page import write_report

    phases = Phases()
    with phases("report"):
        root = _folder(options.run_folder, "RUN")
        page = write_report(root, _folder(options.out, "--out") if options.out else None)
    return {
        "bytes": page.stat().st_size,
        "seconds": phases.seconds,
        "peak_memory_bytes": peak_memory(),
        "outputs": {"report": str(page)},
    }


def _folder(text: str, field: str) -> Path:
    return local_path(text, field).absolute()


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="gscnet",
        description="From a graph in a Parquet lake to a trained polynomial graph filter.",
        epilog="The way of the data: synth → ingest → propagate → train → report.",
    )
    parser.add_argument("--version", action="version", version=f"gscnet {pipeline.__version__}")
    verbs = parser.add_subparsers(dest="verb", required=True, metavar="VERB")
    _synth_options(_verb(verbs, "synth", _synth, "generate a lake in the shape of a real graph"))
    _ingest_options(_verb(verbs, "ingest", _ingest, "Parquet edges and nodes → GraphStore"))
    _propagate_options(_verb(verbs, "propagate", _propagate, "GraphStore → BasisStore of T_k(P) X"))
    _train_options(_verb(verbs, "train", _train, "BasisStore → trained heads and metrics"))
    report = _verb(verbs, "report", _report, "run → one self-contained HTML page")
    report.add_argument("run_folder", metavar="RUN", help="the folder that `train` wrote")
    report.add_argument("--out", help="where to write the page (default: RUN/report.html)")
    return parser


def _verb(
    verbs: Any, name: str, run: Callable[[argparse.Namespace], Outcome], about: str
) -> argparse.ArgumentParser:
    verb: argparse.ArgumentParser = verbs.add_parser(
        name,
        help=about,
        description=f"{about[0].upper()}{about[1:]}.",
        formatter_class=HelpFormatter,
    )
    verb.set_defaults(run=run)
    verb.add_argument(
        "--json", action="store_true", help="print one JSON object as the last line of stdout"
    )
    return verb


def _common(verb: argparse.ArgumentParser, out: str) -> None:
    verb.add_argument("--out", required=True, help=out)
    verb.add_argument(
        "--workers", type=count, default=0, help="Ray workers; 0 works in this process, no Ray"
    )
    verb.add_argument(
        "--overwrite",
        action="store_true",
        help="replace what --out holds, once this is finished",
    )


def _synth_options(verb: argparse.ArgumentParser) -> None:
    _common(verb, "the lake's folder")
    verb.add_argument("--like", choices=("wiki", "pokec"), required=True, help="whose shape")
    verb.add_argument("--scale", type=float, default=1.0, help="share of the real graph's size")
    verb.add_argument("--seed", type=count, default=0, help="of everything random")


def _ingest_options(verb: argparse.ArgumentParser) -> None:
    _common(verb, "the store's folder")
    verb.add_argument("--edges", required=True, metavar="URI", help="Parquet file or folder")
    verb.add_argument("--nodes", required=True, metavar="URI", help="Parquet file or folder")
    add_column_options(verb)


def _propagate_options(verb: argparse.ArgumentParser) -> None:
    verb.add_argument("store", metavar="STORE", help="the folder that `ingest` wrote")
    _common(verb, "the basis's folder")
    verb.add_argument("--order", type=count, required=True, metavar="K", help="the highest hop")
    verb.add_argument(
        "--operator", choices=list(Operator), default="sym", help="P, or P with self-loops"
    )
    verb.add_argument(
        "--dtype", choices=list(StoreDtype), default="float32", help="what the basis is stored as"
    )
    verb.add_argument(
        "--block-columns", type=positive, help="columns propagated together (default: planned)"
    )
    add_resource_options(verb)


def _train_options(verb: argparse.ArgumentParser) -> None:
    verb.add_argument("basis", metavar="BASIS", help="the folder that `propagate` wrote")
    _common(verb, "the run's folder")
    verb.add_argument(
        "--models", type=model_names, default=",".join(MODELS), help="names, separated by commas"
    )
    verb.add_argument("--splits", type=int, default=5, help="random 50/25/25 splits")
    verb.add_argument("--seed", type=count, default=0, help="of everything random")
    verb.add_argument("--epochs", type=int, default=100, help="at the most")
    verb.add_argument(
        "--patience", type=int, default=20, help="epochs without a better validation accuracy"
    )
    verb.add_argument(
        "--batch-rows", type=int, help="of all workers together (default: ten steps an epoch)"
    )
    add_resource_options(verb)
    add_head_options(verb, HeadConfig(model="gscnet"))


if __name__ == "__main__":
    sys.exit(main())
