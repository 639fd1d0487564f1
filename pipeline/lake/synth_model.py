"""The random graph behind `gscnet synth`: latent groups, heavy-tailed degrees, weak features.

Nodes stand in a hidden order, from the oldest at position 0 on. A node of group g = position mod G
carries the label g mod C with probability `purity`, another one otherwise: no classifier that
sees only groups can be right more often. Every pair of linked nodes belongs to the younger one,
its owner, which draws

    target group h  ~ affinity[g]                       (who links to whom)
    rank within h   = ⌊earlier · U²⌋,  U uniform         (density ∝ rank^-1/2: old nodes are hubs)

so pairs of different owners differ by construction, and each file of edges, which holds a range of
owners, is made without a look at any other. A share of the pairs is linked both ways.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import Final

import numpy as np
import numpy.typing as npt

from pipeline.config import GraphShape
from pipeline.types import FloatArray, Span

Int32Array = npt.NDArray[np.int32]
Int64Array = npt.NDArray[np.int64]
Float64Array = npt.NDArray[np.float64]

MIN_NODES: Final = 200
MAX_DENSITY: Final = 0.05
"""Share of the possible directed pairs that may be edges: caps the degree of tiny graphs."""
MAX_OWNED_SHARE: Final = 1 / 6
"""Share of all older nodes that an owner may link to: below what its favourite group can offer."""
LATENT: Final = 24
"""Dimensions that carry the features' variance, as the topics of a text would."""
ISOTROPIC_NOISE: Final = 0.1
"""Standard deviation, of a total of 1, that is independent in every column."""
CHOICES: Final = 4096
"""Cells of the table that turns a uniform integer into a target group."""
PIECE_PAIRS: Final = 200_000
"""Pairs drawn together: few enough for a processor's cache."""
AFFINE_ROUNDS: Final = 50
"""After so many collisions an owner links to any older node: sampling then surely ends."""


@dataclass(frozen=True, kw_only=True)
class Shape:
    """A real graph's size and how hard it is to classify."""

    nodes: int
    edges: int
    features: int
    classes: int
    homophily: float
    """Share of the edges whose two ends have the same label."""
    mutual: float
    """Share of the linked pairs that are linked both ways."""
    groups: int
    """A multiple of `classes`."""
    inward: int
    """So many groups link to themselves; the others stand in pairs that link to each other."""
    background: float
    """Share of the pairs whose target group is any group."""
    purity: float
    """Probability that a node has its group's label: the ceiling of the accuracy."""
    signal: float
    """Distance of a group's mean from the origin, in standard deviations of the latent noise."""
    activity_spread: float
    """Standard deviation of the logarithm of the number of pairs a node owns."""


SHAPES: Final[dict[GraphShape, Shape]] = {
    "wiki": Shape(
        nodes=1_925_342,
        edges=303_434_860,
        features=600,
        classes=5,
        homophily=0.39,
        mutual=0.1,
        groups=5,
        inward=3,
        background=0.05,
        purity=0.61,
        signal=1.17,
        activity_spread=1.0,
    ),
    "pokec": Shape(
        nodes=1_632_803,
        edges=30_622_564,
        features=65,
        classes=2,
        homophily=0.45,
        mutual=0.373,
        groups=12,
        inward=4,
        background=0.2,
        purity=0.83,
        signal=1.42,
        activity_spread=0.8,
    ),
}


def generator(seed: int, stream: str, part: int = 0) -> np.random.Generator:
    """Random numbers of their own for each purpose and file, whoever makes it and when."""
    words = [seed, int.from_bytes(stream.encode(), "big"), part]
    return np.random.Generator(np.random.PCG64(np.random.SeedSequence(words)))


def same_majority_share(shape: Shape) -> float:
    """The share s of pairs between groups of one majority label that gives the wanted homophily.

    Two ends whose groups have the same majority agree with probability
    a₁ = q² + (1−q)²/(C−1), others with a₀ = 2q(1−q)/(C−1) + (1−q)²(C−2)/(C−1)²;
    s solves s·a₁ + (1−s)·a₀ = homophily.
    """
    q, others = shape.purity, shape.classes - 1
    same = q**2 + (1 - q) ** 2 / others
    different = 2 * q * (1 - q) / others + (1 - q) ** 2 * (others - 1) / others**2
    return (shape.homophily - different) / (same - different)


def affinity(shape: Shape) -> Float64Array:
    """T[g, h]: the probability that an owner of group g links to group h; T = Tᵀ, rows sum to 1.

    Inward groups prefer themselves (low frequencies of the graph), paired groups their partner of
    another label (high frequencies) and, to the share τ that makes up `same_majority_share`,
    themselves.
    """
    count, background = shape.groups, shape.background
    at_home = (same_majority_share(shape) - background / shape.classes) / (1 - background)
    inward_share = shape.inward / count
    tau = (at_home - inward_share) / (1 - inward_share)
    assert 0 <= tau <= 1, "no affinity gives this homophily with these groups"
    preferred = np.eye(count)
    for first in range(shape.inward, count, 2):
        preferred[first : first + 2, first : first + 2] = [[tau, 1 - tau], [1 - tau, tau]]
    return (1 - background) * preferred + background / count


