"""The Chebyshev basis T_k(P), on which every filter of this project is expressed.

T_0(x) = 1, T_1(x) = x, T_{k+1}(x) = 2x T_k(x) − T_{k−1}(x); P = I − L has its spectrum in [−1, 1].
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
from numpy.polynomial import chebyshev

Float64Array = npt.NDArray[np.float64]


def response(coefficients: npt.ArrayLike, lam: npt.ArrayLike) -> Float64Array:
    """The filter's response Σ_k c_k T_k(1−λ) at eigenvalues λ of L, in float64.

    Shapes: coefficients [K+1], lam any shape; the result has the shape of lam.
    """
    x = 1.0 - np.asarray(lam, dtype=np.float64)
    return np.asarray(chebyshev.chebval(x, np.asarray(coefficients, dtype=np.float64)))


def from_power_of_linear(constant: float, slope: float, power: int) -> Float64Array:
    """Chebyshev coefficients [power+1] of (constant·I + slope·P)^power.

    Worked out without monomials on the way: for constant = ±slope no term cancels another.
    """
    linear = np.array([constant, slope], dtype=np.float64)
    return padded(chebyshev.chebpow(linear, power, maxpower=None), power)


def padded(coefficients: npt.ArrayLike, order: int) -> Float64Array:
    """The same polynomial written with order+1 coefficients (numpy drops trailing zeros)."""
    c = np.asarray(coefficients, dtype=np.float64)
    assert len(c) <= order + 1, (len(c), order)
    return np.pad(c, (0, order + 1 - len(c)))
