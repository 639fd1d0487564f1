"""Training one head: it learns, stops, repeats itself, and does not mind how many work on it."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch

from pipeline.config import HeadConfig
from pipeline.errors import ConfigError
from pipeline.training.group import WorkerGroup
from pipeline.training.loop import HeadResult, OnEpoch, Schedule, train_head
from pipeline.training.splits import linkx_splits
from tests.training.fakes import FakeBasis, run_workers, toy_basis

GSCNET = HeadConfig(model="gscnet", filter_lr=0.01, K1=2, K2=1, hidden=16, lr=0.02, dropout=0.3)
MLP = HeadConfig(model="mlp", hidden=16, lr=0.02)


def train(
    basis: FakeBasis,
    head: HeadConfig = GSCNET,
    *,
    epochs: int = 8,
    patience: int = 8,
    batch_rows: int = 50,
    memory: int | None = None,
    seed: int = 1,
    group: WorkerGroup | None = None,
    on_epoch: OnEpoch | None = None,
) -> HeadResult:
    torch.set_num_threads(1)
    split = linkx_splits(basis.labels, 1, 0)[0]
    schedule = Schedule(epochs=epochs, patience=patience, batch_rows=batch_rows, memory=memory)
    return train_head(basis, head, split, schedule, seed, group=group, on_epoch=on_epoch)


def assert_same_bits(a: HeadResult, b: HeadResult) -> None:
    assert a.record() == b.record()
    for x, y in zip(a.head.parameters(), b.head.parameters(), strict=True):
        assert torch.equal(x, y)


@pytest.mark.parametrize("head", [GSCNET, MLP, HeadConfig(model="mlp", layers=1, lr=0.05)])
def test_learns_what_can_be_separated(head: HeadConfig) -> None:
    assert train(toy_basis(), head, epochs=20).test_accuracy > 0.95


def test_gscnet_sees_a_signal_that_only_hop_one_has() -> None:
    basis = toy_basis(nodes=800, signal=1)
    assert train(basis, GSCNET, epochs=30).test_accuracy > 0.9
    assert train(basis, MLP, epochs=30).test_accuracy < 0.5


def test_alpha_and_beta_are_trained() -> None:
    told = train(toy_basis(signal=1)).record()["filter"]
    assert [len(told[name]) for name in ("alpha", "beta", "coefficients")] == [3, 2, 3]
    assert all(value != 1.0 for value in told["alpha"] + told["beta"])


def test_repeats_itself_to_the_bit() -> None:
    first = train(toy_basis())
    torch.rand(5)
    np.random.default_rng().random()
    assert_same_bits(first, train(toy_basis()))
    assert first.curve.train_loss != train(toy_basis(), seed=2).curve.train_loss


def test_rows_from_the_store_give_the_same_bits() -> None:
    held, read = toy_basis(), toy_basis()
    assert_same_bits(train(held), train(read, memory=1))
    assert len(read.reads) > len(held.reads)


@pytest.mark.parametrize("workers", [2, 4, 16])
def test_number_of_workers_changes_rounding_only(workers: int) -> None:
    alone = train(toy_basis(strength=0.2))
    results = run_workers(workers, lambda group: train(toy_basis(strength=0.2), group=group))
    for result in results:
        assert_same_bits(result, results[0])
        assert result.workers == workers
    together = results[0].curve
    assert together.train_loss == pytest.approx(alone.curve.train_loss, abs=1e-5)
    assert together.valid_loss == pytest.approx(alone.curve.valid_loss, abs=1e-5)
    assert together.valid_accuracy == pytest.approx(alone.curve.valid_accuracy, abs=0.02)


def test_fewer_rows_than_workers() -> None:
    basis = toy_basis(nodes=20, classes=2)
    alone = train(basis, batch_rows=3)
    together = run_workers(16, lambda group: train(basis, batch_rows=3, group=group))[0]
    assert together.curve.train_loss == pytest.approx(alone.curve.train_loss, abs=1e-5)


def test_batch_larger_than_the_rows_is_full_batch() -> None:
    assert train(toy_basis(), batch_rows=10**9).epochs == 8


def test_golden_losses() -> None:
    # a refactor must reproduce these; a change of protocol must raise PROTOCOL's version
    curve = train(toy_basis(strength=0.2), epochs=4, patience=4).curve
    assert curve.train_loss == pytest.approx(GOLDEN_TRAIN, abs=1e-5)
    assert curve.valid_loss == pytest.approx(GOLDEN_VALID, abs=1e-5)


GOLDEN_TRAIN = [1.2234524, 1.0306672, 0.992453, 1.0344063]
GOLDEN_VALID = [1.0109247, 0.9547032, 0.94891, 0.9595141]


def test_stops_after_patience_and_keeps_the_first_best_epoch() -> None:
    result = train(toy_basis(strength=0.2), epochs=60, patience=3)
    accuracies = result.curve.valid_accuracy
    assert result.best_epoch > 1
    assert result.best_epoch == 1 + int(np.argmax(accuracies))
    assert result.epochs == min(60, result.best_epoch + 3) < 60
    assert result.valid_accuracy == max(accuracies)
    # the weights are those of the best epoch: a run that ends there has the same
    short = train(toy_basis(strength=0.2), epochs=result.best_epoch, patience=60)
    assert short.test_accuracy == result.test_accuracy
    for x, y in zip(result.head.parameters(), short.head.parameters(), strict=True):
        assert torch.equal(x, y)


def test_measurements() -> None:
    measured = train(toy_basis()).measurements()
    assert len(measured["epoch_seconds"]) == 8
    assert sum(measured["epoch_seconds"]) == pytest.approx(measured["train_seconds"])
    assert measured["peak_memory_bytes"] > 1 << 20
    assert measured["load_seconds"] > 0
    assert measured["evaluate_seconds"] > 0


def test_loss_that_is_not_finite_at_once_is_an_error() -> None:
    basis = toy_basis()
    basis.values[0, :, 0] = 1e38
    with pytest.raises(ConfigError, match="loss of gscnet is not a finite number in epoch 1"):
        train(basis, HeadConfig(model="gscnet", K1=2, K2=2, lr=1e30))


def test_loss_that_is_not_finite_later_keeps_the_best_epoch(
    capsys: pytest.CaptureFixture[str],
) -> None:
    basis = toy_basis()

    def spoil(epoch: int, valid_accuracy: float) -> None:
        if epoch == 2:
            basis.values[:] = np.nan

    result = train(basis, memory=1, on_epoch=spoil)
    assert "not a finite number in epoch 3: training stops" in capsys.readouterr().err
    assert result.epochs == len(result.epoch_seconds) == 2
    assert result.best_epoch in (1, 2)
    assert all(math.isfinite(x) for x in result.curve.train_loss + result.curve.valid_loss)


def test_evaluation_in_pieces_scores_every_row() -> None:
    basis = toy_basis(nodes=40_000, features=2, order=0)
    result = train(basis, MLP, epochs=1, batch_rows=5000)
    test = linkx_splits(basis.labels, 1, 0)[0].test
    assert len(test) > 8192
    logits = result.head(torch.from_numpy(basis.values[:1, test]))
    right = int((logits.argmax(dim=1).numpy() == basis.labels[test]).sum())
    assert result.test_accuracy == right / len(test)