def _choice_table(probabilities: Float64Array) -> Int64Array:
    """Row g repeats each group h in about CHOICES · T[g, h] of its cells."""
    cells = (np.arange(CHOICES) + 0.5) / CHOICES
    table = [np.searchsorted(np.cumsum(row), cells) for row in probabilities]
    return np.minimum(table, len(probabilities) - 1).astype(np.int64)


@dataclass(frozen=True)
class Sizes:
    """The counts of a scaled graph: edges = pairs + mutual pairs."""

    nodes: int
    edges: int
    mutual: int

    @property
    def pairs(self) -> int:
        """Unordered pairs of linked nodes."""
        return self.edges - self.mutual


def scaled_sizes(shape: Shape, scale: float) -> Sizes:
    """Nodes and edges at `scale`; the mean degree stays except where a tiny graph has no room."""
    scale = max(scale, MIN_NODES / shape.nodes)
    nodes = round(scale * shape.nodes)
    edges = min(round(scale * shape.edges), int(MAX_DENSITY * nodes * (nodes - 1)))
    return Sizes(nodes, edges, round(edges * shape.mutual / (1 + shape.mutual)))


def owned_pairs(sizes: Sizes, shape: Shape, rng: np.random.Generator) -> Int64Array:
    """The pairs of position p are offsets[p] … offsets[p + 1]; their number is log-normal.

    Nobody owns more than MAX_OWNED_SHARE of the nodes before it (rounded up), so there is always
    a partner left; what the cap takes away is spread over all by a common factor.
    """
    activity = rng.lognormal(0.0, shape.activity_spread, sizes.nodes)
    room = np.floor(np.arange(sizes.nodes) * MAX_OWNED_SHARE)
    room[: shape.groups] = 0  # from here on every group has a member before the owner
    low, high = 0.0, float(sizes.nodes) / activity.min()
    for _ in range(60):
        middle = (low + high) / 2
        enough = np.minimum(activity * middle, room).sum() >= sizes.pairs
        low, high = (low, middle) if enough else (middle, high)
    ends = np.cumsum(np.minimum(activity * high, room))
    offsets = np.zeros(sizes.nodes + 1, dtype=np.int64)
    offsets[1:] = np.floor(ends * (sizes.pairs / ends[-1]))
    offsets[-1] = sizes.pairs
    return offsets


