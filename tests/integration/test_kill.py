from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.integration.killer import KINDS, stages

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture(scope="module")
def undisturbed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Every stage run to its end."""
    work = tmp_path_factory.mktemp("undisturbed")
    for stage, kind in KINDS.items():
        if stage != "replace":  # ends in the same graph as ingest
            stages(work, work / kind)[stage]()
    return work


def kill_everywhere(stage: str, work: Path, moments: int) -> int:
    command = [sys.executable, "-m", "tests.integration.killer", stage, str(work)]
    command += [str(work / KINDS[stage]), str(moments)]
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    done = subprocess.run(
        command, cwd=ROOT, env=environment, capture_output=True, text=True, timeout=1000
    )
    assert done.returncode == 0, done.stderr[-2000:]
    return int(done.stdout)


@pytest.mark.parametrize("stage", KINDS)
def test_killed_stage_ends_in_the_same_bytes(undisturbed: Path, stage: str) -> None:
    """SIGKILL at some moments spread over the whole stage, and at each act of its commit."""
    assert kill_everywhere(stage, undisturbed, moments=6) >= 10


@pytest.mark.slow
@pytest.mark.timeout(1200)
@pytest.mark.parametrize("stage", KINDS)
def test_killed_stage_at_every_moment(undisturbed: Path, stage: str) -> None:
    assert kill_everywhere(stage, undisturbed, moments=0) >= 50
