"""Batches and dropout that do not depend on the number of workers.

The training rows are cut into LANES contiguous lanes, and whatever is random is drawn lane by lane
from a stream named by (seed, epoch, step, lane). A worker owns a run of lanes, hence a contiguous
range of rows, and draws for those alone; any number of workers sees the same global batches and the
same masks.
"""

from __future__ import annotations

from collections.abc import Sequence
from enum import IntEnum
from typing import Final

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from pipeline.errors import ConfigError
from pipeline.types import IntArray, Span, split_evenly

LANES: Final = 16
_LEVELS: Final = 1 << 16


class _Use(IntEnum):
    """What a stream of random numbers is for, so that no two uses share one."""

    ORDER = 0
    DROPOUT = 1


def _stream(*name: int) -> np.random.SeedSequence:
    return np.random.SeedSequence(name)


def check_workers(workers: int) -> None:
    """Refuse more workers than there are lanes to share out.

    Raises:
        ConfigError: there are.
    """
    if workers > LANES:
        raise ConfigError(
            f"Training shares its rows among at most {LANES} workers, not {workers}; "
            f"use {LANES} or fewer."
        )


def own_lanes(rank: int, workers: int) -> Span:
    """The lanes of one worker."""
    check_workers(workers)
    return split_evenly(LANES, workers)[rank]


class LaneSampler:
    """The batches of one worker: its part of each global batch, for any epoch.

    Args:
        rows: training rows of all workers together.
        batch_rows: rows of a global batch, at most.
        lanes: the lanes of this worker.
        seed: of the run.
    """

    def __init__(self, rows: int, batch_rows: int, lanes: Span, seed: int) -> None:
        self.rows, self.lanes, self.seed = rows, lanes, seed
        self.steps = -(-rows // batch_rows)
        self.batches = split_evenly(rows, self.steps)
        self._spans = split_evenly(rows, LANES)[lanes.slice]
        self._cuts = _dealt(rows, self.steps)[:, lanes.slice]

    @property
    def own(self) -> Span:
        """This worker's range of the training rows."""
        return Span(self._spans[0].start, self._spans[-1].stop)

    def batch_size(self, step: int) -> int:
        """Rows of global batch `step`, over all workers."""
        return len(self.batches[step])

    def lane_sizes(self, step: int) -> list[int]:
        """How many rows each own lane gives to batch `step`."""
        return [int(n) for n in self._cuts[step + 1] - self._cuts[step]]

    def epoch(self, epoch: int) -> list[IntArray]:
        """For each step the own rows, as ascending positions within `own`; every row once."""
        orders = []
        for lane, span in zip(range(self.lanes.start, self.lanes.stop), self._spans, strict=True):
            random = np.random.default_rng(_stream(_Use.ORDER, self.seed, epoch, lane))
            orders.append(random.permutation(len(span)) + (span.start - self.own.start))
        return [
            # ascending within each lane: stores are read forwards, and sums do not depend on order
            np.concatenate(
                [
                    np.sort(order[a:b])
                    for order, a, b in zip(
                        orders, self._cuts[step], self._cuts[step + 1], strict=True
                    )
                ]
            )
            for step in range(self.steps)
        ]

    def dropout(self, probability: float, epoch: int, step: int) -> LaneDropout:
        """The dropout of this worker's part of a batch."""
        streams = [
            _stream(_Use.DROPOUT, self.seed, epoch, step, lane)
            for lane in range(self.lanes.start, self.lanes.stop)
        ]
        return LaneDropout(probability, streams, self.lane_sizes(step))


def _dealt(rows: int, steps: int) -> npt.NDArray[np.int64]:
    """How many rows each lane has given before each step, [steps + 1, LANES].

    Rows are dealt from the lanes in turn and cut where `split_evenly` cuts the batches, so that
    all batches have the same size to within one row and all lanes share in each.
    """
    sizes = np.array([len(span) for span in split_evenly(rows, LANES)])
    full = rows // LANES * LANES
    starts = np.array([batch.start for batch in split_evenly(rows, steps)] + [rows])
    in_turn = np.minimum(starts, full)[:, None]
    given = in_turn // LANES + (in_turn % LANES > np.arange(LANES))
    # the last round has a row of the longer lanes only
    longer = sizes > rows // LANES
    place = np.cumsum(longer) - 1
    last = longer & (np.maximum(starts - full, 0)[:, None] > place)
    return np.asarray(given + last, dtype=np.int64)


class LaneDropout:
    """Zeroes entries with a probability p and scales the others by 1/(1−p), each lane on its own.

    p is rounded to a multiple of 2^-16, so that one 64-bit random number serves four entries. Calls
    go on in the lanes' streams: layers draw one after another. The masks are the same on every
    device.
    """

    def __init__(
        self, probability: float, streams: Sequence[np.random.SeedSequence], sizes: Sequence[int]
    ) -> None:
        self._threshold = round(probability * _LEVELS)
        self._streams = [np.random.SFC64(stream) for stream in streams] if self._threshold else []
        self._sizes = sizes

    def mask(self, width: int) -> npt.NDArray[np.bool_]:
        """Which entries stay, [rows, width], rows in the order of the lanes."""
        keep = np.empty((sum(self._sizes), width), dtype=np.bool_)
        flat, start = keep.reshape(-1), 0
        for stream, size in zip(self._streams, self._sizes, strict=True):
            count = size * width
            drawn = stream.random_raw(-(-count // 4)).view(np.uint16)[:count]
            np.greater_equal(drawn, self._threshold, out=flat[start : start + count])
            start += count
        return keep

    def __call__(self, x: Tensor) -> Tensor:
        """`x` [rows, width] with entries dropped."""
        assert len(x) == sum(self._sizes), (x.shape, self._sizes)
        if self._threshold == 0:
            return x
        keep = torch.from_numpy(self.mask(x.shape[1])).to(x.device)
        return x * (keep * (_LEVELS / (_LEVELS - self._threshold)))
