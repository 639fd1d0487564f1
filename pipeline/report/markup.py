"""Markup: elements whose text and attributes are always escaped."""

from __future__ import annotations

import html
import math

from pipeline.report.words import printable


class Markup(str):
    """Text that is markup already and must not be escaped again."""

    __slots__ = ()


def escaped(text: object) -> Markup:
    """Any text as markup; markup stays what it is."""
    return text if isinstance(text, Markup) else Markup(html.escape(printable(text)))


def joined(*parts: object) -> Markup:
    """Parts one after another, each escaped unless it is markup."""
    return Markup("".join(escaped(part) for part in parts))


def tag(name: str, *content: object, **attributes: object) -> Markup:
    """One element. `class_` is written class, other underscores become hyphens, None is left out.

    Numbers in attributes are coordinates: they must be finite and are written with two decimals.
    """
    written = "".join(
        f' {key.rstrip("_").replace("_", "-")}="{_attribute(value)}"'
        for key, value in attributes.items()
        if value is not None
    )
    inside = joined(*content)
    # HTML has no short form for its own elements; these SVG ones are always empty
    if not content and name in {"line", "path", "circle", "rect"}:
        return Markup(f"<{name}{written}/>")
    return Markup(f"<{name}{written}>{inside}</{name}>")


def coordinate(value: float) -> str:
    """A coordinate with at most two decimals."""
    assert math.isfinite(value), value
    return f"{value:.2f}".rstrip("0").rstrip(".")


def _attribute(value: object) -> str:
    if isinstance(value, int | float):
        return coordinate(value)
    return escaped(value)
