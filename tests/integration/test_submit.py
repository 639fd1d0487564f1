from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from jobs.train_wiki import DEFAULTS
from pipeline.job import run_job
from pipeline.report.run import load_run
from pipeline.storage.artifact import Artifact
from pipeline.storage.files import read_json
from tests.integration.clusters import RAY, ROOT, Cluster, cluster, private_environment

pytestmark = [pytest.mark.integration, pytest.mark.timeout(300)]
SMALL = ["--scale", "0.0005", "--splits", "1", "--epochs", "2"]


@pytest.fixture(scope="module")
def head(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    with cluster(tmp_path_factory.mktemp("home")) as running:
        yield running


def submit(head: Cluster, *words: str) -> subprocess.CompletedProcess[str]:
    # the address: a Ray of the developer's own must be left alone
    return subprocess.run(
        [str(RAY), "job", "submit", f"--address={head.dashboard}", *words],
        cwd=ROOT,
        env=head.environment,
        capture_output=True,
        text=True,
        timeout=280,
    )


def test_submitted_by_path(head: Cluster, tmp_path: Path) -> None:
    done = submit(head, "jobs/train_wiki.py", "--", *SMALL, "--work", str(tmp_path / "work"))
    assert done.returncode == 0, done.stdout[-3000:]
    assert "GSCNet" in done.stdout
    run = load_run(tmp_path / "work" / "run")
    assert [model.label for model in run.models] == ["GSCNet", "MLP"]
    assert (tmp_path / "work" / "run" / "report.html").exists()
    same_as_without_ray(tmp_path / "work", tmp_path / "inline")


def same_as_without_ray(on_ray: Path, inline: Path) -> None:
    """Stores are the same to the bit, and training is up to the order of sums."""
    assert run_job(DEFAULTS, "", [*SMALL, "--workers", "0", "--work", str(inline)]) == 0
    for kind in ("lake", "graph", "basis"):
        one, two = (Artifact.open(root / kind, kind).manifest for root in (on_ray, inline))
        assert one.blocks == two.blocks, kind
    for name in ("gscnet-split0", "mlp-split0"):
        one, two = (read_json(root / "run" / "heads" / f"{name}.json") for root in (on_ray, inline))
        assert one["curve"]["train_loss"] == pytest.approx(two["curve"]["train_loss"], rel=1e-4)


def test_submitted_with_a_working_directory(head: Cluster, tmp_path: Path) -> None:
    job = ["python", "jobs/train_pokec.py", *SMALL, "--work", str(tmp_path / "work")]
    done = submit(head, "--working-dir", ".", "--", *job)
    assert done.returncode == 0, done.stdout[-3000:]
    assert load_run(tmp_path / "work" / "run").data.features == 65


def test_failing_job_says_why(head: Cluster, tmp_path: Path) -> None:
    done = submit(head, "jobs/train_wiki.py", "--", "--edges", "only", "--work", str(tmp_path))
    assert done.returncode != 0
    assert "--edges and --nodes go together" in done.stdout


def test_private_ray_leaves_no_token_behind(tmp_path: Path) -> None:
    """A token in the user's home would switch authentication on for a later `ray start`."""
    environment = private_environment(tmp_path)
    del environment["RAY_AUTH_MODE"]
    command = [sys.executable, "-m", "pipeline.cli", "synth", "--like", "pokec"]
    command += ["--scale", "0.0005", "--workers", "1", "--out", str(tmp_path / "lake")]
    done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert "oken" not in done.stderr
    assert not (tmp_path / ".ray").exists()
