"""Which rows train, which choose the epoch, and which are scored."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np

from pipeline.console import warn
from pipeline.errors import StoreError
from pipeline.types import IntArray

PROTOCOL: Final = {"name": "linkx", "version": 1}
"""Names how splits, batches and the chosen epoch come about; a change of them is a new version."""


@dataclass(frozen=True)
class Split:
    """Disjoint ascending row numbers that together are all labelled rows."""

    train: IntArray
    valid: IntArray
    test: IntArray


def check_labels(labels: IntArray) -> None:
    """Refuse labels that no classifier can be trained and scored on.

    Raises:
        StoreError: fewer than four labelled nodes, or fewer than two classes among them.
    """
    found = labels[labels >= 0]
    if len(found) == 0:
        raise StoreError(
            "No node of the basis is labelled, so there is nothing to train on; "
            "ingest the node table with the column that holds the labels."
        )
    if len(found) < 4:
        raise StoreError(
            f"Only {len(found)} of the basis's nodes are labelled; training, validation and test "
            "rows need at least 4."
        )
    if len(np.unique(found)) < 2:
        raise StoreError(
            f"All {len(found):,} labelled nodes of the basis are of one class; "
            "a classifier needs at least two."
        )


def linkx_splits(labels: IntArray, splits: int, seed: int) -> list[Split]:
    """Random 50/25/25 splits of the labelled rows (label ≥ 0), as LINKX draws them.

    The legacy generator is seeded once; then each split is one permutation of the labelled rows:
    its first half trains, the next quarter validates, the rest tests.

    Raises:
        StoreError: see `check_labels`.
    """
    check_labels(labels)
    labelled = np.flatnonzero(labels >= 0)
    random = np.random.RandomState(seed)
    train, valid = len(labelled) // 2, len(labelled) // 4
    result = []
    for _ in range(splits):
        shuffled = labelled[random.permutation(len(labelled))]
        parts = np.split(shuffled, [train, train + valid])
        result.append(Split(*(np.sort(part) for part in parts)))
    return result


def warn_of_missing_classes(labels: IntArray, splits: list[Split]) -> None:
    """Say which classes have no training row: such a head trains, but never learns that class."""
    classes = np.unique(labels[labels >= 0])
    for number, split in enumerate(splits):
        missing = np.setdiff1d(classes, labels[split.train])
        if len(missing) > 0:
            names = ", ".join(str(c) for c in missing[:10]) + (", …" if len(missing) > 10 else "")
            warn(
                f"split {number} has no training row of class {names}: "
                "its nodes cannot be classified rightly."
            )
