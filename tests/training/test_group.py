"""Workers that add up gradients."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from torch import nn
from torch.multiprocessing.spawn import spawn

from pipeline.config import HeadConfig
from pipeline.training.group import FlatGradients, Solo, TorchDistributed, WorkerGroup
from pipeline.training.loop import Schedule, train_head
from pipeline.training.splits import linkx_splits
from tests.training.fakes import run_workers, toy_basis

HEAD = HeadConfig(model="gscnet", hidden=8)
SCHEDULE = Schedule(epochs=4, patience=4, batch_rows=64)


def test_solo_leaves_a_tensor_alone() -> None:
    x = torch.ones(3)
    Solo().sum_(x)
    assert x.tolist() == [1, 1, 1]


def test_gradients_are_views_of_one_buffer() -> None:
    layer = nn.Linear(3, 2)
    flat = FlatGradients(layer.parameters())
    layer(torch.ones(4, 3)).sum().backward()
    assert flat.buffer.tolist() == [4.0] * 8
    layer(torch.ones(4, 3)).sum().backward()
    assert layer.bias.grad is not None
    assert layer.bias.grad.tolist() == [8.0, 8.0]
    assert flat.buffer.tolist() == [8.0] * 8
    flat.clear()
    assert layer.bias.grad.tolist() == [0.0, 0.0]


def test_threads_add_up_in_rank_order() -> None:
    def add(group: WorkerGroup) -> list[float]:
        x = torch.tensor([1.0, group.rank])
        group.sum_(x)
        return x.tolist()

    assert run_workers(4, add) == [[4.0, 6.0]] * 4


def _gloo_worker(rank: int, folder: str) -> None:
    torch.set_num_threads(1)
    torch.distributed.init_process_group(
        "gloo", init_method=f"file://{folder}/meet", rank=rank, world_size=2
    )
    try:
        basis = toy_basis()
        split = linkx_splits(basis.labels, 1, 0)[0]
        result = train_head(basis, HEAD, split, SCHEDULE, 3, group=TorchDistributed())
        torch.save((result.curve.train_loss, result.curve.valid_loss), f"{folder}/{rank}.pt")
    finally:
        torch.distributed.destroy_process_group()


@pytest.mark.timeout(120)
def test_gloo_processes_train_as_one_worker_does(tmp_path: Path) -> None:
    spawn(_gloo_worker, args=(str(tmp_path),), nprocs=2)  # type: ignore[no-untyped-call]
    first, second = (torch.load(tmp_path / f"{rank}.pt") for rank in range(2))
    assert first == second
    basis = toy_basis()
    alone = train_head(basis, HEAD, linkx_splits(basis.labels, 1, 0)[0], SCHEDULE, 3)
    assert first[0] == pytest.approx(alone.curve.train_loss, rel=1e-5)
    assert first[1] == pytest.approx(alone.curve.valid_loss, rel=1e-5)
