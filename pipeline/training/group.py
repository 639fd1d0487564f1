"""The workers that train one head together."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Protocol

import torch
from torch import Tensor, nn


class WorkerGroup(Protocol):
    """Equal workers, each of which runs the same program on its own rows."""

    @property
    def rank(self) -> int:
        """This worker's number, from 0."""
        ...

    @property
    def size(self) -> int:
        """How many workers there are."""
        ...

    def sum_(self, tensor: Tensor) -> None:
        """Replace `tensor` by its sum over all workers, to the bit the same in all of them."""
        ...


@dataclass(frozen=True)
class Solo:
    """A worker on its own."""

    rank: int = 0
    size: int = 1

    def sum_(self, tensor: Tensor) -> None:
        """Leave `tensor` as it is."""


class TorchDistributed:
    """The default process group of torch.distributed (gloo, nccl), set up by the caller."""

    def __init__(self) -> None:
        assert torch.distributed.is_initialized(), "the caller sets up the process group"
        self._rank = torch.distributed.get_rank()
        self._size = torch.distributed.get_world_size()

    @property
    def rank(self) -> int:
        """This process's rank."""
        return self._rank

    @property
    def size(self) -> int:
        """The number of processes."""
        return self._size

    def sum_(self, tensor: Tensor) -> None:
        """All-reduce `tensor` in place."""
        torch.distributed.all_reduce(tensor)


class FlatGradients:
    """The gradients of all parameters as views of one buffer, summed over workers in one message.

    The optimiser must not set gradients to None: clear them here.
    """

    def __init__(self, parameters: Iterable[nn.Parameter]) -> None:
        found = list(parameters)
        self.buffer = torch.zeros(sum(p.numel() for p in found), device=found[0].device)
        parts = torch.split(self.buffer, [p.numel() for p in found])
        for p, part in zip(found, parts, strict=True):
            p.grad = part.view_as(p)

    def clear(self) -> None:
        """Start a step."""
        self.buffer.zero_()

    def sum_over(self, group: WorkerGroup) -> None:
        """Add up what the workers have found."""
        group.sum_(self.buffer)
