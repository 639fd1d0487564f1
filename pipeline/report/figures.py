"""The figures of accuracy, time and training."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Final

import numpy as np

from pipeline.report import words
from pipeline.report.charts import Row, legend, line_chart, row_chart, scatter_chart
from pipeline.report.markup import Markup, tag
from pipeline.report.parts import figure
from pipeline.report.scales import Axis, axis, log_axis
from pipeline.report.shapes import Line, Mark
from pipeline.report.summary import Floats, Head, RunSummary

_COLOURS: Final = 6
_OWN: Final = {"gscnet": 0, "mlp": 1}
"""The same colour in every report; other models take the next free ones."""
_MOST_POINTS: Final = 500
"""More points a curve than this cannot be told apart at the width of a chart."""
_STEEP: Final = 4
"""Losses further apart than by this factor get a logarithmic axis."""


def colours(run: RunSummary) -> dict[str, str]:
    """The CSS class of each model's colour."""
    others = (model.model for model in run.models if model.model not in _OWN)
    place = _OWN | {name: len(_OWN) + i for i, name in enumerate(others)}
    return {model.model: f"c{place[model.model] % _COLOURS}" for model in run.models}


def accuracy_by_time(run: RunSummary) -> Markup:
    """One mark a model: precompute and training seconds against test accuracy."""
    heading, colour = "Accuracy against time", colours(run)
    timed = [
        (model, model.total_seconds)
        for model in run.models
        if model.total_seconds is not None and math.isfinite(model.mean)
    ]
    if not timed:
        return tag("figure", tag("h3", heading), tag("p", "No times were kept with this run."))
    marks = [
        Mark(
            name=f"{model.label}: {words.accuracy(model)} in {words.seconds(total)}",
            x=total,
            y=100 * model.mean,
            style=colour[model.model],
            low=100 * model.low if len(model.heads) > 1 else None,
            high=100 * model.high if len(model.heads) > 1 else None,
            label=model.label,
        )
        for model, total in timed
    ]
    heights = [v for m in marks for v in (m.y, m.low, m.high) if v is not None]
    margin = 0.08 * (max(heights) - min(heights))
    room = [max(min(heights) - margin, 0.0), min(max(heights) + margin, 100.0)]
    x = axis([m.x for m in marks], "Precompute and training of a split, seconds", include=[0])
    y = axis(room, "Test accuracy, %")
    many = any(mark.low is not None for mark in marks)
    whiskers = "; whiskers wider than a mark show the 95 % interval" if many else ""
    return figure(
        heading,
        scatter_chart(heading, x, y, marks),
        f"{_price(run)} Higher and further left is better{whiskers}.".lstrip(),
        numbers=(
            ("Model", "Seconds", "Test accuracy"),
            [
                (model.label, words.number(total, 1), words.accuracy(model))
                for model, total in timed
            ],
        ),
    )


def time_by_stage(run: RunSummary) -> Markup:
    """Seconds of every phase of every stage that was measured."""
    heading = "Time by stage"
    rows: list[Row] = []
    for stage, phases in run.measured.stages.items():
        total = sum(phases.values())
        rows.append(Row(words.printable(stage), total, words.seconds(total), heading=True))
        rows += [Row(words.printable(k), v, words.seconds(v)) for k, v in phases.items()]
    if not rows:
        return tag("figure", tag("h3", heading), tag("p", "No times were kept with this run."))
    every = [
        (stage, phase, s) for stage, ps in run.measured.stages.items() for phase, s in ps.items()
    ]
    stage, phase, most = max(every, key=lambda entry: entry[2])
    total = sum(entry[2] for entry in every) or 1.0
    return figure(
        heading,
        row_chart(heading, rows),
        f"The longest phase is “{phase}” of {stage}: {words.percent(most / total, 0)} of the "
        f"{words.seconds(total)} measured in all.",
        numbers=(
            ("Stage", "Phase", "Seconds"),
            [(name, part, words.number(s, 2)) for name, part, s in every],
        ),
    )


def accuracy_curves(run: RunSummary) -> Markup:
    """Validation accuracy by epoch."""
    heading, colour = "Validation accuracy", colours(run)
    lines = _curves(run, "", lambda head: 100 * head.valid_accuracy)
    marks = [
        Mark(
            name=f"{model.label}, split {head.split}: epoch {head.best_epoch} was kept, "
            f"{words.percent(kept)}",
            x=head.best_epoch,
            y=100 * kept,
            style=f"over {colour[model.model]}",
        )
        for model in run.models
        for head in model.heads
        if math.isfinite(kept := _kept(head))
    ]
    entries = [(model.label, f"mean {colour[model.model]}") for model in run.models]
    y = axis([v for line in lines for v in line.y], "Validation accuracy, %")
    return figure(
        heading,
        line_chart(f"{heading} by epoch", _epochs(run), y, lines, marks),
        "Thick lines are means, ending where the first split stopped; thin lines are the splits; "
        "dots are the epochs whose weights were kept.",
        legend=legend([*entries, ("kept epoch", "dot over plain")]),
        numbers=_curve_numbers(run, [("", lambda head: 100 * head.valid_accuracy, 2)]),
    )