@dataclass(frozen=True)
class Plan:
    """What every file needs: arrays of the size of the nodes, the same in every process."""

    shape: Shape
    seed: int
    sizes: Sizes
    offsets: Int64Array
    """The pairs of each position, see `owned_pairs`."""
    id_of_position: Int32Array
    """A random permutation: ids tell neither group nor degree."""
    position_of_id: Int32Array
    """Its inverse."""
    choices: Int64Array
    """Target groups by group and uniform integer."""

    def owners(self, part: int, parts: int) -> Span:
        """The positions whose pairs file `part` of `parts` holds: about equal numbers of pairs."""
        pairs = self.sizes.pairs
        first, last = np.searchsorted(
            self.offsets, [pairs * part // parts, pairs * (part + 1) // parts]
        )
        return Span(int(first), int(last))

    def mutual_before(self, pairs: int) -> int:
        """How many of the first `pairs` pairs are mutual."""
        return self.sizes.mutual * pairs // self.sizes.pairs


@lru_cache(maxsize=1)
def make_plan(like: GraphShape, scale: float, seed: int) -> Plan:
    """The plan of a graph; the last one is kept, since a process makes many files of one graph."""
    shape = SHAPES[like]
    sizes = scaled_sizes(shape, scale)
    id_of_position = generator(seed, "ids").permutation(sizes.nodes).astype(np.int32)
    position_of_id = np.empty_like(id_of_position)
    position_of_id[id_of_position] = np.arange(sizes.nodes, dtype=np.int32)
    return Plan(
        shape=shape,
        seed=seed,
        sizes=sizes,
        offsets=owned_pairs(sizes, shape, generator(seed, "degrees")),
        id_of_position=id_of_position,
        position_of_id=position_of_id,
        choices=_choice_table(affinity(shape)),
    )


def _draw_targets(plan: Plan, owner: Int64Array, rng: np.random.Generator) -> Int64Array:
    """The group that each owner links to, by affinity."""
    cell = rng.integers(0, CHOICES, len(owner), dtype=np.uint16)
    target: Int64Array = plan.choices.ravel()[owner % plan.shape.groups * CHOICES + cell]
    return target


def _draw_partners(
    groups: int, owner: Int64Array, target: Int64Array, rng: np.random.Generator
) -> Int64Array:
    """A member of each target group from before the owner, rather an old one."""
    earlier = (owner - target + groups - 1) // groups
    age = rng.random(len(owner))
    age *= age
    age *= earlier
    partner = age.astype(np.int64)
    partner *= groups
    partner += target
    return partner


def draw_pairs(plan: Plan, owners: Span, rng: np.random.Generator) -> tuple[Int64Array, Int64Array]:
    """All pairs of a range of owners as two arrays of positions, each pair once."""
    nodes, groups = plan.sizes.nodes, plan.shape.groups
    counts = np.diff(plan.offsets[owners.start : owners.stop + 1])
    owner = np.repeat(np.arange(owners.start, owners.stop), counts)
    missing, target = owner, _draw_targets(plan, owner, rng)
    keys = np.empty(0, dtype=np.int64)  # owner · nodes + partner, sorted
    rounds = 0
    while len(missing):
        if rounds < AFFINE_ROUNDS:
            partner = _draw_partners(groups, missing, target, rng)
        else:
            partner = (rng.random(len(missing)) * missing).astype(np.int64)
        keys, repeated = _merge(keys, missing * nodes + partner)
        missing, partner = np.divmod(repeated, nodes)
        # the target stays: were it drawn again, crowded groups would lose links to the others
        target = partner % groups
        rounds += 1
    return owner, keys - owner * nodes


def _merge(keys: Int64Array, more: Int64Array) -> tuple[Int64Array, Int64Array]:
    """The distinct keys of both, sorted, and those of `more` that were there already."""
    more.sort()
    place = np.searchsorted(keys, more)
    repeated = np.searchsorted(keys, more, side="right") > place
    repeated[1:] |= more[1:] == more[:-1]
    new = ~repeated
    return np.insert(keys, place[new], more[new]), more[repeated]


def draw_edges(plan: Plan, part: int, parts: int) -> tuple[Int64Array, Int64Array]:
    """The directed edges (src, dst) of one file, as ids, made piece by piece.

    Every pair is an edge in a random direction; a fixed number of random pairs, proportional to
    the piece's pairs, are edges in the other direction too.
    """
    rng = generator(plan.seed, "edges", part)
    pieces = 1 + plan.sizes.pairs // parts // PIECE_PAIRS
    edges = [
        _draw_piece(plan, plan.owners(part * pieces + i, parts * pieces), rng)
        for i in range(pieces)
    ]
    src, dst = zip(*edges, strict=True)
    return np.concatenate(src, dtype=np.int64), np.concatenate(dst, dtype=np.int64)


def _draw_piece(
    plan: Plan, owners: Span, rng: np.random.Generator
) -> tuple[Int32Array, Int32Array]:
    """The directed edges of a range of owners, as ids."""
    owner, partner = draw_pairs(plan, owners, rng)
    one, other = plan.id_of_position[owner], plan.id_of_position[partner]
    forward = rng.integers(0, 2, len(one), dtype=np.uint8).view(np.bool_)
    src, dst = np.where(forward, one, other), np.where(forward, other, one)
    first, last = plan.offsets[[owners.start, owners.stop]]
    mutual = plan.mutual_before(int(last)) - plan.mutual_before(int(first))
    back = rng.choice(len(one), mutual, replace=False, shuffle=False)
    return np.concatenate([src, dst[back]]), np.concatenate([dst, src[back]])


def draw_nodes(plan: Plan, ids: Span, part: int) -> tuple[FloatArray, Int64Array]:
    """The features and labels of a range of ids."""
    rng = generator(plan.seed, "nodes", part)
    group = plan.position_of_id[ids.slice] % plan.shape.groups
    return _draw_features(plan, group, rng), _draw_labels(plan.shape, group, rng)


def _draw_labels(shape: Shape, group: Int32Array, rng: np.random.Generator) -> Int64Array:
    """The group's label with probability `purity`, else one of the others."""
    strays = rng.random(len(group)) >= shape.purity
    shift = rng.integers(1, shape.classes, len(group)) * strays
    return (group + shift) % shape.classes


def _draw_features(plan: Plan, group: Int32Array, rng: np.random.Generator) -> FloatArray:
    """X = (signal · mean[group] + ε) E + noise: `LATENT` dimensions embedded in all columns."""
    means, embedding = _feature_maps(plan.shape, plan.seed)
    latent = rng.standard_normal((len(group), LATENT), dtype=np.float32)
    latent += means[group]
    x = rng.standard_normal((len(group), plan.shape.features), dtype=np.float32)
    x *= ISOTROPIC_NOISE
    # not latent @ embedding: a BLAS may round otherwise with another number of threads
    x += np.einsum("ik,kf->if", latent, embedding)
    return x


def _feature_maps(shape: Shape, seed: int) -> tuple[FloatArray, FloatArray]:
    """Orthogonal means of the groups, and E with a decaying spectrum and columns of equal norm."""
    rng = generator(seed, "features")
    directions = np.linalg.qr(rng.standard_normal((LATENT, LATENT)))[0]
    means = shape.signal * directions[: shape.groups]
    embedding = rng.standard_normal((LATENT, shape.features))
    embedding *= (1 + np.arange(LATENT)[:, None]) ** -0.5
    embedding *= np.sqrt(1 - ISOTROPIC_NOISE**2) / np.linalg.norm(embedding, axis=0)
    return means.astype(np.float32), embedding.astype(np.float32)
