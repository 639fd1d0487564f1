from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from pipeline.basis.store import BasisStore
from pipeline.storage.files import read_json
from tests.integration.clusters import ROOT, descendants, end, private_environment
from tests.lakes import all_rows

pytestmark = [pytest.mark.integration, pytest.mark.slow, pytest.mark.timeout(600)]
JOB = [sys.executable, "jobs/train_pokec.py", "--scale", "0.02", "--splits", "2", "--epochs", "60"]


def start(work: Path, home: Path, *options: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [*JOB, "--work", str(work), *options],
        cwd=ROOT,
        env=private_environment(home),
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
    )


def title(process: int) -> str:
    try:
        return Path(f"/proc/{process}/cmdline").read_text().replace("\0", " ")
    except OSError:
        return ""


def wait_until_there(path: Path, job: subprocess.Popen[str]) -> None:
    while not path.exists():
        assert job.poll() is None, job.stderr and job.stderr.read()
        time.sleep(0.02)


@pytest.fixture(scope="module")
def undisturbed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    work = tmp_path_factory.mktemp("undisturbed")
    job = start(work, tmp_path_factory.mktemp("home"))
    _, errors = job.communicate(timeout=300)
    assert job.returncode == 0, errors
    return work


def losses(work: Path) -> dict[str, list[float]]:
    heads = (work / "run" / "heads").glob("*.json")
    return {path.stem: read_json(path)["curve"]["train_loss"] for path in heads}


def test_killed_training_worker_costs_its_head_alone(undisturbed: Path, tmp_path: Path) -> None:
    work = tmp_path / "work"
    job = start(work, tmp_path)
    wait_until_there(work / "run" / "heads" / "gscnet-split0.json", job)
    first = (work / "run" / "heads" / "gscnet-split0.json").stat().st_mtime_ns
    worker = next(p for p in descendants(job.pid) if "RayTrainWorker" in title(p))
    os.kill(worker, signal.SIGKILL)
    _, errors = job.communicate(timeout=300)
    assert job.returncode == 0, errors
    assert "workers were lost" in errors
    assert (work / "run" / "heads" / "gscnet-split0.json").stat().st_mtime_ns == first
    assert losses(work) == losses(undisturbed)


def test_killed_driver_costs_nothing_that_is_finished(undisturbed: Path, tmp_path: Path) -> None:
    work = tmp_path / "work"
    job = start(work, tmp_path)
    wait_until_there(work / "run" / "heads" / "gscnet-split0.json", job)
    first = (work / "run" / "heads" / "gscnet-split0.json").stat().st_mtime_ns
    end(job)
    again = start(work, tmp_path)
    _, errors = again.communicate(timeout=300)
    assert again.returncode == 0, errors
    assert errors.count("reused") == 3
    assert (work / "run" / "heads" / "gscnet-split0.json").stat().st_mtime_ns == first
    assert losses(work) == losses(undisturbed)


def test_killed_propagation_worker_is_replaced(undisturbed: Path, tmp_path: Path) -> None:
    work = tmp_path / "work"
    job = start(work, tmp_path)
    wait_until_there(work / "basis" / ".building", job)
    killed = 0
    while killed == 0 and not (work / "basis" / "manifest.json").exists():
        for worker in descendants(job.pid):
            if "ray::propagate_block" in title(worker) and killed == 0:
                os.kill(worker, signal.SIGKILL)
                killed += 1
    _, errors = job.communicate(timeout=300)
    assert job.returncode == 0, errors
    assert killed == 1
    one, two = (BasisStore.open(root / "basis") for root in (work, undisturbed))
    assert all_rows(one).tobytes() == all_rows(two).tobytes()


def test_bad_lake_on_ray_is_one_sentence(undisturbed: Path, tmp_path: Path) -> None:
    """An error that a Ray task raises reaches the user as it would without Ray."""
    nodes = str(undisturbed / "lake" / "nodes")
    # as edges, the node table's lists are no ids: found where they are read, in a task
    job = start(
        tmp_path / "work", tmp_path, "--edges", nodes, "--nodes", nodes, "--src", "id", "--dst", "x"
    )
    _, errors = job.communicate(timeout=300)
    assert job.returncode == 2, errors
    sentences = [line for line in errors.splitlines() if line.startswith("error: ")]
    assert len(sentences) == 1
    assert "column 'x' must hold integers or strings" in sentences[0]
    assert "Traceback" not in errors
    assert not (tmp_path / "work" / "graph").exists()