def loss_curves(run: RunSummary) -> Markup:
    """Training and validation loss by epoch."""
    heading, colour = "Loss", colours(run)
    lines = [
        *_curves(run, "training", lambda head: head.train_loss, "dashed"),
        *_curves(run, "validation", lambda head: head.valid_loss),
    ]
    lines.sort(key=lambda line: "mean" in line.style)  # means on top of all splits
    entries = [(model.label, f"mean {colour[model.model]}") for model in run.models]
    kinds = [("validation", "mean plain"), ("training", "mean plain dashed")]
    values = [float(v) for line in lines for v in line.y if math.isfinite(v)]
    # the first epochs can lie so high that the rest would be a flat line
    steep = bool(values) and 0 < min(values) < max(values) / _STEEP
    if steep:
        lines = [replace(line, y=np.log10(line.y)) for line in lines]
    y = (log_axis if steep else axis)(values, f"Cross-entropy{', logarithmic' if steep else ''}")
    return figure(
        heading,
        line_chart(f"{heading} by epoch", _epochs(run), y, lines),
        "Validation loss that rises while training loss still falls is overfitting; thin lines are "
        "the splits.",
        legend=legend([*entries, *kinds]),
        numbers=_curve_numbers(
            run,
            [
                ("training", lambda head: head.train_loss, 4),
                ("validation", lambda head: head.valid_loss, 4),
            ],
        ),
    )


def mean_curve(curves: Sequence[Floats]) -> Floats:
    """The mean over splits, up to where the first ends: beyond it the mean is of other splits."""
    length = min((len(curve) for curve in curves), default=0)
    if length == 0:
        return np.empty(0)
    return np.asarray(np.mean([curve[:length] for curve in curves], axis=0))


def _curves(
    run: RunSummary, part: str, values: Callable[[Head], Floats], style: str = ""
) -> list[Line]:
    """A thin line for each split and, on top of them all, a thick one for each model's mean."""
    colour, thin, thick = colours(run), [], []
    for model in run.models:
        what = f"{model.label}, {part}" if part else model.label
        look = f"{colour[model.model]} {style}".strip()
        for head in model.heads:
            thin.append(_line(f"{what}, split {head.split}", values(head), f"split {look}"))
        name = f"{what}, mean of {words.counted(len(model.heads), 'split')}"
        thick.append(_line(name, mean_curve([values(h) for h in model.heads]), f"mean {look}"))
    return [*thin, *thick]


def _line(name: str, values: Floats, style: str) -> Line:
    epochs = np.arange(1, len(values) + 1, dtype=np.float64)
    chosen = _thinned(len(values), _MOST_POINTS)
    return Line(name, epochs[chosen], values[chosen], style)


def _thinned(count: int, most: int) -> list[int]:
    """At most about `most` positions of `count`, evenly spaced, the last always among them."""
    step = max(1, math.ceil(count / most))
    return sorted({*range(0, count, step), count - 1}) if count else []


def _epochs(run: RunSummary) -> Axis:
    longest = max(len(h.valid_accuracy) for model in run.models for h in model.heads)
    # one epoch lies in the middle rather than on the edge
    return axis([longest if longest > 1 else 2], "Epoch", include=[0], whole=True, tight=True)


def _kept(head: Head) -> float:
    """The validation accuracy of the epoch that was kept; NaN where the curve does not reach it."""
    inside = 1 <= head.best_epoch <= len(head.valid_accuracy)
    return float(head.valid_accuracy[head.best_epoch - 1]) if inside else math.nan


def _curve_numbers(
    run: RunSummary, parts: Sequence[tuple[str, Callable[[Head], Floats], int]]
) -> tuple[list[str], list[list[str]]]:
    """The means by epoch, at most about 60 of them."""
    columns = [
        (f"{m.label} {part}".strip(), mean_curve([values(h) for h in m.heads]), decimals)
        for m in run.models
        for part, values, decimals in parts
    ]
    rows = []
    for i in _thinned(max(len(values) for _, values, _ in columns), 60):
        cells = [
            words.number(float(values[i]), decimals)
            if i < len(values) and math.isfinite(values[i])
            else words.MISSING
            for _, values, decimals in columns
        ]
        rows.append([str(i + 1), *cells])
    return ["Epoch", *(f"{name}, mean" for name, _, _ in columns)], rows


def _price(run: RunSummary) -> str:
    """What the best model's accuracy costs beside the plain MLP's; empty where there is no MLP."""
    best, plain = run.best, next((m for m in run.models if m.model == "mlp"), None)
    if plain is None or plain is best or not math.isfinite(plain.mean):
        return ""
    if best.total_seconds is None or plain.total_seconds is None:
        return ""
    more = best.total_seconds - plain.total_seconds
    return (
        f"{best.label} gains {words.number(100 * (best.mean - plain.mean), 1)} points over "
        f"{plain.label} for {words.seconds(abs(more))} {'more' if more >= 0 else 'less'}."
    )
