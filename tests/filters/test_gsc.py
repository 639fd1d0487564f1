"""The paper's filter: coefficients on T_k(P) against the formula in (2I−L) and L."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from pipeline.filters.chebyshev import response
from pipeline.filters.gsc import GscFilter, gsc_map, negative_response, positive_response

Matrix = npt.NDArray[np.float64]


@dataclass
class Case:
    P: Matrix
    X: Matrix
    filter: GscFilter


def propagation(A: Matrix) -> Matrix:
    """P = D^-1/2 A D^-1/2, with zero rows for isolated nodes."""
    degree = A.sum(axis=1)
    s = np.where(degree > 0, 1 / np.sqrt(np.maximum(degree, 1)), 0.0)
    P: Matrix = s[:, None] * A * s
    return P


@st.composite
def cases(draw: st.DrawFn) -> Case:
    random = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    nodes = draw(st.integers(1, 12))
    A = np.triu(random.random((nodes, nodes)) < draw(st.floats(0, 1)), 1).astype(np.float64)
    A = A + A.T
    isolated = draw(st.integers(0, nodes))
    A[:isolated], A[:, :isolated] = 0, 0
    K1, K2 = draw(st.integers(0, 10)), draw(st.integers(0, 10))
    module = GscFilter(K1, K2).double()
    values = st.floats(-2, 2, allow_subnormal=False)
    with torch.no_grad():
        for parameter in (module.alpha, module.beta):
            size = len(parameter)
            parameter.copy_(torch.tensor(draw(st.lists(values, min_size=size, max_size=size))))
    return Case(propagation(A), random.standard_normal((nodes, 3)), module)


def chebyshev_terms(P: Matrix, X: Matrix, order: int) -> torch.Tensor:
    """T_k(P)X for k = 0..order through the eigenvectors of P, [order+1, nodes, F]."""
    lam, U = np.linalg.eigh(P)
    angle = np.arccos(np.clip(lam, -1, 1))
    terms = [U @ (np.cos(k * angle)[:, None] * (U.T @ X)) for k in range(order + 1)]
    return torch.from_numpy(np.stack(terms))


def power_terms(base: Matrix, X: Matrix, degree: int) -> torch.Tensor:
    """base^i X for i = 0..degree."""
    terms = [X]
    for _ in range(degree):
        terms.append(base @ terms[-1])
    return torch.from_numpy(np.stack(terms))


@settings(deadline=None, max_examples=150)
@given(cases())
def test_chebyshev_form_equals_the_papers_formula_with_gradients(case: Case) -> None:
    module, P, X = case.filter, case.P, case.X
    identity = np.eye(len(P))
    L = identity - P
    positive = power_terms(2 * identity - L, X, module.K1)
    negative = power_terms(L, X, module.K2)

    found = torch.tensordot(module.coefficients(), chebyshev_terms(P, X, module.order), dims=1)
    alpha = module.alpha.detach().clone().requires_grad_()
    beta = module.beta.detach().clone().requires_grad_()
    direct = torch.tensordot(alpha, positive, dims=1) + torch.tensordot(beta, negative, dims=1)

    # terms of both signs may cancel: what is compared with is the size of the terms
    size = float(
        torch.tensordot(alpha.detach().abs(), positive.abs(), dims=1).max()
        + torch.tensordot(beta.detach().abs(), negative.abs(), dims=1).max()
    )
    torch.testing.assert_close(found, direct, rtol=1e-9, atol=1e-9 * max(size, 1.0))

    weight = torch.from_numpy(X) + 1.0
    got = torch.autograd.grad((found * weight).sum(), [module.alpha, module.beta])
    wanted = torch.autograd.grad((direct * weight).sum(), [alpha, beta])
    for a, b, terms in zip(got, wanted, (positive, negative), strict=True):
        scale = float((terms * weight).abs().sum(dim=(1, 2)).max())
        torch.testing.assert_close(a, b, rtol=1e-9, atol=1e-9 * max(scale, 1.0))


@pytest.mark.parametrize(("K1", "K2"), [(0, 0), (2, 2), (1, 4), (5, 0)])
def test_gradcheck(K1: int, K2: int) -> None:
    module = GscFilter(K1, K2).double()

    def coefficients(alpha: torch.Tensor, beta: torch.Tensor) -> torch.Tensor:
        values = {"filter.alpha": alpha, "filter.beta": beta}
        c: torch.Tensor = torch.func.functional_call(_Coefficients(module), values, ())
        return c

    inputs = [torch.randn(K + 1, dtype=torch.float64, requires_grad=True) for K in (K1, K2)]
    assert torch.autograd.gradcheck(coefficients, inputs)


class _Coefficients(torch.nn.Module):
    def __init__(self, module: GscFilter) -> None:
        super().__init__()
        self.filter = module

    def forward(self) -> torch.Tensor:
        return self.filter.coefficients()


@settings(deadline=None)
@given(
    st.lists(st.floats(-2, 2), min_size=1, max_size=11),
    st.lists(st.floats(-2, 2), min_size=1, max_size=11),
)
def test_response_is_the_sum_of_both_parts(alpha: list[float], beta: list[float]) -> None:
    lam = np.linspace(0, 2, 33)
    c = gsc_map(len(alpha) - 1, len(beta) - 1) @ np.array(alpha + beta)
    positive = sum(a * (2 - lam) ** i for i, a in enumerate(alpha))
    negative = sum(b * lam**j for j, b in enumerate(beta))
    scale = 1e-12 * 2.0 ** max(len(alpha), len(beta)) * 2
    np.testing.assert_allclose(positive_response(alpha, lam), positive, rtol=1e-9, atol=scale)
    np.testing.assert_allclose(negative_response(beta, lam), negative, rtol=1e-9, atol=scale)
    np.testing.assert_allclose(response(c, lam), positive + negative, rtol=1e-9, atol=10 * scale)


def test_starts_with_ones_in_float32_and_gives_float64() -> None:
    module = GscFilter(2, 1)
    assert module.order == 2
    assert module.alpha.tolist() == [1, 1, 1]
    assert module.beta.tolist() == [1, 1]
    assert module.alpha.dtype == torch.float32
    c = module.coefficients()
    assert c.dtype == torch.float64
    # 1 + (1+P) + (1+P)² + 1 + (1−P) = 5 + 2P + P², and P² = (1 + T_2) / 2
    torch.testing.assert_close(c, torch.tensor([5.5, 2.0, 0.5], dtype=torch.float64))


def test_degree_zero_is_the_identity_twice() -> None:
    assert GscFilter(0, 0).coefficients().tolist() == [2.0]


def test_describes_itself() -> None:
    told = GscFilter(0, 1).describe()
    assert told == {"alpha": [1.0], "beta": [1.0, 1.0], "coefficients": [3.0, -1.0]}
    assert set(GscFilter(0, 1).state_dict()) == {"alpha", "beta"}
