"""Runs a stage and kills it with SIGKILL at the n-th thing it does to its output folder.

    python -m tests.integration.killer STAGE WORK REFERENCE MOMENTS

For MOMENTS numbers n spread over the stage (0: all of them), and for its last acts, a forked child
runs the stage into a new folder and dies at its n-th open, rename, removal or new folder there;
then readers look at what is left, and the stage is run again, undisturbed. Ends with exit code 0 if
every rerun gave the bytes of REFERENCE. Prints how many moments were tried.
"""

from __future__ import annotations

import os
import shutil
import signal
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

from pipeline.basis.propagate import propagate
from pipeline.config import HeadConfig, IngestConfig, PropagateConfig, SynthConfig, TrainConfig
from pipeline.errors import StoreError
from pipeline.graph.ingest import ingest
from pipeline.lake.synth import synthesize
from pipeline.storage.artifact import Artifact
from pipeline.training.stage import run_training
from tests.lakes import tree_bytes

ACTS = {"open", "os.rename", "os.remove", "os.mkdir", "os.rmdir", "shutil.rmtree"}
LAST_ACTS = 5  # the commit
KINDS = {
    "synth": "lake",
    "ingest": "graph",
    "propagate": "basis",
    "train": "run",
    "replace": "graph",
}


def stages(work: Path, out: Path) -> dict[str, Callable[[], Any]]:
    """The stages on the inputs in `work`, each writing to `out`."""
    return {
        "synth": lambda: synthesize(SynthConfig(like="pokec", scale=0.0005, out=out)),
        "ingest": lambda: ingest(graph_config(work, out)),
        "replace": lambda: ingest(replace(graph_config(work, out), overwrite=True)),
        "propagate": lambda: propagate(
            PropagateConfig(store=work / "graph", out=out, order=2, block_columns=33)
        ),
        "train": lambda: run_training(
            TrainConfig(
                basis=work / "basis",
                out=out,
                heads=(HeadConfig(model="gscnet"), HeadConfig(model="mlp")),
                splits=1,
                epochs=1,
            )
        ),
    }


def graph_config(work: Path, out: Path) -> IngestConfig:
    """How the graph is made of the lake in `work`."""
    lake = work / "lake"
    return IngestConfig(edges=f"{lake}/edges", nodes=f"{lake}/nodes", out=out, shard_entries=10_000)


def prepare(stage: str, work: Path, out: Path) -> None:
    """Nothing in the output's place or, for `replace`, another graph."""
    for left in out.parent.glob(f"{out.name}*"):
        shutil.rmtree(left)
    if stage == "replace":
        shutil.copytree(work / "other-graph", out)


def run_in_child(
    stage: Callable[[], Any], out: Path, kill_at: int | None = None
) -> tuple[int, int]:
    """The wait status of a forked child that runs `stage`, and how many acts it came to."""
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        os.dup2(os.open(os.devnull, os.O_WRONLY), 2)
        acts = count_acts(out, kill_at)
        stage()
        os.write(writing, str(acts()).encode())
        os._exit(0)
    os.close(writing)
    with os.fdopen(reading) as answer:
        said = answer.read()
    return os.waitpid(child, 0)[1], int(said or 0)


def count_acts(out: Path, kill_at: int | None) -> Callable[[], int]:
    """Count this process's acts on files below `out`; be killed at the `kill_at`-th."""
    seen = 0

    def hook(event: str, arguments: tuple[Any, ...]) -> None:
        nonlocal seen
        if event not in ACTS or not str(arguments[0]).startswith(str(out)):
            return
        seen += 1
        if seen == kill_at:
            os.kill(os.getpid(), signal.SIGKILL)

    sys.addaudithook(hook)
    return lambda: seen


def check_readers(out: Path, kind: str) -> None:
    """Whoever reads now finds a whole artifact or none."""
    try:
        artifact = Artifact.open(out, kind)
    except StoreError:
        return
    for name in artifact.manifest.blocks:
        artifact.path(name)


def main(stage: str, work: Path, reference: Path, moments: int) -> None:
    """Kill the stage at each of the moments."""
    # a killed process loses nothing that it has written: syncing would only cost time
    os.fsync = lambda fd: None
    wanted = tree_bytes(reference)
    out = work / f"killed-{stage}"
    run = stages(work, out)[stage]
    if stage == "replace":
        ingest(replace(graph_config(work, work / "other-graph"), shard_entries=5_000))
    prepare(stage, work, out)
    status, acts = run_in_child(run, out)
    assert status == 0, f"the undisturbed stage failed with status {status}"
    step = max(1, acts // moments) if moments else 1
    tried = sorted({*range(1, acts, step), *range(max(1, acts - LAST_ACTS), acts)})
    for number in tried:
        prepare(stage, work, out)
        status, _ = run_in_child(run, out, number)
        assert os.WIFSIGNALED(status), f"act {number}: the stage ended with status {status}"
        check_readers(out, KINDS[stage])
        status, _ = run_in_child(run, out)
        assert status == 0, f"killed at act {number}, the rerun failed with status {status}"
        found = tree_bytes(out)
        differing = [n for n in wanted.keys() | found.keys() if wanted.get(n) != found.get(n)]
        assert not differing, f"killed at act {number}, the rerun differs in {differing}"
        assert [p.name for p in work.glob(f"{out.name}*")] == [out.name], f"left at act {number}"
    print(len(tried))


if __name__ == "__main__":
    main(sys.argv[1], Path(sys.argv[2]), Path(sys.argv[3]), int(sys.argv[4]))
