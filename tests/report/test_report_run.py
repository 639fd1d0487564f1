"""Reading a run: what must be there, and what may be missing."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pytest

from pipeline.errors import DamagedBlockError, StoreError
from pipeline.report.run import load_run
from pipeline.report.summary import Filter
from pipeline.report.table import comparison_table
from pipeline.storage.build import Build

if TYPE_CHECKING:
    from tests.report.conftest import MakeRun


def test_reads_what_the_folder_holds(make_run: MakeRun) -> None:
    run = load_run(make_run())
    gscnet, mlp = run.models
    assert run.best is gscnet
    assert [head.split for head in gscnet.heads] == [0, 1, 2, 3, 4]
    assert gscnet.train_seconds == pytest.approx(15.0)
    assert gscnet.total_seconds == pytest.approx(27.3)
    assert gscnet.peak_memory == 940_000_000
    assert (mlp.precompute_seconds, mlp.peak_memory) == (0, 850_000_000)
    assert len(gscnet.filters) == 5
    assert not mlp.has_filter
    assert list(run.measured.stages) == ["synth", "ingest", "propagate", "train"]
    assert run.data.notes == {"like": "wiki", "scale": "0.01"}


def test_precompute_counts_for_the_peak_of_models_that_need_it(make_run: MakeRun) -> None:
    root = make_run(measurements={"precompute": {"seconds": 3, "peak_memory_bytes": 2 << 30}})
    assert [m.peak_memory for m in load_run(root).models] == [2 << 30, 850_000_000]


def test_missing_measurements_are_none(make_run: MakeRun) -> None:
    run = load_run(make_run(measured=False))
    assert [m.precompute_seconds for m in run.models] == [None, 0]
    assert all(m.train_seconds is None and m.peak_memory is None for m in run.models)
    assert run.measured.stages == {}


@pytest.mark.parametrize("content", ["", "[]", "{", '{"train_seconds": "fast"}', '{"a": NaN}'])
def test_a_spoiled_measurement_is_a_missing_one(make_run: MakeRun, content: str) -> None:
    root = make_run(splits=2)
    (root / "measurements" / "gscnet-split0.json").write_text(content)
    assert load_run(root).models[0].train_seconds == pytest.approx(14.6)


def test_measurements_of_other_shapes_are_ignored(make_run: MakeRun) -> None:
    odd = {"stages": [1], "seconds": None, "precompute": 3, "machine": "x", "workers": "two"}
    run = load_run(make_run(measurements=odd))
    assert (run.measured.stages, run.measured.machine, run.measured.workers) == ({}, {}, None)
    (run.root / "measurements.json").write_text("[]")
    assert load_run(run.root).models[0].precompute_seconds is None


def test_a_diverged_head_has_no_filter_to_draw(make_run: MakeRun) -> None:
    broken = {"filter": {"alpha": [None], "beta": [1.0]}, "test_accuracy": None}
    gscnet = load_run(make_run(heads={"gscnet-split1": broken})).models[0]
    assert [split for split, _ in gscnet.filters] == [0, 2, 3, 4]
    assert math.isnan(gscnet.heads[1].test_accuracy)


def test_refuses_what_is_no_run(make_run: MakeRun, tmp_path: Path) -> None:
    with pytest.raises(StoreError, match="holds no run store"):
        load_run(tmp_path / "nothing")
    with Build(tmp_path / "empty", "run", {}) as build:
        build.sink.json("metrics.json", {"data": {}})
        build.commit({}, {})
    with pytest.raises(StoreError, match=r"KeyError 'nodes' in metrics\.json"):
        load_run(tmp_path / "empty")
    with Build(tmp_path / "none", "run", {}) as build:
        metrics = json.loads((make_run() / "metrics.json").read_text())
        build.sink.json("metrics.json", metrics | {"models": []})
        build.commit({}, {})
    with pytest.raises(StoreError, match="names no model"):
        load_run(tmp_path / "none")


def test_refuses_a_damaged_block(make_run: MakeRun) -> None:
    root = make_run()
    path = root / "heads" / "mlp-split2.json"
    path.write_text(path.read_text().replace("0.37", "0.97"))
    with pytest.raises(DamagedBlockError, match="mlp-split2"):
        load_run(root)


def test_the_response_is_the_formula() -> None:
    learned = Filter(alpha=np.array([0.5, -1.0, 2.0]), beta=np.array([0.25, 3.0]))
    at = np.array([0.0, 0.7, 2.0])
    assert learned.positive(at) == pytest.approx(0.5 - (2 - at) + 2 * (2 - at) ** 2)
    assert learned.negative(at) == pytest.approx(0.25 + 3 * at)


def test_the_table(make_run: MakeRun) -> None:
    expected = """\
model    test accuracy  precompute  training/split  peak memory
──────  ──────────────  ──────────  ──────────────  ───────────
GSCNet  60.00 ± 0.41 %      12.3 s          15.0 s    896.5 MiB
MLP     37.50 ± 0.41 %         0 s          12.6 s    810.6 MiB
± is the 95 % interval of the mean over 5 splits."""
    assert comparison_table(load_run(make_run())) == expected


def test_the_table_without_measurements_and_intervals(make_run: MakeRun) -> None:
    expected = """\
model   test accuracy  precompute  training/split  peak memory
──────  ─────────────  ──────────  ──────────────  ───────────
GSCNet        59.40 %           –               –            –
MLP           36.90 %         0 s               –            –
One split: no interval can be told."""
    assert comparison_table(load_run(make_run(splits=1, measured=False))) == expected


def test_the_table_keeps_control_characters_from_the_terminal(make_run: MakeRun) -> None:
    table = comparison_table(load_run(make_run(labels={"mlp": "M\x1b[31mLP\n"})))
    assert "\x1b" not in table
    assert "M\ufffd[31mLP " in table
    assert len(table.splitlines()) == 5
