"""The pieces that charts are drawn from: the frame with its axes, curves, marks, labels.

The text is laid out for the larger size that the style sheet gives it on a phone.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from pipeline.report.markup import Markup, coordinate, joined, tag
from pipeline.report.scales import Axis, Scale
from pipeline.report.summary import Floats

WIDTH: Final = 440.0
HEIGHT: Final = 290.0
TOP: Final = 30.0
BOTTOM: Final = 46.0
CHARACTER: Final = 7.4
"""The width of a character at the phone's text size; a little more than the mean."""
BOLD: Final = 8.0
"""The same of a bold one."""


@dataclass(frozen=True)
class Line:
    """A curve; points that are not finite leave a gap."""

    name: str
    x: Floats
    y: Floats
    style: str
    """CSS classes: a colour and `mean` or `split`."""
    label: str = ""
    """Written at the curve's right end."""


@dataclass(frozen=True)
class Mark:
    """A point, with an interval where `low` and `high` are given."""

    name: str
    x: float
    y: float
    style: str
    low: float | None = None
    high: float | None = None
    label: str = ""


@dataclass(frozen=True)
class Frame:
    """Where values lie in a chart: room for the labels of the axes is left around them."""

    x: Scale
    y: Scale

    @classmethod
    def around(cls, x: Axis, y: Axis, *, right: float = 14.0) -> Frame:
        """The frame for two axes, with `right` left free beside it."""
        left = 12 + CHARACTER * max(len(label) for _, label in y.ticks)
        return cls(
            Scale(x.low, x.high, left, WIDTH - right),
            Scale(y.low, y.high, HEIGHT - BOTTOM, TOP),
        )

    def axes(self, x: Axis, y: Axis, *, notches: bool = False) -> Markup:
        """Grid, ticks and titles; `notches` tie the ticks of x to their places."""
        left, right, floor = self.x.start, self.x.stop, self.y.start
        parts = [tag("text", y.title, class_="title", x=0, y=13)]
        for value, label in y.ticks:
            at = self.y(value)
            style = "grid" if label.strip("0.") else "grid zero"  # on a log axis 0 is not zero
            parts.append(tag("line", class_=style, x1=left, x2=right, y1=at, y2=at))
            parts.append(tag("text", label, class_="tick y", x=left - 7, y=at))
        if notches:
            parts.append(tag("line", class_="grid", x1=left, x2=right, y1=floor, y2=floor))
        for value, label in x.ticks:
            at = self.x(value)
            if notches:
                parts.append(tag("line", class_="notch", x1=at, x2=at, y1=floor, y2=floor + 4))
            parts.append(tag("text", label, class_="tick x", x=at, y=floor + 19))
        middle = (left + right) / 2
        parts.append(tag("text", x.title, class_="title middle", x=middle, y=HEIGHT - 7))
        return joined(*parts)


def svg(title: str, height: float, *content: Markup) -> Markup:
    """The chart itself: it takes the width it is given and keeps its proportions."""
    box = f"0 0 {coordinate(WIDTH)} {coordinate(height)}"
    return tag("svg", *content, class_="chart", viewBox=box, role="img", aria_label=title)


def curve(frame: Frame, line: Line) -> Markup:
    """A line with gaps where values are not finite."""
    points = [(float(x), float(y)) for x, y in zip(line.x, line.y, strict=True)]
    solid = [point for point in points if math.isfinite(point[1])]
    if len(solid) == 1:  # a line of one point would be invisible
        place = frame.x(solid[0][0]), frame.y(solid[0][1])
        return dot(*place, 3.5 if "mean" in line.style else 2.4, line.style, line.name)
    d, pen = [], "M"
    for x, y in points:
        if not math.isfinite(y):
            pen = "M"
            continue
        d.append(f"{pen}{coordinate(frame.x(x))} {coordinate(frame.y(y))}")
        pen = "L"
    if not d:
        return Markup("")
    return tag("path", tag("title", line.name), class_=f"line {line.style}", d="".join(d))


def marked(frame: Frame, mark: Mark, radius: float) -> Markup:
    """A mark with the whiskers of its interval."""
    x, y = frame.x(mark.x), frame.y(mark.y)
    point = dot(x, y, radius, mark.style, mark.name)
    if mark.low is None or mark.high is None:
        return point
    low, high = frame.y(mark.low), frame.y(mark.high)
    ends = "".join(f"M{coordinate(x - 5)} {coordinate(end)}h10" for end in (low, high))
    d = f"M{coordinate(x)} {coordinate(low)}V{coordinate(high)}{ends}"
    return joined(tag("path", class_=f"whisker {mark.style}", d=d), point)


def dot(x: float, y: float, radius: float, style: str, name: str) -> Markup:
    """A dot at page coordinates that tells its name when pointed at."""
    return tag("circle", tag("title", name), class_=f"dot {style}", cx=x, cy=y, r=radius)


_Box = tuple[float, float, float, float]


def extent(frame: Frame, mark: Mark) -> _Box:
    """Left, top, right and bottom of a mark with its whiskers."""
    x = frame.x(mark.x)
    ys = [frame.y(v) for v in (mark.y, mark.low, mark.high) if v is not None]
    return x - 8, min(ys) - 8, x + 8, max(ys) + 8


def placed(frame: Frame, mark: Mark, taken: Sequence[_Box]) -> tuple[Markup, _Box]:
    """A label right of, left of, above or below its mark, at the first place that is free."""
    x, y = frame.x(mark.x), frame.y(mark.y)
    _, top, _, bottom = extent(frame, mark)
    width = BOLD * len(mark.label)
    spots = (
        (x + 12, y, "start", x + 12),
        (x - 12, y, "finish", x - 12 - width),
        *((x, top - 8 - 16 * row, "middle", x - width / 2) for row in range(3)),
        *((x, bottom + 8 + 16 * row, "middle", x - width / 2) for row in range(3)),
    )
    options = [
        (
            tag("text", mark.label, class_=f"name {anchor} {mark.style}", x=at, y=height),
            (left, height - 8, left + width, height + 8),
        )
        for at, height, anchor, left in spots
    ]
    inside = (frame.x.start, TOP - 8, WIDTH, frame.y.start)
    return next((o for o in options if _free(o[1], inside, taken)), options[0])


def _free(box: _Box, inside: _Box, taken: Sequence[_Box]) -> bool:
    left, top, right, bottom = box
    within = left >= inside[0] and top >= inside[1] and right <= inside[2] and bottom <= inside[3]
    return within and not any(
        left < r and right > lft and top < b and bottom > t for lft, t, r, b in taken
    )
