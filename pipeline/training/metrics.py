"""Accuracy over splits and how sure it is."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np


@dataclass(frozen=True)
class Interval:
    """A mean with its 95% bootstrap interval [low, high]."""

    mean: float
    low: float
    high: float

    @property
    def interval(self) -> float:
        """The ± of the tables: the larger distance from the mean to a bound."""
        return max(self.mean - self.low, self.high - self.mean)


def accuracy(correct: int, rows: int) -> float:
    """The share of rows whose class is right; with one class a row this is micro-F1."""
    return correct / rows


def bootstrap_interval(values: Sequence[float], seed: int = 0, resamples: int = 1000) -> Interval:
    """The mean of `values` and the 95% bootstrap interval of that mean.

    The bounds are the 2.5% and 97.5% quantiles of the means of `resamples` resamples. A single
    value tells nothing of the spread: its bounds are itself.
    """
    sample = np.asarray(values, dtype=np.float64)
    assert sample.ndim == 1, sample.shape
    assert len(sample) > 0, "an interval needs a value"
    mean = float(sample.mean())
    if len(sample) == 1:
        return Interval(mean, mean, mean)
    drawn = np.random.RandomState(seed).randint(len(sample), size=(resamples, len(sample)))
    low, high = np.quantile(sample[drawn].mean(axis=1), [0.025, 0.975])
    # rounding of equal values must not put the mean outside
    return Interval(mean, min(float(low), mean), max(float(high), mean))
