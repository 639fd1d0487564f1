"""Rows from memory or from the store: the same bits."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from pipeline.errors import ConfigError
from pipeline.training import rows as rows_module
from pipeline.training.group import Solo
from pipeline.training.rows import RowSource, check_order, open_rows
from pipeline.types import Span
from tests.training.fakes import toy_basis

ROWS = np.arange(5, 300, 3)


@pytest.mark.parametrize("hops", [1, 3])
def test_both_ways_give_the_same_bits(hops: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rows_module, "_LOAD_BYTES", 4 * 6 * hops * 10)  # pieces of ten rows
    basis = toy_basis()
    held = RowSource(basis, ROWS, hops, hold=True)
    assert max(basis.reads) == 10
    assert sum(basis.reads) == len(ROWS) == len(held)
    read = RowSource(basis, ROWS, hops, hold=False)
    positions = np.array([0, 4, 5, 90])
    wanted = torch.from_numpy(basis.values[:hops, ROWS[positions]])
    for source in (held, read):
        batch, labels = source.take(positions)
        assert torch.equal(batch, wanted)
        assert labels.tolist() == basis.labels[ROWS[positions]].tolist()
        batch, labels = source.span(Span(7, 20))
        assert torch.equal(batch, torch.from_numpy(basis.values[:hops, ROWS[7:20]]))
        assert labels.dtype == torch.int64
        assert source.take(np.zeros(0, dtype=np.int64))[0].shape == (hops, 0, 6)


def test_memory_decides_and_is_told(capsys: pytest.CaptureFixture[str]) -> None:
    basis = toy_basis()
    parts = [ROWS[:50], ROWS[50:]]
    needed = 4 * 3 * 6 * len(ROWS)
    open_rows(basis, parts, 3, needed, Solo())
    assert "held in memory" in capsys.readouterr().err
    assert sum(basis.reads) == len(ROWS)
    basis.reads.clear()
    open_rows(basis, parts, 3, needed - 1, Solo())
    assert "each batch is read from the store" in capsys.readouterr().err
    assert basis.reads == []
    open_rows(basis, parts, 3, None, Solo(rank=1, size=2))
    assert capsys.readouterr().err == ""


def test_order_above_the_basis_is_refused() -> None:
    check_order(toy_basis(order=2), 2, "gscnet")
    with pytest.raises(ConfigError, match=r"up to order 2, but gscnet .* needs order 3"):
        check_order(toy_basis(order=2), 3, "gscnet")
