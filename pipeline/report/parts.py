"""The parts of the page: sections, tables, figures with caption and numbers."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from pipeline.report.markup import Markup, joined, tag

Cells = Sequence[object]


def section(heading: str, *content: object) -> Markup:
    """A part of the page under its own heading."""
    return tag("section", tag("h2", heading), *content)


def pair(*figures: Markup) -> Markup:
    """Figures side by side where there is room."""
    return tag("div", *figures, class_="pair")


def table(headings: Cells, rows: Iterable[Cells], *, style: str | None = None) -> Markup:
    """A table whose first column names the rows. It scrolls by itself where it is too wide.

    Cells know their heading: the style sheet writes it beside them where columns become lines.
    """
    head = tag("tr", *(tag("th", heading, scope="col") for heading in headings))
    body = [
        tag("tr", tag("th", first, scope="row"), *_cells(headings[1:], rest))
        for first, *rest in rows
    ]
    inner = tag("table", tag("thead", head), tag("tbody", *body), class_=style)
    return tag("div", inner, class_="scroll")


def _cells(headings: Cells, cells: Cells) -> list[Markup]:
    return [
        tag("td", cell, data_label=heading) for heading, cell in zip(headings, cells, strict=True)
    ]


def figure(
    heading: str,
    chart: Markup,
    caption: str,
    *,
    legend: object = "",
    numbers: tuple[Cells, Iterable[Cells]] | None = None,
) -> Markup:
    """A chart, one line on what to see in it, and its numbers for those who cannot see it."""
    details = more("Numbers", table(*numbers, style="numbers")) if numbers else ""
    return tag(
        "figure",
        tag("div", tag("h3", heading), legend),
        tag("div", chart, tag("figcaption", caption), details),
    )


def more(summary: str, *content: object) -> Markup:
    """Content that opens on demand."""
    return tag("details", tag("summary", summary), *content)


def facts(pairs: Iterable[tuple[object, object]]) -> Markup:
    """Names and values in a grid."""
    return tag(
        "dl",
        *(tag("div", tag("dt", name), tag("dd", value)) for name, value in pairs),
        class_="facts",
    )


def document(title: str, style: str, *content: object) -> Markup:
    """The whole page, complete in itself."""
    head = joined(
        Markup('<meta charset="utf-8">\n'),
        Markup('<meta name="viewport" content="width=device-width, initial-scale=1">\n'),
        Markup('<meta name="color-scheme" content="light dark">\n'),
        tag("title", title),
        Markup(f"\n<style>\n{style}</style>\n"),
    )
    body = tag("main", *content)
    page = f'<html lang="en">\n<head>\n{head}</head>\n<body>\n{body}\n</body>\n</html>'
    return Markup(f"<!doctype html>\n{page}\n")
