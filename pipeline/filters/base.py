"""What a family of polynomial filters has to offer."""

from __future__ import annotations

from abc import ABC, abstractmethod

from torch import Tensor, nn


class PolynomialFilter(nn.Module, ABC):
    """A filter Σ_{k≤K} c_k(θ) T_k(P) whose coefficients c follow from few parameters θ.

    One family a file; the docstring of the class gives the formula. The module's own parameters
    are θ and form an optimiser group of their own.
    """

    order: int
    """K: hops 0..K of the stored basis are read."""

    @abstractmethod
    def coefficients(self) -> Tensor:
        """c, float64 [K+1], differentiable in the parameters."""

    def describe(self) -> dict[str, list[float]]:
        """The parameters by name and the coefficients on T_k(P), for the record of a run."""
        values = {name: p.detach().double().cpu().tolist() for name, p in self.named_parameters()}
        return {**values, "coefficients": self.coefficients().detach().cpu().tolist()}
