"""Heads on rows of a basis, and heads saved and loaded again."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from safetensors.torch import save_file

from pipeline.config import HeadConfig
from pipeline.errors import StoreError
from pipeline.filters.gsc import GscFilter
from pipeline.models.head import LABELS, build_head
from pipeline.models.saved import load_head, save_head

GSCNET = HeadConfig(model="gscnet", K1=3, K2=1, hidden=8, lr=0.1, filter_lr=0.2, weight_decay=0.3)


def test_filter_is_the_weighted_sum_over_hops_with_gradients() -> None:
    head = build_head(GSCNET, 5, 3, seed=0)
    rows = torch.randn(4, 6, 5)
    assert head.hops == 4
    assert isinstance(head.filter, GscFilter)
    c = head.filter.coefficients().float()
    direct = torch.stack([c[k] * rows[k] for k in range(4)]).sum(dim=0)
    torch.testing.assert_close(head.filtered(rows), direct)
    head(rows).sum().backward()
    assert head.filter.alpha.grad is not None
    assert head.filter.beta.grad is not None
    assert head.filter.alpha.grad.abs().min() > 0


def test_filter_reads_a_slice_without_copying_it_first() -> None:
    head = build_head(GSCNET, 5, 3, seed=0)
    rows = torch.randn(4, 20, 5)
    torch.testing.assert_close(head(rows[:, 3:9]), head(rows[:, 3:9].contiguous()))
    assert rows[:, 3:9].flatten(1).data_ptr() == rows[:, 3:9].data_ptr()


def test_mlp_reads_hop_zero_only() -> None:
    head = build_head(HeadConfig(model="mlp", hidden=8), 5, 3, seed=0)
    rows = torch.randn(1, 6, 5)
    assert head.hops == 1
    assert head.filter is None
    torch.testing.assert_close(head(rows), head.mlp(rows[0]))


def test_optimiser_has_a_group_for_the_filter() -> None:
    mlp, filtering = build_head(GSCNET, 5, 3, seed=0).optimiser().param_groups
    assert (mlp["lr"], mlp["weight_decay"], len(mlp["params"])) == (0.1, 0.3, 4)
    assert (filtering["lr"], filtering["weight_decay"]) == (0.2, 0.0)
    assert [len(p) for p in filtering["params"]] == [4, 2]
    assert len(build_head(HeadConfig(model="mlp"), 5, 3, seed=0).optimiser().param_groups) == 1


def test_parameter_count_and_seed() -> None:
    head = build_head(GSCNET, 5, 3, seed=1)
    assert head.parameter_count() == 5 * 8 + 8 + 8 * 3 + 3 + 4 + 2
    torch.rand(3)
    again = build_head(GSCNET, 5, 3, seed=1)
    for a, b in zip(head.parameters(), again.parameters(), strict=True):
        assert torch.equal(a, b)


def test_every_model_has_a_label() -> None:
    from pipeline.config import MODELS

    assert set(LABELS) == set(MODELS)


@pytest.mark.parametrize("config", [GSCNET, HeadConfig(model="mlp", layers=3)])
def test_saved_head_predicts_the_same(config: HeadConfig, tmp_path: Path) -> None:
    head = build_head(config, 5, 3, seed=1)
    with torch.no_grad():
        for parameter in head.parameters():
            parameter.add_(0.25)
    save_head(head, tmp_path / "a", {"split": 2})
    save_head(head, tmp_path / "b", {"split": 2})
    assert (tmp_path / "a").read_bytes() == (tmp_path / "b").read_bytes()
    loaded = load_head(tmp_path / "a")
    assert loaded.config == config
    assert (loaded.features, loaded.classes) == (5, 3)
    rows = torch.randn(head.hops, 9, 5)
    assert torch.equal(loaded(rows), head(rows))


def test_files_that_are_no_head_are_named(tmp_path: Path) -> None:
    with pytest.raises(StoreError, match="missing"):
        load_head(tmp_path / "none")
    (tmp_path / "text").write_text("no tensors at all")
    with pytest.raises(StoreError, match="text cannot be read as a head"):
        load_head(tmp_path / "text")
    save_file({"x": torch.zeros(1)}, tmp_path / "other")
    with pytest.raises(StoreError, match="no head of this project"):
        load_head(tmp_path / "other")
