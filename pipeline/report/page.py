"""The page: one HTML file that needs nothing beside it."""

from __future__ import annotations

import math
from importlib.resources import files
from pathlib import Path
from typing import Final

from pipeline.report import facts, figures, filter_figures, words
from pipeline.report.markup import Markup, joined, tag
from pipeline.report.parts import document, more, pair, section, table
from pipeline.report.published import PUBLISHED, SOURCE
from pipeline.report.run import load_run
from pipeline.report.summary import Model, RunSummary
from pipeline.report.table import footnote
from pipeline.storage.files import write_text_durably

REPORT: Final = "report.html"


def write_report(root: Path, out: Path | None = None) -> Path:
    """Write the report of the run in `root` to `out`, by default RUN/report.html; return its path.

    The same run always gives the same bytes.

    Raises:
        StoreError: `root` holds no finished run, or a damaged one.
    """
    path = root / REPORT if out is None else out
    write_text_durably(path, render(load_run(root)))
    return path


def render(run: RunSummary) -> str:
    """The page's text."""
    style = (files("pipeline.report") / "page.css").read_text(encoding="utf-8")
    return document(
        f"{_title(run)} – GSCNet run report",
        style,
        _header(run),
        section("Results", _results(run), _splits(run), _published(run)),
        section("Time", pair(figures.accuracy_by_time(run), figures.time_by_stage(run))),
        section("Training", pair(figures.accuracy_curves(run), figures.loss_curves(run))),
        *_filters(run),
        section("Data", facts.data(run)),
        section("Protocol and settings", facts.protocol(run), facts.settings(run)),
        section("Where it came from", facts.origin(run)),
    )


def _title(run: RunSummary) -> str:
    labels = words.listed([model.label for model in run.models])
    like = PUBLISHED.get(run.data.notes.get("like", ""))
    if like is not None:
        return f"{labels} on a generated graph like {like.name}"
    return f"{labels} on {run.data.notes.get('name') or f'a graph of {run.data.nodes:,} nodes'}"


def _header(run: RunSummary) -> Markup:
    data = run.data
    return tag(
        "header",
        tag("p", "GSCNet run report", class_="eyebrow"),
        tag("h1", _title(run)),
        tag("p", *_summary(run), class_="lede"),
        tag(
            "p",
            f"{data.nodes:,} nodes · {data.entries // 2:,} edges · {data.features:,} features · "
            f"{words.counted(data.classes, 'class', 'es')}",
            class_="muted",
        ),
    )


def _summary(run: RunSummary) -> list[object]:
    """One sentence: the best model, its accuracy, its lead, its time."""
    best = run.best
    if not math.isfinite(best.mean):
        return ["No model reached a finite accuracy: training diverged."]
    alone = len(run.models) == 1
    parts: list[object] = [
        tag("strong", best.label),
        " reaches " if alone else " is the most accurate, with ",
        tag("strong", words.accuracy(best)),
        " of test nodes right",
    ]
    other = _rival(run)
    if other is not None:
        lead = words.number(100 * (best.mean - other.mean), 1)
        apart = best.low > other.high or min(len(best.heads), len(other.heads)) < 2
        parts += [
            f", {lead} points above {other.label}",
            "" if apart else " (the intervals overlap)",
        ]
    if best.total_seconds is not None:
        what = "precompute and training" if best.precompute_seconds else "training"
        parts.append(f", in {words.seconds(best.total_seconds)} of {what} per split")
    return [*parts, "."]


def _rival(run: RunSummary) -> Model | None:
    """What the best model is compared with: the MLP, or the next best where the MLP is best."""
    others = [m for m in run.models if m is not run.best and math.isfinite(m.mean)]
    plain = next((m for m in others if m.model == "mlp"), None)
    return plain or max(others, key=lambda m: m.mean, default=None)


