"""The published accuracies and times on the real large graphs (the paper's table 6)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

SOURCE: Final = "Rethinking the Graph Polynomial Filter via Positive and Negative Coupling Analysis"
"""The paper's title."""


@dataclass(frozen=True)
class Published:
    """One model's line: per cent, the half width of its 95 % interval, seconds where given."""

    label: str
    accuracy: float
    interval: float
    seconds: float | None


@dataclass(frozen=True)
class PublishedGraph:
    """A real graph and the figures for it. `edges` counts as the paper does."""

    name: str
    nodes: int
    edges: int
    models: tuple[Published, ...]


PUBLISHED: Final[dict[str, PublishedGraph]] = {
    "pokec": PublishedGraph(
        name="Pokec",
        nodes=1_632_803,
        edges=30_622_564,
        models=(
            Published("MLP", 62.37, 0.02, 24.6),
            Published("GPRGNN", 80.74, 0.22, 35.7),
            Published("BernNet", 81.67, 0.17, 483.0),
            Published("ChebNetII", 82.33, 0.28, 58.3),
            Published("OptBasisGNN", 82.83, 0.04, None),
            Published("GSCNet", 81.97, 0.17, 24.0),
        ),
    ),
    "wiki": PublishedGraph(
        name="Wiki",
        nodes=1_925_342,
        edges=303_434_860,
        models=(
            Published("MLP", 37.38, 0.21, 31.6),
            Published("GPRGNN", 58.73, 0.34, 46.7),
            Published("BernNet", 59.02, 0.29, 692.0),
            Published("ChebNetII", 60.95, 0.39, 70.4),
            Published("OptBasisGNN", 61.85, 0.03, None),
            Published("GSCNet", 59.62, 0.29, 31.2),
        ),
    ),
}
"""By the name that `gscnet synth --like` takes."""
