"""The page: whole, self-contained, and safe whatever the run holds."""

from __future__ import annotations

import re
import xml.etree.ElementTree as ET
from dataclasses import replace
from html.parser import HTMLParser
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

from pipeline.report.filter_figures import response_lines
from pipeline.report.page import render, write_report
from pipeline.report.run import load_run

if TYPE_CHECKING:
    from tests.report.conftest import MakeRun

VOID = {"meta", "line", "path", "circle", "rect"}
SVG = re.compile(r"<svg.*?</svg>", re.DOTALL)
EVIL = "<script>alert(1)</script>"
SECTIONS = [
    "Results",
    "Time",
    "Training",
    "Learned filter of GSCNet",
    "Data",
    "Protocol and settings",
    "Where it came from",
]


class Checker(HTMLParser):
    """Checks that tags close in order; gathers tags, headings, attributes and text."""

    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []
        self.tags: list[str] = []
        self.links: list[str] = []
        self.sections: list[str] = []
        self.text: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        self.links += [v or "" for k, v in attrs if k in ("src", "href", "srcset", "xlink:href")]
        assert not any(k.startswith("on") for k, _ in attrs)
        if tag != "meta":
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        assert tag in VOID, tag
        self.tags.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        if self.open and self.open[-1] == "h2":
            self.sections.append(data)
        if "style" not in self.open:
            self.text.append(data)


def checked(root: Path) -> tuple[str, Checker, list[ET.Element]]:
    """Write the page and assert what must hold for every page."""
    page = write_report(root).read_text(encoding="utf-8")
    checker = Checker()
    checker.feed(page)
    checker.close()
    assert checker.open == []
    assert checker.links == []
    assert not {"script", "link", "img", "iframe", "object"} & set(checker.tags)
    assert "@import" not in page
    assert "url(" not in page
    charts = [ET.fromstring(found) for found in SVG.findall(page)]
    for chart in charts:
        for element in chart.iter():
            for key, value in element.attrib.items():
                if key not in ("class", "aria-label", "role"):
                    assert not re.search(r"nan|inf|none", value, re.IGNORECASE), (key, value)
    return page, checker, [c for c in charts if c.attrib["class"] == "chart"]


def test_the_whole_page(make_run: MakeRun) -> None:
    page, checker, charts = checked(make_run())
    assert checker.sections == SECTIONS
    assert len(charts) == 6
    text = "".join(checker.text)
    assert (
        "GSCNet is the most accurate, with 60.00 ± 0.41 % of test nodes right, "
        "22.5 points above MLP, in 27.3 s of precompute and training per split." in text
    )
    assert "Not comparable one to one" in text
    assert "59.62 ± 0.29 %" in text
    assert page.count("<figcaption>") == 6
    assert page.count("<summary>Numbers</summary>") == 6
    assert "<strong>60.00 ± 0.41 %</strong>" in page
    assert "prefers-color-scheme: dark" in page
    for fact in ("3,034,349", "0.389", "float32", "AMD EPYC 7B13", "15.6 GiB", "2.9.0"):
        assert fact in text


def test_the_same_run_gives_the_same_page(make_run: MakeRun, tmp_path: Path) -> None:
    root = make_run()
    first = write_report(root)
    assert first == root / "report.html"
    other = write_report(root, tmp_path / "deep" / "page.html")
    assert other.read_bytes() == first.read_bytes()
    load_run(root)  # the page in its folder does not spoil the run


def test_the_curve_drawn_is_the_response(make_run: MakeRun) -> None:
    root = make_run()
    _, _, charts = checked(root)
    (chart,) = [c for c in charts if c.attrib["aria-label"] == "Learned response h(λ)"]
    (drawn,) = [e for e in chart.iter("path") if e.attrib["class"] == "line mean response"]
    points = np.array(re.findall(r"[ML]([-\d.]+) ([-\d.]+)", drawn.attrib["d"]), dtype=float)
    x, y = _values(chart, "x", points[:, 0]), _values(chart, "y", points[:, 1])
    filters = [f for _, f in load_run(root).models[0].filters]
    h = np.zeros_like(x)
    for learned in filters:
        h += sum(a * (2 - x) ** i for i, a in enumerate(learned.alpha)) / len(filters)
        h += sum(b * x**j for j, b in enumerate(learned.beta)) / len(filters)
    assert (x[0], x[-1]) == pytest.approx((0, 2), abs=1e-3)
    assert np.abs(y - h).max() < 2e-3 * np.abs(h).max()


