"""From values to coordinates, with ticks at round numbers."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

from pipeline.report.words import number


@dataclass(frozen=True)
class Axis:
    """A range of values with its ticks; `low` < `high`, both finite."""

    low: float
    high: float
    ticks: tuple[tuple[float, str], ...]
    title: str


@dataclass(frozen=True)
class Scale:
    """The linear map from [low, high] to the coordinates [start, stop]."""

    low: float
    high: float
    start: float
    stop: float

    def __call__(self, value: float) -> float:
        """The coordinate of a value."""
        share = (value - self.low) / (self.high - self.low)
        return self.start + share * (self.stop - self.start)


def axis(
    values: Iterable[float],
    title: str,
    *,
    count: int = 5,
    include: Sequence[float] = (),
    whole: bool = False,
    tight: bool = False,
    label: Callable[[float, int], str] = number,
) -> Axis:
    """An axis over the finite values.

    Args:
        values: what is to be shown; where nothing is finite the axis is [0, 1].
        title: what is measured, with its unit.
        count: about how many intervals between ticks.
        include: values that must be on the axis too, such as 0.
        whole: ticks at whole numbers only.
        tight: end the axis with the data instead of at the next tick.
        label: writes a tick's value with the decimals that tell ticks apart.
    """
    finite = [float(v) for v in (*values, *include) if math.isfinite(v)] or [0.0, 1.0]
    low, high = min(finite), max(finite)
    # all values alike, or too near each other for readable ticks: widen around them
    if high - low <= 1e-9 * max(abs(low), abs(high), 1.0):
        margin = 1.0 if whole or abs(low) < 1e-6 else abs(low) * 0.1
        low, high = (low, high + margin) if low in include else (low - margin, high + margin)
    step = _round_step((high - low) / count)
    step = max(1.0, step) if whole else step
    if not tight:
        low, high = _rounded(low, high, step)
    slack = 1e-9
    inside = range(math.ceil(low / step - slack), math.floor(high / step + slack) + 1)
    decimals = max(0, -math.floor(math.log10(step) + slack))
    ticks = tuple((i * step, label(i * step, decimals)) for i in inside)
    return Axis(low, high, ticks, title)


def log_axis(values: Iterable[float], title: str) -> Axis:
    """An axis of decimal logarithms with ticks at round values; all values are above 0."""
    known = [math.log10(value) for value in values if math.isfinite(value)]
    low, high = min(known), max(known)
    margin = 0.02 * (high - low)
    steps = (1, 1.5, 2, 3, 5, 7) if high - low < 1 else (1, 2, 5) if high - low < 2 else (1,)
    powers = range(math.floor(low) - 1, math.ceil(high) + 1)
    ticks = [(math.log10(m) + power, f"{m * 10.0**power:g}") for power in powers for m in steps]
    inside = tuple(tick for tick in ticks if low - margin <= tick[0] <= high + margin)
    return Axis(low - margin, high + margin, inside, title)


def _rounded(low: float, high: float, step: float) -> tuple[float, float]:
    """The ends moved out to the next tick, or only a little where data barely pass the last one."""
    margin = 0.02 * (high - low)
    below, above = (low / step) % 1, (-high / step) % 1  # how far the outer ticks are, in steps
    slack = 1e-9
    if slack < below < 1 - slack:
        low = low - margin if below > 0.75 else (low // step) * step
    if slack < above < 1 - slack:
        high = high + margin if above > 0.75 else -(-high // step) * step
    return low, high


def spread(wanted: Sequence[float], gap: float, low: float, high: float) -> list[float]:
    """Positions near the wanted ones, at least `gap` apart, within [low, high] where they fit."""
    order = sorted(range(len(wanted)), key=lambda i: wanted[i])
    placed = list(wanted)
    floor = low
    for i in order:
        placed[i] = floor = max(wanted[i], floor)
        floor += gap
    ceiling = high
    for i in reversed(order):
        placed[i] = min(placed[i], ceiling)
        ceiling = placed[i] - gap
    return placed


def _round_step(step: float) -> float:
    """The next of 1, 2, 5 × 10^n that is at least `step`."""
    power = 10.0 ** math.floor(math.log10(step))
    return next(power * m for m in (1, 2, 5, 10) if power * m >= step * (1 - 1e-9))
