"""Charts as inline SVG: lines, marks with intervals, grouped bars, horizontal bars.

Colours come from CSS classes (`c0`, `c1`, …), so that one style sheet serves light, dark and print.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from pipeline.report.markup import Markup, tag
from pipeline.report.scales import Axis, spread
from pipeline.report.shapes import (
    BOLD,
    BOTTOM,
    CHARACTER,
    HEIGHT,
    TOP,
    WIDTH,
    Frame,
    Line,
    Mark,
    curve,
    dot,
    extent,
    marked,
    placed,
    svg,
)


@dataclass(frozen=True)
class Bar:
    """A bar from zero to `value` in group `group`, with one dot for each of `dots`."""

    name: str
    group: int
    value: float
    style: str
    dots: tuple[tuple[str, float], ...] = ()


@dataclass(frozen=True)
class Row:
    """A horizontal bar, or a heading over the rows below it."""

    name: str
    value: float
    shown: str
    heading: bool = False


def line_chart(
    title: str, x: Axis, y: Axis, lines: Sequence[Line], marks: Sequence[Mark] = ()
) -> Markup:
    """Curves in the order given, the last on top; labels, where lines have them, at the right."""
    labels = [line for line in lines if line.label and len(line.y) and math.isfinite(line.y[-1])]
    right = 14 + BOLD * max((len(line.label) for line in labels), default=0)
    frame = Frame.around(x, y, right=right)
    at = spread([frame.y(float(line.y[-1])) for line in labels], 17, TOP, HEIGHT - BOTTOM)
    ends = [
        tag("text", line.label, class_=f"end {line.style}", x=frame.x.stop + 7, y=height)
        for line, height in zip(labels, at, strict=True)
    ]
    drawn = [curve(frame, line) for line in lines]
    points = [marked(frame, mark, 2.6) for mark in marks]
    return svg(title, HEIGHT, frame.axes(x, y, notches=True), *drawn, *points, *ends)


def scatter_chart(title: str, x: Axis, y: Axis, marks: Sequence[Mark]) -> Markup:
    """Marks with vertical intervals, each with its label where it hides nothing."""
    frame = Frame.around(x, y)
    boxes = [extent(frame, mark) for mark in marks]
    drawn = [marked(frame, mark, 6) for mark in marks]
    for mark in marks:
        text, box = placed(frame, mark, boxes)
        boxes.append(box)
        drawn.append(text)
    return svg(title, HEIGHT, frame.axes(x, y, notches=True), *drawn)


def bar_chart(
    title: str, x_title: str, y: Axis, groups: Sequence[str], bars: Sequence[Bar]
) -> Markup:
    """Bars side by side in each group; a bar's dots are spread over its width."""
    ticks = tuple((i + 0.5, name) for i, name in enumerate(groups))
    x = Axis(0, len(groups), ticks, x_title)
    frame = Frame.around(x, y)
    styles = list(dict.fromkeys(bar.style for bar in bars))
    slot = (frame.x(1) - frame.x(0)) * 0.72 / len(styles)
    width = min(slot * 0.9, 34)
    drawn = []
    for bar in bars:
        place = (styles.index(bar.style) - (len(styles) - 1) / 2) * min(slot, width / 0.9)
        middle = frame.x(bar.group + 0.5) + place
        top, zero = frame.y(bar.value), frame.y(0)
        shape = {"x": middle - width / 2, "y": min(top, zero), "width": width}
        drawn.append(
            tag(
                "rect",
                tag("title", bar.name),
                class_=f"bar {bar.style}",
                height=max(abs(top - zero), 0.75),
                rx=1.5,
                **shape,
            )
        )
        for i, (name, value) in enumerate(bar.dots):
            shift = ((i + 0.5) / len(bar.dots) - 0.5) * width * 0.8
            drawn.append(dot(middle + shift, frame.y(value), 2.4, f"over {bar.style}", name))
    return svg(title, HEIGHT, frame.axes(x, y), *drawn)


def row_chart(title: str, rows: Sequence[Row]) -> Markup:
    """Horizontal bars under their headings, each with its value written behind it."""
    left, height, y = 138.0, 23.0, 4.0
    longest = max((row.value for row in rows if not row.heading), default=0.0) or 1.0
    room = WIDTH - left - 12 - CHARACTER * max(len(row.shown) for row in rows)
    drawn: list[Markup] = []
    for row in rows:
        y += 10 if row.heading and drawn else 0
        middle = y + height / 2
        style = "row heading" if row.heading else "row"
        long = len(row.name) > 17
        name = tag("title", row.name) if long else ""
        shown = row.name[:16] + "…" if long else row.name
        drawn.append(tag("text", shown, name, class_=style, x=0, y=middle))
        end = left
        if not row.heading:
            width = max(room * row.value / longest, 1.5)
            end = left + width + 7
            label = tag("title", f"{row.name}: {row.shown}")
            place = {"x": left, "y": middle - 6.5, "width": width, "height": 13}
            drawn.append(tag("rect", label, class_="bar plain", rx=1.5, **place))
        drawn.append(tag("text", row.shown, class_=f"{style} value", x=end, y=middle))
        y += height
    return svg(title, y + 4, *drawn)


def legend(entries: Sequence[tuple[str, str]]) -> Markup:
    """(label, CSS classes) each with a short sample of the line, dot or bar."""
    keys = []
    for label, style in entries:
        if "bar" in style.split():
            sample = tag("rect", class_=style, x=4, y=1, width=14, height=10, rx=1.5)
        elif "dot" in style.split():
            sample = tag("circle", class_=style, cx=11, cy=6, r=3.5)
        else:
            sample = tag("path", class_=f"line {style}", d="M1 6H21")
        swatch = tag("svg", sample, class_="swatch", viewBox="0 0 22 12", aria_hidden="true")
        keys.append(tag("span", swatch, label, class_="key"))
    return tag("div", *keys, class_="legend")
