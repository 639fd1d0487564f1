"""Numbers and names as the table and the page write them."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Final

from pipeline.console import format_bytes, format_seconds
from pipeline.report.summary import Model

MISSING: Final = "–"


def printable(text: object) -> str:
    """Text on one line without control characters: users' names reach terminals and XML."""
    shown = (c if c.isprintable() else " " if c.isspace() else "\ufffd" for c in str(text))
    return "".join(shown)


def number(value: float, decimals: int) -> str:
    """A decimal number with thousands separators and a real minus sign."""
    shown = f"{value:,.{decimals}f}"
    shown = shown.removeprefix("-") if not shown.strip("-0.,") else shown  # no "−0.0"
    return shown.replace("-", "−")


def coefficient(value: float) -> str:
    """Three significant digits, as a plain decimal where that is readable."""
    if value == 0 or 1e-3 <= abs(value) < 1e4:
        digits = 3 if value == 0 else max(0, 2 - math.floor(math.log10(abs(value))))
        return number(value, min(digits, 5))
    return f"{value:.2e}".replace("-", "−")


def percent(share: float, decimals: int = 2) -> str:
    """0.6 → '60.00 %'."""
    return f"{number(100 * share, decimals)} %" if math.isfinite(share) else MISSING


def accuracy(model: Model) -> str:
    """'60.02 ± 0.41 %'; without ± for one split, of which no interval can be told."""
    if not math.isfinite(model.mean):
        return MISSING
    if len(model.heads) < 2:
        return percent(model.mean)
    return f"{number(100 * model.mean, 2)} ± {number(100 * model.interval, 2)} %"


def seconds(value: float | None) -> str:
    """Seconds for a table; precompute that was not needed is a bare 0."""
    if value is None:
        return MISSING
    if 0 < value < 0.095:
        return f"{value:.2f} s" if value >= 0.005 else "< 0.01 s"
    return "0 s" if value == 0 else format_seconds(value)


def memory(value: float | None) -> str:
    """Bytes for a table."""
    return MISSING if value is None else format_bytes(value)


def listed(names: Sequence[str]) -> str:
    """'a', 'a and b', 'a, b and c'."""
    if len(names) < 2:
        return "".join(names)
    return f"{', '.join(names[:-1])} and {names[-1]}"


def counted(count: int, noun: str, plural: str = "s") -> str:
    """'1 split', '5 splits'; `plural` is what the noun takes."""
    return f"{count:,} {noun}" if count == 1 else f"{count:,} {noun}{plural}"
