from __future__ import annotations

import os
from pathlib import Path

import pytest


@pytest.fixture(autouse=True)
def fast_disk(monkeypatch: pytest.MonkeyPatch) -> None:
    """Leave syncing to the system: it guards against power cuts, which tests do not make."""
    monkeypatch.setattr(os, "fsync", lambda _: None)


@pytest.fixture(scope="session")
def datasets() -> Path:
    """The folder of real graphs; tests that need it are skipped where it is missing."""
    beside = Path(__file__).resolve().parents[2] / "shared" / "datasets"
    root = Path(os.environ.get("GSCNET_DATASETS", beside))
    if not root.is_dir():
        pytest.skip(f"no real graphs: {root} does not exist (set GSCNET_DATASETS)")
    return root
