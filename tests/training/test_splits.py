"""The linkx protocol's splits."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pipeline.errors import StoreError
from pipeline.training.splits import linkx_splits, warn_of_missing_classes


@settings(deadline=None)
@given(st.integers(4, 200), st.integers(0, 50), st.integers(0, 2**32 - 1), st.integers(1, 4))
def test_splits_are_disjoint_and_cover_the_labelled(
    labelled: int, unlabelled: int, seed: int, count: int
) -> None:
    labels = np.concatenate([np.arange(labelled) % 3, np.full(unlabelled, -1)])
    labels = np.random.default_rng(seed).permutation(labels).astype(np.int32)
    splits = linkx_splits(labels, count, seed)
    assert len(splits) == count
    for split in splits:
        assert len(split.train) == labelled // 2
        assert len(split.valid) == labelled // 4
        parts = (split.train, split.valid, split.test)
        assert all(np.all(np.diff(part) > 0) for part in parts)
        together = np.sort(np.concatenate(parts))
        np.testing.assert_array_equal(together, np.flatnonzero(labels >= 0))


def test_is_one_permutation_a_split_after_one_seed() -> None:
    labels = np.array([0, 1, -1, 0, 1, 0, 1, 0, 1], dtype=np.int32)
    labelled = np.flatnonzero(labels >= 0)
    random = np.random.RandomState(5)
    for split in linkx_splits(labels, 3, seed=5):
        order = labelled[random.permutation(8)]
        np.testing.assert_array_equal(split.train, np.sort(order[:4]))
        np.testing.assert_array_equal(split.valid, np.sort(order[4:6]))
        np.testing.assert_array_equal(split.test, np.sort(order[6:]))


def test_seeds_and_splits_differ_and_repeat() -> None:
    labels = np.arange(100, dtype=np.int32) % 2
    a, b = linkx_splits(labels, 2, seed=0)
    assert not np.array_equal(a.train, b.train)
    assert np.array_equal(a.train, linkx_splits(labels, 1, seed=0)[0].train)
    assert not np.array_equal(a.train, linkx_splits(labels, 1, seed=1)[0].train)


@pytest.mark.parametrize(
    ("labels", "message"),
    [
        ([-1, -1, -1, -1, -1], "No node of the basis is labelled"),
        ([], "No node of the basis is labelled"),
        ([0, 1, 0, -1, -1], "Only 3 of the basis's nodes are labelled"),
        ([2, 2, 2, 2, -1], "All 4 labelled nodes of the basis are of one class"),
    ],
)
def test_labels_that_allow_no_training_are_refused(labels: list[int], message: str) -> None:
    with pytest.raises(StoreError, match=message):
        linkx_splits(np.array(labels, dtype=np.int32), 1, 0)


def test_classes_without_training_rows_are_named(capsys: pytest.CaptureFixture[str]) -> None:
    labels = np.zeros(40, dtype=np.int32)
    labels[3] = 1
    splits = linkx_splits(labels, 6, 0)
    lacking = [i for i, split in enumerate(splits) if 3 not in split.train]
    assert 0 < len(lacking) < 6
    warn_of_missing_classes(labels, splits)
    told = capsys.readouterr().err.splitlines()
    assert len(told) == len(lacking)
    assert f"split {lacking[0]} has no training row of class 1" in told[0]
