"""The parts of the page that state facts: the data, the settings, the origin."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from pipeline.console import format_bytes
from pipeline.report import parts, words
from pipeline.report.markup import Markup, joined, tag
from pipeline.report.summary import RunSummary

_HALF: Final = tag("sup", "−½")
_OPERATORS: Final = {
    "sym": joined("D", _HALF, "AD", _HALF, " (sym)"),
    "sym-loops": joined("D", _HALF, "(A+I)D", _HALF, " (sym-loops)"),
}
_NAMES: Final = {
    "like": "Generated like",
    "cpu": "CPU",
}
_PROTOCOL: Final = {
    "name": "Protocol",
    "version": "Version of the protocol",
    "epochs": "Epochs, at most",
    "batch_rows": "Rows of a batch",
}
"""Names for keys that read badly as they are."""
_OF_FILTERS: Final = frozenset({"K1", "K2", "filter_lr", "filter_weight_decay"})
"""Settings that mean nothing to a model without a filter."""
_MOST_CLASSES: Final = 12


def data(run: RunSummary) -> Markup:
    """The graph and the basis."""
    known = run.data
    pairs: list[tuple[object, object]] = [
        ("Nodes", f"{known.nodes:,}"),
        ("Edges, undirected", f"{known.entries // 2:,}"),
        ("Matrix entries", f"{known.entries:,}"),
        ("Mean degree", words.number(known.entries / known.nodes, 1) if known.nodes else "–"),
        ("Features", f"{known.features:,}"),
        ("Classes", f"{known.classes:,}"),
        ("Labelled nodes", _whole(known.labelled)),
        (
            "Edge homophily",
            words.MISSING if known.homophily is None else words.number(known.homophily, 3),
        ),
        ("Operator", _OPERATORS.get(known.operator, known.operator)),
        ("Order of the basis", known.order),
        ("Stored as", known.dtype),
        *((_words(name), value) for name, value in known.notes.items()),
    ]
    if all(name.isdecimal() for name in known.class_names):  # bare numbers tell nothing
        return parts.facts(pairs)
    names = ", ".join(known.class_names[:_MOST_CLASSES])
    hidden = len(known.class_names) - _MOST_CLASSES
    rest = f" and {hidden:,} more" if hidden > 0 else ""
    return joined(
        parts.facts(pairs), tag("p", f"Names of the classes: {names}{rest}.", class_="note")
    )


def protocol(run: RunSummary) -> Markup:
    """How the heads were trained."""
    pairs = [(_PROTOCOL.get(k) or _words(k), _value(v)) for k, v in run.protocol.items()]
    measured = [("Workers", run.measured.workers), ("Threads a worker", run.measured.threads)]
    return parts.facts([*pairs, *((name, _whole(count)) for name, count in measured)])


def settings(run: RunSummary) -> Markup:
    """One column a model, one row a setting."""
    names = list(dict.fromkeys(name for model in run.models for name in model.settings))
    rows = [
        (
            name,
            *(
                words.MISSING
                if name not in model.settings or (name in _OF_FILTERS and not model.has_filter)
                else _value(model.settings[name])
                for model in run.models
            ),
        )
        for name in names
        if name != "model"
    ]
    if not rows:
        return Markup("")
    return parts.table(("Setting", *(model.label for model in run.models)), rows, style="settings")


def origin(run: RunSummary) -> Markup:
    """The machine, the versions, and the fingerprints that tell two runs apart."""
    machine = dict(run.measured.machine)
    memory = machine.pop("memory_bytes", None)
    pairs: list[tuple[object, object]] = [
        *((_words(key), _value(value)) for key, value in machine.items()),
        ("Memory", format_bytes(memory) if isinstance(memory, int | float) else words.MISSING),
        *_versions({k: v for k, v in run.measured.versions.items() if k not in machine}),
        ("Seed", _value(run.protocol.get("seed"))),
        ("Run folder", run.root.resolve().name),
        ("Fingerprint of the content", tag("code", run.content)),
        ("Fingerprint of the recipe", tag("code", run.recipe)),
    ]
    if not machine:
        pairs.insert(0, ("Machine", words.MISSING))
    return parts.facts(pairs)


def _versions(versions: Mapping[str, Any]) -> list[tuple[object, object]]:
    if not versions:
        return [("Versions", words.MISSING)]
    return [(f"{name} version", version) for name, version in versions.items()]


def _words(key: object) -> str:
    """'filter_lr' → 'Filter lr'."""
    text = str(key).replace("_", " ")
    return _NAMES.get(str(key)) or text[:1].upper() + text[1:]


def _whole(value: int | None) -> str:
    return words.MISSING if value is None else f"{value:,}"


def _value(value: object) -> str:
    if value is None:
        return words.MISSING
    if isinstance(value, int) and not isinstance(value, bool):
        return f"{value:,}" if abs(value) >= 10_000 else str(value)
    return f"{value:g}" if isinstance(value, float) else str(value)
