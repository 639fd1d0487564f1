"""Axes, labels and marks."""

from __future__ import annotations

import itertools
import math
import xml.etree.ElementTree as ET

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pipeline.report import words
from pipeline.report.charts import Bar, bar_chart, line_chart, scatter_chart
from pipeline.report.markup import Markup, joined, tag
from pipeline.report.scales import axis, spread
from pipeline.report.shapes import Line, Mark

finite = st.floats(-1e9, 1e9)


@given(st.lists(finite | st.just(math.nan) | st.just(math.inf), max_size=8))
def test_an_axis_covers_its_values(values: list[float]) -> None:
    made = axis(values, "y", include=[0])
    assert math.isfinite(made.low)
    assert made.low < made.high
    known = [v for v in values if math.isfinite(v)]
    slack = 1e-6 * (made.high - made.low)
    assert all(made.low - slack <= v <= made.high + slack for v in [*known, 0])
    assert 2 <= len(made.ticks) <= 8
    assert len({label for _, label in made.ticks}) == len(made.ticks)


@pytest.mark.parametrize(
    ("values", "labels"),
    [
        ([0, 2], ["0.0", "0.5", "1.0", "1.5", "2.0"]),
        ([0, 27.3], ["0", "10", "20", "30"]),
        ([-0.02, 3.1], ["0", "1", "2", "3"]),
        ([-0.38, 0.56], ["−0.4", "−0.2", "0.0", "0.2", "0.4", "0.6"]),
        ([0, 12_000], ["0", "5,000", "10,000", "15,000"]),
    ],
)
def test_ticks_are_round(values: list[float], labels: list[str]) -> None:
    assert [label for _, label in axis(values, "").ticks] == labels


@given(st.integers(1, 5000))
def test_epochs_are_whole(epochs: int) -> None:
    made = axis([epochs], "", include=[0], whole=True, tight=True)
    assert (made.low, made.high) == (0, epochs)
    assert all(
        value == int(value) and label.replace(",", "") == str(int(value))
        for value, label in made.ticks
    )


@given(st.lists(st.floats(0, 100), max_size=5))
def test_labels_keep_apart_and_in_order(wanted: list[float]) -> None:
    placed = spread(wanted, 10, 0, 100)
    at = sorted(placed)
    assert all(b - a >= 10 - 1e-9 for a, b in itertools.pairwise(at))
    assert all(-1e-9 <= p <= 100 + 1e-9 for p in placed)
    assert [placed[i] for i in sorted(range(len(wanted)), key=lambda i: wanted[i])] == at


def test_a_gap_where_values_are_missing() -> None:
    y = np.array([1.0, math.nan, 2.0, 3.0, math.inf])
    line = Line("curve", np.arange(5.0), y, "mean c0")
    chart = ET.fromstring(line_chart("t", axis([0, 4], ""), axis([1, 3], ""), [line]))
    (path,) = list(chart.iter("path"))
    assert path.attrib["d"].count("M") == 2
    assert "nan" not in path.attrib["d"]


def test_marks_at_one_place_have_labels_at_others() -> None:
    marks = [Mark(f"m{i}", 5, 50, "c0", 49, 51, label=f"model {i}") for i in range(5)]
    chart = ET.fromstring(scatter_chart("t", axis([0, 10], ""), axis([0, 100], ""), marks))
    names = [e for e in chart.iter("text") if "name" in e.attrib["class"]]
    assert len({(e.attrib["x"], e.attrib["y"]) for e in names}) == 5


def test_bars_hang_from_zero() -> None:
    y = axis([-1, 1], "", include=[0])
    bars = [Bar("up", 0, 1, "a", (("s", 0.5),)), Bar("down", 0, -1, "b"), Bar("flat", 1, 0, "a")]
    chart = ET.fromstring(bar_chart("t", "x", y, ["0", "1"], bars))
    up, down, flat = [{k: float(e.attrib[k]) for k in ("y", "height")} for e in chart.iter("rect")]
    assert up["y"] + up["height"] == pytest.approx(down["y"], abs=0.02)
    assert flat["height"] > 0
    assert len(list(chart.iter("circle"))) == 1


def test_text_is_escaped_once() -> None:
    made = tag("p", "<b>", Markup("<i>x</i>"), class_='"&"')
    assert made == '<p class="&quot;&amp;&quot;">&lt;b&gt;<i>x</i></p>'
    assert joined("a\x00b", made) == f"a\ufffdb{made}"


@pytest.mark.parametrize(
    ("value", "text"),
    [(0, "0.000"), (2.9312, "2.93"), (-0.0612, "−0.0612"), (1234.5, "1,234"), (2e-7, "2.00e−07")],
)
def test_coefficients_have_three_digits(value: float, text: str) -> None:
    assert words.coefficient(value) == text


def test_numbers_and_lists_in_words() -> None:
    assert words.number(-0.001, 1) == "0.0"
    assert words.listed(["a"]) == "a"
    assert words.listed(["a", "b", "c"]) == "a, b and c"
    assert (words.counted(1, "class", "es"), words.counted(2, "class", "es")) == (
        "1 class",
        "2 classes",
    )
