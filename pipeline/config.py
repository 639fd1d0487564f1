"""The configuration of each stage: frozen, keyword-only, checked when made."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final, Literal, get_args

from pipeline.errors import ConfigError
from pipeline.types import Operator, StoreDtype

GraphShape = Literal["wiki", "pokec"]

MODELS: Final = ("gscnet", "mlp")
"""The heads that `train` knows, in the order of its tables."""


def _require(condition: bool, config: object, name: str, must: str) -> None:
    if not condition:
        value = getattr(config, name)
        raise ConfigError(f"{type(config).__name__}.{name} must be {must}, not {value!r}.")


@dataclass(frozen=True, kw_only=True)
class SynthConfig:
    """A lake generated in the shape of a real graph."""

    like: GraphShape
    """Which graph's size, classes and difficulty to imitate."""
    out: Path
    """The lake's folder: edges/ and nodes/ are made in it."""
    scale: float = 1.0
    """Share of the real graph's nodes and edges; the mean degree stays."""
    seed: int = 0
    """Everything random follows from it."""
    overwrite: bool = False
    """Replace a lake of another recipe in `out`."""

    def __post_init__(self) -> None:
        _require(self.like in get_args(GraphShape), self, "like", "wiki or pokec")
        _require(0 < self.scale <= 1, self, "scale", "above 0 and at most 1")
        _require(0 <= self.seed < 2**32, self, "seed", "between 0 and 2^32 − 1")


@dataclass(frozen=True, kw_only=True)
class IngestConfig:
    """From Parquet tables to a GraphStore."""

    edges: str
    """URI of the edge table: a Parquet file or a folder of them."""
    nodes: str
    """URI of the node table."""
    out: Path
    """The store's folder."""
    src: str = "src"
    """Edge column: the id of one end."""
    dst: str = "dst"
    """Edge column: the id of the other end."""
    id: str = "id"
    """Node column: the node's id, unique."""
    features: str = "x"
    """Node column: a list of numbers of one length."""
    label: str = "y"
    """Node column: integer or string; null and −1 mean unlabelled."""
    shard_entries: int = 16_000_000
    """About how many directed entries a CSR shard may hold: bounds the memory of a worker."""
    overwrite: bool = False
    """Replace a store of another recipe in `out`."""

    def __post_init__(self) -> None:
        for name in ("src", "dst", "id", "features", "label"):
            _require(bool(getattr(self, name)), self, name, "the name of a column")
        _require(self.shard_entries >= 1, self, "shard_entries", "1 or more")
        _require(self.src != self.dst, self, "dst", "another column than src")


@dataclass(frozen=True, kw_only=True)
class PropagateConfig:
    """From GraphStore to BasisStore: T_k(P) X for k = 0..order."""

    store: Path
    """The GraphStore."""
    out: Path
    """The BasisStore's folder."""
    order: int
    """K, the highest degree that a filter on this basis can have."""
    operator: Operator = Operator.SYM
    """sym is P; sym-loops is P̃, with self-loops."""
    dtype: StoreDtype = StoreDtype.FLOAT32
    """What the basis is stored as; float16 has a scale for each column."""
    block_columns: int | None = None
    """Columns propagated together; None lets the plan choose."""
    memory: int | None = None
    """Bytes a worker may use; None takes what is free now."""
    threads: int = 1
    """Threads of each worker."""
    overwrite: bool = False
    """Replace a basis of another recipe in `out`."""

    def __post_init__(self) -> None:
        _require(0 <= self.order <= 100, self, "order", "between 0 and 100")
        _require(
            self.block_columns is None or self.block_columns >= 1,
            self,
            "block_columns",
            "1 or more",
        )
        _require(self.memory is None or self.memory > 0, self, "memory", "above 0")
        _require(self.threads >= 1, self, "threads", "1 or more")


@dataclass(frozen=True, kw_only=True)
class HeadConfig:
    """One architecture and its optimiser, the same for every split."""

    model: str
    """gscnet or mlp."""
    K1: int = 2
    """Degree of the positive part Σ α_i (2I−L)^i (gscnet)."""
    K2: int = 2
    """Degree of the negative part Σ β_j L^j (gscnet)."""
    hidden: int = 64
    """Width of the hidden layers."""
    layers: int = 2
    """Linear layers; 1 is a linear classifier."""
    lr: float = 0.01
    """Adam's learning rate of the MLP."""
    filter_lr: float = 0.05
    """Adam's learning rate of α and β."""
    weight_decay: float = 0.0
    """Of the MLP."""
    filter_weight_decay: float = 0.0
    """Of α and β."""
    dropout: float = 0.2
    """Before each linear layer."""

    def __post_init__(self) -> None:
        _require(self.model in MODELS, self, "model", f"one of {', '.join(MODELS)}")
        for name in ("K1", "K2"):
            _require(getattr(self, name) >= 0, self, name, "0 or more")
        for name in ("hidden", "layers"):
            _require(getattr(self, name) >= 1, self, name, "1 or more")
        for name in ("lr", "filter_lr"):
            _require(0 < getattr(self, name) < math.inf, self, name, "above 0 and finite")
        for name in ("weight_decay", "filter_weight_decay"):
            _require(0 <= getattr(self, name) < math.inf, self, name, "0 or more and finite")
        _require(0 <= self.dropout < 1, self, "dropout", "at least 0 and below 1")

    @property
    def order(self) -> int:
        """The highest hop this head reads from the basis."""
        return max(self.K1, self.K2) if self.model == "gscnet" else 0


def default_batch_rows(training_rows: int) -> int:
    """Ten steps an epoch, within 250 and 10,000 rows a step."""
    return min(10_000, max(250, training_rows // 10))


@dataclass(frozen=True, kw_only=True)
class TrainConfig:
    """From BasisStore to Run: heads × splits."""

    basis: Path
    """The BasisStore."""
    out: Path
    """The run's folder."""
    heads: tuple[HeadConfig, ...]
    """The architectures to compare."""
    splits: int = 5
    """How many random splits of the labelled nodes."""
    seed: int = 0
    """Splits, weights, order of rows and dropout follow from it."""
    epochs: int = 100
    """At most so many passes over the training rows."""
    patience: int = 20
    """Stop after so many epochs without a better validation accuracy."""
    batch_rows: int | None = None
    """Rows of a global batch, whatever the number of workers; None: see `default_batch_rows`."""
    threads: int = 1
    """Threads of each worker."""
    memory: int | None = None
    """Bytes a worker may use for rows held in memory; None: half its share of what is free."""
    overwrite: bool = False
    """Replace a run of another recipe in `out`."""
    notes: dict[str, str] = field(default_factory=dict)
    """What is known of the data, for the report."""

    def __post_init__(self) -> None:
        _require(len(self.heads) > 0, self, "heads", "at least one model")
        names = [head.model for head in self.heads]
        _require(len(set(names)) == len(names), self, "heads", "different models")
        for name in ("splits", "epochs", "patience", "threads"):
            _require(getattr(self, name) >= 1, self, name, "1 or more")
        _require(self.batch_rows is None or self.batch_rows >= 1, self, "batch_rows", "1 or more")
        _require(0 <= self.seed < 2**32, self, "seed", "between 0 and 2^32 − 1")
        _require(self.memory is None or self.memory > 0, self, "memory", "above 0")
