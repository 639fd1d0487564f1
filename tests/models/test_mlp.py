"""The perceptron: formula, shapes, seeded weights, dropout that is passed in."""

from __future__ import annotations

import pytest
import torch

from pipeline.models.mlp import MLP


def make(layers: int = 2, seed: int = 0) -> MLP:
    return MLP(5, 7, 3, layers, torch.Generator().manual_seed(seed))


def test_two_layers_are_the_papers_formula() -> None:
    mlp = make()
    x = torch.randn(4, 5)
    (W1, b1, W2, b2) = mlp.parameters()
    torch.testing.assert_close(mlp(x), torch.relu(x @ W1.T + b1) @ W2.T + b2)


@pytest.mark.parametrize("layers", [1, 2, 4])
def test_layers_and_widths(layers: int) -> None:
    mlp = make(layers)
    assert mlp(torch.zeros(6, 5)).shape == (6, 3)
    assert len(list(mlp.parameters())) == 2 * layers
    assert mlp(torch.zeros(0, 5)).shape == (0, 3)


def test_weights_follow_from_the_generator_alone() -> None:
    torch.manual_seed(1)
    state = torch.get_rng_state()
    first = make(seed=3)
    assert torch.equal(torch.get_rng_state(), state)
    torch.manual_seed(2)
    second, other = make(seed=3), make(seed=4)
    for a, b, c in zip(first.parameters(), second.parameters(), other.parameters(), strict=True):
        assert torch.equal(a, b)
        assert not torch.equal(a, c)
        assert a.abs().max() <= 5**-0.5


def test_dropout_is_applied_before_each_layer() -> None:
    mlp, widths = make(3), []

    def dropout(x: torch.Tensor) -> torch.Tensor:
        widths.append(x.shape[1])
        return torch.zeros_like(x)

    logits = mlp(torch.randn(2, 5), dropout)
    assert widths == [5, 7, 7]
    torch.testing.assert_close(logits, list(mlp.parameters())[-1].expand(2, 3))
