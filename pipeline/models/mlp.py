"""A multilayer perceptron whose randomness is passed in, never taken from global state."""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise

import torch
from torch import Tensor, nn
from torch.nn.utils import skip_init

Dropout = Callable[[Tensor], Tensor]
"""Drops entries of a [rows, width] tensor and scales the others, for training."""


class MLP(nn.Module):
    """W_m relu(… relu(W_1 x)), with dropout before each linear layer.

    Weights and biases start uniform in ±1/√(inputs of the layer), as torch's own linear layers do,
    but drawn from `generator`.

    Args:
        features: width of the input.
        hidden: width of the hidden layers.
        classes: width of the output.
        layers: number of linear layers; 1 is a linear classifier.
        generator: source of the initial weights.

    Shapes: [rows, features] → [rows, classes].
    """

    def __init__(
        self, features: int, hidden: int, classes: int, layers: int, generator: torch.Generator
    ) -> None:
        super().__init__()
        widths = [features, *[hidden] * (layers - 1), classes]
        self.layers = nn.ModuleList(
            # no initial weights from the global generator: they are drawn below
            skip_init(nn.Linear, a, b)  # type: ignore[no-untyped-call]
            for a, b in pairwise(widths)
        )
        for width, layer in zip(widths, self.layers, strict=False):
            for parameter in layer.parameters():
                bound = width**-0.5
                nn.init.uniform_(parameter, -bound, bound, generator=generator)

    def forward(self, x: Tensor, dropout: Dropout | None = None) -> Tensor:
        """Logits; without `dropout` nothing is dropped, as evaluation needs it."""
        for i, layer in enumerate(self.layers):
            if i > 0:
                x = x.relu()
            if dropout is not None:
                x = dropout(x)
            x = layer(x)
        return x
