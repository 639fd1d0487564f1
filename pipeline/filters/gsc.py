"""The paper's filter: a positive and a negative part of coupling."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import torch
from numpy.polynomial import polynomial
from torch import Tensor, nn

from pipeline.filters.base import PolynomialFilter
from pipeline.filters.chebyshev import Float64Array, from_power_of_linear, padded


class GscFilter(PolynomialFilter):
    """Σ_{i≤K1} α_i (2I−L)^i + Σ_{j≤K2} β_j L^j, with α, β = 1 at the start.

    With P = I − L it is Σ α_i (I+P)^i + Σ β_j (I−P)^j, a polynomial in P of degree K = max(K1, K2).
    Its coefficients on T_k(P) are linear in the parameters: c = M (α, β), M in float64
    [K+1, K1+1 + K2+1].

    Args:
        K1: degree of the positive part.
        K2: degree of the negative part.
    """

    M: Tensor

    def __init__(self, K1: int, K2: int) -> None:
        super().__init__()
        self.K1, self.K2, self.order = K1, K2, max(K1, K2)
        self.alpha = nn.Parameter(torch.ones(K1 + 1))
        self.beta = nn.Parameter(torch.ones(K2 + 1))
        # follows from K1 and K2, so it is no part of a saved head
        self.register_buffer("M", torch.from_numpy(gsc_map(K1, K2)), persistent=False)

    def coefficients(self) -> Tensor:
        """The product c = M (α, β), float64 [K+1]."""
        return self.M @ torch.cat([self.alpha, self.beta]).to(self.M.dtype)


def gsc_map(K1: int, K2: int) -> Float64Array:
    """M [K+1, K1+1 + K2+1]: its columns are (I+P)^i, i ≤ K1, then (I−P)^j, j ≤ K2, on T_k(P)."""
    order = max(K1, K2)
    positive = [from_power_of_linear(1.0, 1.0, i) for i in range(K1 + 1)]
    negative = [from_power_of_linear(1.0, -1.0, j) for j in range(K2 + 1)]
    return np.stack([padded(column, order) for column in positive + negative], axis=1)


def positive_response(alpha: npt.ArrayLike, lam: npt.ArrayLike) -> Float64Array:
    """Σ_i α_i (2−λ)^i: the part that couples neighbours positively, large at low frequencies."""
    return np.asarray(
        polynomial.polyval(
            2.0 - np.asarray(lam, dtype=np.float64), np.asarray(alpha, dtype=np.float64)
        )
    )


def negative_response(beta: npt.ArrayLike, lam: npt.ArrayLike) -> Float64Array:
    """Σ_j β_j λ^j: the part that couples neighbours negatively, large at high frequencies."""
    return np.asarray(
        polynomial.polyval(np.asarray(lam, dtype=np.float64), np.asarray(beta, dtype=np.float64))
    )
