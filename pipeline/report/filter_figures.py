"""The figures of the learned filter: its coefficients and its response to each frequency."""

from __future__ import annotations

from typing import Final

import numpy as np

from pipeline.report import words
from pipeline.report.charts import Bar, bar_chart, legend, line_chart
from pipeline.report.markup import Markup
from pipeline.report.parts import figure
from pipeline.report.scales import axis
from pipeline.report.shapes import Line
from pipeline.report.summary import Filter, Floats, Model

_GRID: Final[Floats] = np.linspace(0.0, 2.0, 101)
"""The spectrum of L."""
_CURVES: Final = (
    ("positive part", "positive", "positive dashed"),
    ("negative part", "negative", "negative dotted"),
    ("response h", "h(λ)", "response"),
)


def coefficients(model: Model) -> Markup:
    """α and β by degree: bars are means over the splits, dots the splits."""
    heading = "Coefficients"
    bars = [
        *_bars("α", "positive", [(split, f.alpha) for split, f in model.filters]),
        *_bars("β", "negative", [(split, f.beta) for split, f in model.filters]),
    ]
    values = [v for bar in bars for v in (bar.value, *(dot for _, dot in bar.dots))]
    degrees = max(bar.group for bar in bars) + 1
    shown = {(bar.style, bar.group): words.coefficient(bar.value) for bar in bars}
    return figure(
        heading,
        bar_chart(
            "Learned coefficients by degree",
            "Degree",
            axis(values, "Coefficient", include=[0]),
            [str(degree) for degree in range(degrees)],
            bars,
        ),
        "Bars are means, dots the splits: where dots lie together, the splits agree on the filter. "
        "α₀ and β₀ both weigh the identity, so only their sum counts.",
        legend=legend([("α, positive part", "bar positive"), ("β, negative part", "bar negative")]),
        numbers=(
            ("Degree", "α, mean", "β, mean"),
            [
                (
                    degree,
                    shown.get(("positive", degree), words.MISSING),
                    shown.get(("negative", degree), words.MISSING),
                )
                for degree in range(degrees)
            ],
        ),
    )


def response(model: Model) -> Markup:
    """h(λ) on [0, 2] with its positive and its negative part."""
    heading = "Response by frequency"
    lines = response_lines(model)
    means = [line for line in lines if line.label]
    x = axis([0, 2], "Eigenvalue λ of L", count=4)
    y = axis([v for line in lines for v in line.y], "Response", include=[0])
    at = range(0, len(_GRID), 10)
    return figure(
        heading,
        line_chart("Learned response h(λ)", x, y, lines),
        _reading(*(float(means[-1].y[i]) for i in (0, -1))),
        numbers=(
            ("λ", *(f"{name}, mean" for name, _, _ in _CURVES)),
            [
                (words.number(_GRID[i], 1), *(words.coefficient(line.y[i]) for line in means))
                for i in at
            ],
        ),
    )


def response_lines(model: Model) -> list[Line]:
    """Three thin curves a split, then the three means: positive part, negative part, h."""
    each = [_parts(learned) for _, learned in model.filters]
    thin = [
        Line(f"{name}, split {split}", _GRID, values, f"split {style}")
        for (split, _), parts in zip(model.filters, each, strict=True)
        for (name, _, style), values in zip(_CURVES, parts, strict=True)
    ]
    thick = [
        Line(
            f"{name}, mean",
            _GRID,
            np.mean([parts[i] for parts in each], axis=0),
            f"mean {style}",
            label,
        )
        for i, (name, label, style) in enumerate(_CURVES)
    ]
    return [*thin, *thick]


def _parts(learned: Filter) -> tuple[Floats, Floats, Floats]:
    positive, negative = learned.positive(_GRID), learned.negative(_GRID)
    return positive, negative, positive + negative


def _bars(letter: str, style: str, splits: list[tuple[int, Floats]]) -> list[Bar]:
    mean = np.mean([values for _, values in splits], axis=0)
    return [
        Bar(
            name=f"{letter} of degree {degree}, mean: {words.coefficient(value)}",
            group=degree,
            value=float(value),
            style=style,
            dots=tuple(
                (
                    f"{letter} of degree {degree}, split {s}: {words.coefficient(v[degree])}",
                    v[degree],
                )
                for s, v in splits
            ),
        )
        for degree, value in enumerate(mean)
    ]


def _reading(low: float, high: float) -> str:
    """What the ends of the response say."""
    if abs(low) > 2 * abs(high):
        what = "it keeps above all what neighbours share"
    elif abs(high) > 2 * abs(low):
        what = "it keeps above all what sets neighbours apart"
    else:
        what = "it keeps both what neighbours share and what sets them apart"
    return (
        f"h is {words.coefficient(low)} at λ = 0, where neighbours agree, and "
        f"{words.coefficient(high)} at λ = 2, where they are opposed: {what}. "
        "Thin lines are the splits."
    )
