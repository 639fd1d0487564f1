"""The bootstrap interval of the mean."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pipeline.training.metrics import accuracy, bootstrap_interval


def test_accuracy_is_the_share_that_is_right() -> None:
    assert accuracy(3, 4) == 0.75


@pytest.mark.parametrize("values", [[0.7], [0.7] * 5, [0.1] * 3])
def test_no_spread_gives_no_interval(values: list[float]) -> None:
    found = bootstrap_interval(values)
    assert found.mean == pytest.approx(values[0])
    assert found.interval == pytest.approx(0, abs=1e-15)


def test_single_value_is_exact() -> None:
    found = bootstrap_interval([0.3])
    assert (found.mean, found.low, found.high, found.interval) == (0.3, 0.3, 0.3, 0.0)


def test_two_values_are_each_resampled_alone_a_quarter_of_the_time() -> None:
    # means of resamples are 0, ½ and 1 with probabilities ¼, ½, ¼: both bounds are the extremes
    found = bootstrap_interval([0.0, 1.0])
    assert (found.mean, found.low, found.high, found.interval) == (0.5, 0.0, 1.0, 0.5)


@settings(deadline=None)
@given(st.lists(st.floats(0, 1), min_size=1, max_size=20))
def test_bounds_lie_within_the_values_and_around_the_mean(values: list[float]) -> None:
    found = bootstrap_interval(values)
    assert min(values) - 1e-12 <= found.low <= found.mean <= found.high <= max(values) + 1e-12
    assert found.interval == max(found.mean - found.low, found.high - found.mean)
    assert found == bootstrap_interval(values)


def test_close_to_the_normal_interval_of_many_values() -> None:
    values = np.random.RandomState(3).standard_normal(400)
    found = bootstrap_interval(values.tolist(), resamples=4000)
    assert found.interval == pytest.approx(1.96 * values.std() / 20, rel=0.1)
