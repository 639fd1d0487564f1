"""What is trained on a stored basis: a filter over its hops, then an MLP over its columns."""

from __future__ import annotations

from typing import Any, Final

import torch
from torch import Tensor, nn

from pipeline.config import HeadConfig
from pipeline.filters.base import PolynomialFilter
from pipeline.filters.gsc import GscFilter
from pipeline.models.mlp import MLP, Dropout

LABELS: Final = {"gscnet": "GSCNet", "mlp": "MLP"}
"""The names that tables print."""


class PrecomputedHead(nn.Module):
    """MLP(Σ_k c_k T_k(P)X) on rows of the stored basis; without a filter MLP(X).

    Shapes: [K+1, rows, F] → [rows, C]; without a filter only hop 0 is read, [1, rows, F].
    """

    def __init__(
        self,
        config: HeadConfig,
        features: int,
        classes: int,
        filter: PolynomialFilter | None,
        generator: torch.Generator,
    ) -> None:
        super().__init__()
        self.config, self.features, self.classes = config, features, classes
        self.filter = filter
        self.mlp = MLP(features, config.hidden, classes, config.layers, generator)

    @property
    def hops(self) -> int:
        """How many of the basis's matrices this head reads: T_0 X, T_1 X, …"""
        return 1 if self.filter is None else self.filter.order + 1

    def forward(self, rows: Tensor, dropout: Dropout | None = None) -> Tensor:
        """Logits of `rows`, float32 [hops, rows, F]."""
        return self.mlp(self.filtered(rows), dropout)  # type: ignore[no-any-return]

    def filtered(self, rows: Tensor) -> Tensor:
        """Σ_k c_k rows_k, [rows, F]."""
        if self.filter is None:
            return rows[0]
        # one matrix-vector product: the rows are read once and no term is kept
        coefficients = self.filter.coefficients().to(rows.dtype)
        return (coefficients @ rows.flatten(1)).view(rows.shape[1:])

    def optimiser(self) -> torch.optim.Adam:
        """Adam with a group for the MLP and, where there is a filter, one for its parameters."""
        config = self.config
        groups: list[dict[str, Any]] = [
            {
                "params": list(self.mlp.parameters()),
                "lr": config.lr,
                "weight_decay": config.weight_decay,
            }
        ]
        if self.filter is not None:
            groups.append(
                {
                    "params": list(self.filter.parameters()),
                    "lr": config.filter_lr,
                    "weight_decay": config.filter_weight_decay,
                }
            )
        return torch.optim.Adam(groups)

    def parameter_count(self) -> int:
        """How many numbers are trained."""
        return sum(p.numel() for p in self.parameters())


def build_filter(config: HeadConfig) -> PolynomialFilter | None:
    """The untrained filter of a head, or None where the model has none."""
    return GscFilter(config.K1, config.K2) if config.model == "gscnet" else None


def build_head(config: HeadConfig, features: int, classes: int, seed: int) -> PrecomputedHead:
    """An untrained head: the same seed gives the same weights whatever was drawn before."""
    generator = torch.Generator().manual_seed(seed)
    return PrecomputedHead(config, features, classes, build_filter(config), generator)
