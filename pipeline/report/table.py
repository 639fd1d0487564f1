"""The comparison of models as plain text for a terminal."""

from __future__ import annotations

from typing import Final

from pipeline.report import words
from pipeline.report.summary import RunSummary

_HEADINGS: Final = ("model", "test accuracy", "precompute", "training/split", "peak memory")


def comparison_table(run: RunSummary) -> str:
    """One line a model: accuracy with its 95 % interval, seconds and memory. No final newline.

    Lines are in the run's order; what was not measured is '–'.
    """
    rows = [
        (
            words.printable(model.label),
            words.accuracy(model),
            words.seconds(model.precompute_seconds),
            words.seconds(model.train_seconds),
            words.memory(model.peak_memory),
        )
        for model in run.models
    ]
    widths = [max(map(len, column)) for column in zip(_HEADINGS, *rows, strict=True)]
    lines = [_line(_HEADINGS, widths), "  ".join("─" * width for width in widths)]
    lines += [_line(row, widths) for row in rows]
    return "\n".join([*lines, footnote(run)])


def footnote(run: RunSummary) -> str:
    """What the ± in the table means for this run."""
    splits = max(len(model.heads) for model in run.models)
    if splits < 2:
        return "One split: no interval can be told."
    return f"± is the 95 % interval of the mean over {splits} splits."


def _line(cells: tuple[str, ...], widths: list[int]) -> str:
    first, *rest = (
        cell.rjust(width) if column else cell.ljust(width)
        for column, (cell, width) in enumerate(zip(cells, widths, strict=True))
    )
    return "  ".join([first, *rest])
