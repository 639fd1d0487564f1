from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pipeline.basis.kernels import equal_entry_chunks
from pipeline.basis.plan import make_plan
from pipeline.errors import ConfigError
from pipeline.types import StoreDtype

GIB = 2**30
WIKI: dict[str, Any] = {
    "nodes": 1_925_342,
    "entries": 606_869_720,
    "features": 600,
    "order": 6,
    "dtype": StoreDtype.FLOAT32,
}


def test_plenty_of_memory_takes_the_best_width() -> None:
    plan = make_plan(**WIKI, memory=64 * GIB, workers=2)
    assert len(plan.blocks) == 10
    assert {len(block) for block in plan.blocks} == {64, 24}
    assert plan.bytes_written == 1_925_342 * 600 * 4 * 7


def test_little_memory_narrows_blocks_and_stays_inside() -> None:
    plan = make_plan(**WIKI, memory=GIB, workers=2)
    assert max(len(block) for block in plan.blocks) < 64
    assert plan.worker_bytes <= GIB


def test_too_little_memory_names_what_would_do() -> None:
    with pytest.raises(ConfigError, match=r"needs (\d+\.\d) MiB") as caught:
        make_plan(**WIKI, memory=100 << 20, workers=1)
    needed = float(str(caught.value).split("needs ")[1].split(" MiB")[0])
    assert len(make_plan(**WIKI, memory=int((needed + 0.1) * 2**20), workers=1).blocks) == 600


def test_every_worker_gets_a_block() -> None:
    plan = make_plan(**{**WIKI, "features": 65}, memory=64 * GIB, workers=4)
    assert [len(block) for block in plan.blocks] == [16, 16, 16, 17]


def test_too_wide_a_block_is_refused() -> None:
    with pytest.raises(ConfigError, match="block_columns 600 needs"):
        make_plan(**WIKI, memory=4 * GIB, workers=1, block_columns=600)


@given(
    features=st.integers(1, 3000),
    memory=st.integers(GIB // 2, 8 * GIB),
    workers=st.integers(0, 64),
    dtype=st.sampled_from(list(StoreDtype)),
)
def test_blocks_cover_every_column_once(
    features: int, memory: int, workers: int, dtype: StoreDtype
) -> None:
    plan = make_plan(
        nodes=10_000,
        entries=1,
        features=features,
        order=2,
        dtype=dtype,
        memory=memory,
        workers=workers,
    )
    columns = [c for block in plan.blocks for c in range(block.start, block.stop)]
    assert columns == list(range(features))
    assert plan.worker_bytes <= memory


@given(degrees=st.lists(st.integers(0, 50), min_size=1, max_size=60), chunks=st.integers(1, 8))
def test_chunks_cover_rows_once_and_are_balanced(degrees: list[int], chunks: int) -> None:
    indptr = [0]
    for degree in degrees:
        indptr.append(indptr[-1] + degree)
    found = equal_entry_chunks(np.array(indptr), chunks)
    assert [row for a, b in found for row in range(a, b)] == list(range(len(degrees)))
    total = indptr[-1] + len(degrees)
    for a, b in found:
        # a chunk exceeds its share by one row at the most
        assert indptr[b] - indptr[a] + (b - a) <= total / chunks + max(degrees) + 1