def _values(chart: ET.Element, axis: str, at: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """Coordinates back to values by the chart's own ticks."""
    ticks = [e for e in chart.iter("text") if e.attrib["class"] == f"tick {axis}"]
    places = [float(e.attrib[axis]) for e in ticks]
    values = [float((e.text or "").replace("−", "-")) for e in ticks]
    slope, offset = np.polyfit(places, values, 1)
    return np.asarray(slope * at + offset)


def test_the_parts_of_the_response_add_up(make_run: MakeRun) -> None:
    lines = response_lines(load_run(make_run(splits=3)).models[0])
    assert len(lines) == 3 * 3 + 3
    positive, negative, both = lines[-3:]
    assert both.y == pytest.approx(positive.y + negative.y)
    assert both.y.dtype == np.float64


def test_names_from_the_data_are_only_text(make_run: MakeRun) -> None:
    root = make_run(
        labels={"gscnet": EVIL, "mlp": '"><img src=x onerror=alert(1)>'},
        data={"class_names": [EVIL, "a\x00b"], "notes": {"like": EVIL, EVIL: "</style>"}},
        measurements={
            "stages": {EVIL: {EVIL: 1.0}},
            "machine": {"cpu": EVIL},
            "versions": {EVIL: EVIL},
        },
    )
    page, checker, _ = checked(root)
    assert EVIL not in page
    assert "".join(checker.text).count(EVIL) > 10


@pytest.mark.parametrize("like", ["nowhere", None])
def test_published_figures_only_beside_a_graph_like_theirs(
    make_run: MakeRun, like: str | None
) -> None:
    notes = None if like is None else {"like": like}
    page, _, _ = checked(make_run(data={"notes": notes, "homophily": None}))
    assert "published figures" not in page
    assert "GSCNet and MLP on a graph of 19,253 nodes" in page


def test_no_measurements(make_run: MakeRun) -> None:
    page, checker, charts = checked(make_run(measured=False))
    assert checker.sections == SECTIONS
    assert page.count("No times were kept with this run.") == 2
    assert len(charts) == 4


def test_an_mlp_alone(make_run: MakeRun) -> None:
    page, _, charts = checked(make_run(models=("mlp",)))
    assert "No model here learns a filter." in page
    assert "MLP</strong> reaches <strong>37.50" in page
    assert len(charts) == 4


def test_other_models(make_run: MakeRun) -> None:
    models = ("gscnet", "mlp", "a", "b", "c", "d", "e")
    page, _, _ = checked(make_run(models=models, splits=2, epochs=3))
    assert len(set(re.findall(r'class="chip (c\d)"', page))) == 6


def test_the_summary_when_the_mlp_is_best(make_run: MakeRun) -> None:
    run = load_run(make_run(models=("mlp", "aa")))  # "aa" reaches 50 %
    assert "12.5 points above MLP" in render(run)
    swapped = tuple(replace(m, mean=1 - m.mean) for m in run.models)
    page = render(replace(run, models=swapped))
    assert "MLP</strong> is the most accurate" in page
    assert "12.5 points above aa" in page


def test_losses_far_apart_are_drawn_as_logarithms(make_run: MakeRun) -> None:
    loss = [8.0, 2.0, 1.0]
    curve = {"train_loss": loss, "valid_loss": loss, "valid_accuracy": [0.1, 0.2, 0.3]}
    root = make_run(splits=1, models=("mlp",), heads={"mlp-split0": {"curve": curve}})
    _, _, charts = checked(root)
    (chart,) = [c for c in charts if c.attrib["aria-label"] == "Loss by epoch"]
    ticks = {e.text: e.attrib["y"] for e in chart.iter("text") if e.attrib["class"] == "tick y"}
    assert list(ticks) == ["1", "1.5", "2", "3", "5", "7"]
    (line,) = [e for e in chart.iter("path") if e.attrib["class"] == "line mean c1"]
    assert [y for _, y in re.findall(r"[ML]([-\d.]+) ([-\d.]+)", line.attrib["d"])][1:] == [
        ticks["2"],
        ticks["1"],
    ]


@pytest.mark.parametrize("epochs", [1, 2, 1200])
def test_one_split_and_few_or_many_epochs(make_run: MakeRun, epochs: int) -> None:
    page, _, _ = checked(make_run(splits=1, epochs=epochs))
    assert "One split: no interval can be told." in page
    assert "±" not in page.split("<aside")[0].split("<tbody>")[1]
    assert len(page) < 400_000


def test_heads_that_diverged(make_run: MakeRun) -> None:
    nothing: dict[str, list[float]] = {"train_loss": [], "valid_loss": [], "valid_accuracy": []}
    nans = {"train_loss": [None], "valid_loss": [float("nan")], "valid_accuracy": [0.2]}
    root = make_run(
        splits=2,
        heads={
            "gscnet-split0": {"curve": nothing, "best_epoch": 0, "epochs": 0},
            "gscnet-split1": {
                "curve": nans,
                "best_epoch": 1,
                "filter": {"alpha": [float("inf")], "beta": [1.0]},
            },
            "mlp-split0": {"curve": nans, "test_accuracy": float("nan")},
        },
    )
    checked(root)


def test_every_filter_diverged(make_run: MakeRun) -> None:
    broken = {"filter": {"alpha": [None], "beta": [None]}}
    page, _, _ = checked(make_run(splits=1, heads={"gscnet-split0": broken}))
    assert "Training of every filter diverged." in page


def test_extreme_filters(make_run: MakeRun) -> None:
    learned = {"alpha": [1e6, -3e8] + [0.0] * 9, "beta": [0.0]}
    page, _, _ = checked(make_run(splits=1, heads={"gscnet-split0": {"filter": learned}}))
    assert "3.00e+08" in page
