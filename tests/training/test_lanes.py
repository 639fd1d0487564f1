"""Batches and masks that any number of workers sees alike."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from pipeline.errors import ConfigError
from pipeline.training.lanes import LANES, LaneSampler, own_lanes
from pipeline.types import IntArray, Span

SIZES = (1, 2, 3, 4, 16)


def samplers(workers: int, rows: int, batch_rows: int, seed: int = 0) -> list[LaneSampler]:
    return [
        LaneSampler(rows, batch_rows, own_lanes(rank, workers), seed) for rank in range(workers)
    ]


def global_batches(workers: int, rows: int, batch_rows: int, epoch: int = 1) -> list[IntArray]:
    parts = [
        [batch + sampler.own.start for batch in sampler.epoch(epoch)]
        for sampler in samplers(workers, rows, batch_rows)
    ]
    return [np.concatenate(step) for step in zip(*parts, strict=True)]


@settings(deadline=None, max_examples=60)
@given(st.integers(1, 300), st.integers(1, 100))
def test_every_row_once_an_epoch_in_even_batches(rows: int, batch_rows: int) -> None:
    batches = global_batches(1, rows, batch_rows)
    assert len(batches) == -(-rows // batch_rows)
    np.testing.assert_array_equal(np.sort(np.concatenate(batches)), np.arange(rows))
    sizes = [len(batch) for batch in batches]
    assert 1 <= min(sizes) <= max(sizes) <= batch_rows
    assert max(sizes) - min(sizes) <= 1
    sampler = LaneSampler(rows, batch_rows, Span(0, LANES), 0)
    assert sizes == [sampler.batch_size(step) for step in range(sampler.steps)]
    assert all(np.all(np.diff(batch) > 0) for batch in batches)


@settings(deadline=None, max_examples=40)
@given(st.integers(1, 300), st.integers(1, 100))
def test_global_batches_do_not_depend_on_the_workers(rows: int, batch_rows: int) -> None:
    alone = global_batches(1, rows, batch_rows)
    for workers in SIZES[1:]:
        together = global_batches(workers, rows, batch_rows)
        for a, b in zip(alone, together, strict=True):
            np.testing.assert_array_equal(a, b)


def test_epochs_and_seeds_give_other_batches() -> None:
    first = LaneSampler(200, 50, Span(0, LANES), 0)
    assert not np.array_equal(first.epoch(1)[0], first.epoch(2)[0])
    assert np.array_equal(first.epoch(1)[0], first.epoch(1)[0])
    other = LaneSampler(200, 50, Span(0, LANES), 1)
    assert not np.array_equal(first.epoch(1)[0], other.epoch(1)[0])


def test_own_rows_are_contiguous_and_cover_all() -> None:
    for workers in SIZES:
        spans = [sampler.own for sampler in samplers(workers, 103, 10)]
        assert spans[0].start == 0
        assert spans[-1].stop == 103
        assert all(a.stop == b.start for a, b in pairwise(spans))


@pytest.mark.parametrize("workers", SIZES)
def test_masks_are_the_same_rowwise_and_new_in_each_layer(workers: int) -> None:
    alone = LaneSampler(103, 40, Span(0, LANES), 5)
    for step in range(alone.steps):
        whole = alone.dropout(0.3, 2, step)
        parts = [s.dropout(0.3, 2, step) for s in samplers(workers, 103, 40, seed=5)]
        masks = []
        for width in (7, 7, 3):
            masks.append(whole.mask(width))
            together = np.concatenate([part.mask(width) for part in parts])
            np.testing.assert_array_equal(together, masks[-1])
        assert not np.array_equal(masks[0], masks[1])


def test_masks_differ_between_steps_epochs_lanes_and_seeds() -> None:
    sampler = LaneSampler(160, 80, Span(0, LANES), 0)
    first = sampler.dropout(0.5, 1, 0).mask(64)
    assert not np.array_equal(first, sampler.dropout(0.5, 1, 1).mask(64))
    assert not np.array_equal(first, sampler.dropout(0.5, 2, 0).mask(64))
    assert not np.array_equal(first[:5], first[5:10])
    other = LaneSampler(160, 80, Span(0, LANES), 1)
    assert not np.array_equal(first, other.dropout(0.5, 1, 0).mask(64))


def test_dropout_keeps_the_mean_and_the_share() -> None:
    sampler = LaneSampler(4000, 4000, Span(0, LANES), 0)
    x = torch.ones(4000, 100)
    dropped = sampler.dropout(0.2, 1, 0)(x)
    values = np.unique(dropped.numpy())
    assert values == pytest.approx([0.0, 1.25], rel=1e-4)
    assert float(dropped.mean()) == pytest.approx(1.0, abs=0.005)
    assert float((dropped == 0).float().mean()) == pytest.approx(0.2, abs=0.005)


def test_no_dropout_leaves_the_input_alone() -> None:
    x = torch.randn(10, 3)
    assert LaneSampler(10, 10, Span(0, LANES), 0).dropout(0.0, 1, 0)(x) is x


def test_too_many_workers_are_refused() -> None:
    with pytest.raises(ConfigError, match="at most 16 workers, not 17"):
        own_lanes(0, 17)
