from __future__ import annotations

import ast
import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pipeline.console import Progress, format_bytes, format_seconds
from pipeline.measure import Phases, available_memory, machine, peak_memory, reset_peak_memory
from pipeline.types import split_by_size, split_evenly

ROOT = Path(__file__).parents[1]


@given(length=st.integers(0, 1000), parts=st.integers(1, 50))
def test_even_parts_cover_everything_and_differ_by_one(length: int, parts: int) -> None:
    spans = split_evenly(length, parts)
    assert [i for span in spans for i in range(span.start, span.stop)] == list(range(length))
    assert max(map(len, spans)) - min(map(len, spans)) <= 1


@given(length=st.integers(0, 1000), size=st.integers(1, 50))
def test_parts_of_a_size_cover_everything(length: int, size: int) -> None:
    spans = split_by_size(length, size)
    assert [i for span in spans for i in range(span.start, span.stop)] == list(range(length))
    assert all(len(span) == size for span in spans[:-1])


@pytest.mark.parametrize(
    ("count", "text"), [(0, "0 B"), (1536, "1.5 KiB"), (3 << 30, "3.0 GiB"), (1 << 42, "4.0 TiB")]
)
def test_bytes_for_people(count: int, text: str) -> None:
    assert format_bytes(count) == text


@pytest.mark.parametrize(
    ("seconds", "text"), [(0.04, "0.0 s"), (75.3, "1 min 15 s"), (7261, "2 h 01 min")]
)
def test_seconds_for_people(seconds: float, text: str) -> None:
    assert format_seconds(seconds) == text


def test_progress_counts_to_the_end(capsys: pytest.CaptureFixture[str]) -> None:
    with Progress("hops", 3, "hops", log_every=0.0) as progress:
        for _ in range(3):
            progress.advance()
    shown = capsys.readouterr()
    assert shown.out == ""
    assert "3/3 hops" in shown.err


def test_phases_add_up() -> None:
    phases = Phases()
    for _ in range(2):
        with phases("a"):
            pass
    with phases("b"):
        pass
    assert list(phases.seconds) == ["a", "b"]
    assert phases.total == sum(phases.seconds.values())


def test_peak_memory_sees_an_allocation_and_can_be_reset() -> None:
    code = """
from pipeline.measure import peak_memory, reset_peak_memory
block = bytearray(200 << 20)
high = peak_memory()
del block
reset_peak_memory()
low = peak_memory()
assert high > 200 << 20, high
assert low < high - (150 << 20), (low, high)
"""
    assert subprocess.run([sys.executable, "-c", code]).returncode == 0
    reset_peak_memory()
    assert 0 < peak_memory() < available_memory() + (64 << 30)
    assert machine()["cores"]


def test_ray_is_imported_in_one_place() -> None:
    outside = [
        path
        for path in (ROOT / "pipeline").rglob("*.py")
        if "cluster" not in path.parts and "ray" in _imports(path)
    ]
    assert outside == []


def test_the_way_of_the_data_is_one_way() -> None:
    """A stage imports what comes before it, never what comes after."""
    order = ["storage", "lake", "graph", "basis", "filters", "models", "training", "report"]
    for place, stage in enumerate(order):
        later = {f"pipeline.{name}" for name in order[place + 1 :]}
        for path in (ROOT / "pipeline" / stage).rglob("*.py"):
            found = {".".join(name.split(".")[:2]) for name in _imports(path, whole=True)}
            assert not found & later, path


def _imports(path: Path, *, whole: bool = False) -> set[str]:
    names = set()
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            names |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module:
            names.add(node.module)
    return names if whole else {name.split(".")[0] for name in names}