def _results(run: RunSummary) -> Markup:
    colour = figures.colours(run)
    fastest = _least([(m.train_seconds, words.seconds(m.train_seconds)) for m in run.models])
    leanest = _least([(m.peak_memory, words.memory(m.peak_memory)) for m in run.models])
    rows = [
        (
            joined(tag("span", class_=f"chip {colour[m.model]}"), m.label),
            _best(words.accuracy(m), m is run.best and len(run.models) > 1),
            words.seconds(m.precompute_seconds),
            _best(words.seconds(m.train_seconds), words.seconds(m.train_seconds) == fastest),
            _best(words.memory(m.peak_memory), words.memory(m.peak_memory) == leanest),
            words.MISSING if m.parameters is None else f"{m.parameters:,}",
        )
        for m in run.models
    ]
    headings = (
        "Model",
        "Test accuracy",
        "Precompute",
        "Training per split",
        "Peak memory",
        "Parameters",
    )
    note = (
        f"{footnote(run)} Precompute is done once and serves every split and every filter; a model "
        "that reads the features alone needs none. Peak memory is the larger of precompute and "
        "training, over all workers; training time is the mean of the splits."
        f"{' The best of a column is bold.' if len(run.models) > 1 else ''}"
    )
    return joined(table(headings, rows, style="results"), tag("p", note, class_="note"))


def _splits(run: RunSummary) -> Markup:
    rows = [
        (
            f"{model.label}, split {head.split}",
            words.percent(head.test_accuracy),
            f"{head.best_epoch} of {head.epochs}",
            words.seconds(head.train_seconds),
        )
        for model in run.models
        for head in model.heads
    ]
    headings = ("Head", "Test accuracy", "Epoch kept", "Training")
    return more("Every split", table(headings, rows, style="numbers"))


def _published(run: RunSummary) -> Markup:
    graph = PUBLISHED.get(run.data.notes.get("like", ""))
    if graph is None:
        return Markup("")
    rows = [
        (
            line.label,
            f"{line.accuracy:.2f} ± {line.interval:.2f} %",
            words.MISSING if line.seconds is None else f"{line.seconds:g} s",
        )
        for line in graph.models
    ]
    scale = run.data.notes.get("scale")
    shrunk = f" at scale {scale}" if scale is not None else ""
    text = tag(
        "div",
        tag("h3", f"For reference: published figures for the real {graph.name}"),
        tag(
            "p",
            tag("strong", "Not comparable one to one with the table above."),
            f" The run was measured on a generated graph like {graph.name}{shrunk} "
            f"({run.data.nodes:,} nodes); these figures are for the real graph "
            f"({graph.nodes:,} nodes, {graph.edges:,} edges), on other hardware.",
        ),
        tag("p", f"From table 6 of “{SOURCE}”."),
    )
    published = table(("Model", "Test accuracy", "Time"), rows)
    return tag("aside", text, published, class_="published")


def _filters(run: RunSummary) -> list[Markup]:
    learned = [model for model in run.models if model.filters]
    if not learned:
        diverged = any(model.has_filter for model in run.models)
        why = "Training of every filter diverged." if diverged else "No model here learns a filter."
        return [section("Learned filter", tag("p", f"{why} There is nothing to draw."))]
    return [section(f"Learned filter{_of(run, m)}", _formula(), _pair(m)) for m in learned]


def _of(run: RunSummary, model: Model) -> str:
    return f" of {model.label}" if len(run.models) > 1 else ""


def _formula() -> Markup:
    i, j = tag("i", "i"), tag("i", "j")
    positive = joined("Σ α", tag("sub", i), " (2 − λ)", tag("sup", i))
    negative = joined("Σ β", tag("sub", j), " λ", tag("sup", j))
    return tag(
        "p",
        "The filter multiplies the part of a signal at frequency λ by h(λ) = ",
        tag("span", positive, class_="part positive"),
        " + ",
        tag("span", negative, class_="part negative"),
        ", its positive and its negative part. λ, an eigenvalue of L, goes from 0 to 2.",
        class_="muted",
    )


def _pair(model: Model) -> Markup:
    return pair(filter_figures.coefficients(model), filter_figures.response(model))


def _least(cells: list[tuple[float | None, str]]) -> str | None:
    """The text of the smallest value; None where all that is known reads alike: no contest."""
    known = [(value, text) for value, text in cells if value is not None]
    return min(known)[1] if len({text for _, text in known}) > 1 else None


def _best(text: str, best: bool) -> object:
    return tag("strong", text) if best else text
