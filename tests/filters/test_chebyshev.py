"""The Chebyshev basis: powers and evaluation."""

from __future__ import annotations

import numpy as np
import pytest

from pipeline.filters.chebyshev import from_power_of_linear, padded, response

LAM = np.linspace(0, 2, 41)


@pytest.mark.parametrize("k", range(11))
def test_response_of_one_coefficient_is_the_cosine_form(k: int) -> None:
    c = np.zeros(k + 1)
    c[k] = 1.0
    np.testing.assert_allclose(response(c, LAM), np.cos(k * np.arccos(1 - LAM)), atol=1e-12)


def test_response_keeps_the_shape_and_is_float64() -> None:
    values = response(np.ones(3, dtype=np.float32), LAM.reshape(1, 41).astype(np.float32))
    assert values.shape == (1, 41)
    assert values.dtype == np.float64


@pytest.mark.parametrize("power", [0, 1, 2, 10, 40])
@pytest.mark.parametrize("slope", [1.0, -1.0])
def test_powers_of_linear_keep_their_values(power: int, slope: float) -> None:
    c = from_power_of_linear(1.0, slope, power)
    assert c.shape == (power + 1,)
    direct = (1 + slope * (1 - LAM)) ** power
    np.testing.assert_allclose(response(c, LAM), direct, rtol=1e-9, atol=1e-12 * 2.0**power)


def test_coefficients_of_the_tenth_power_add_up_to_its_largest_value() -> None:
    assert np.abs(from_power_of_linear(1.0, 1.0, 10)).sum() == pytest.approx(1024, rel=1e-12)
    assert np.abs(from_power_of_linear(1.0, -1.0, 10)).sum() == pytest.approx(1024, rel=1e-12)


def test_padding_adds_zeros() -> None:
    np.testing.assert_array_equal(padded([1.0, 2.0], 3), [1, 2, 0, 0])
