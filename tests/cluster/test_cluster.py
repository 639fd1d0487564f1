"""The decisions of pipeline.cluster, without a cluster."""

from __future__ import annotations

import socket

import pytest
from hypothesis import given
from hypothesis import strategies as st
from ray.train import ControllerError, WorkerGroupError

from pipeline.cluster.session import check_answers, share_cpus
from pipeline.cluster.training import raise_what_the_user_can_mend
from pipeline.errors import ClusterError, ConfigError


@pytest.mark.parametrize(
    ("nodes", "workers", "share"),
    [([2], 1, 2), ([2], 2, 1), ([3, 3, 3], 4, 1), ([8, 8], 5, 2), ([16, 2], 3, 5), ([0, 4], 2, 2)],
)
def test_fair_share(nodes: list[int], workers: int, share: int) -> None:
    assert share_cpus(nodes, workers, None) == share


@given(
    nodes=st.lists(st.integers(0, 64), min_size=1, max_size=8),
    workers=st.integers(1, 40),
    threads=st.none() | st.integers(1, 16),
)
def test_what_is_promised_fits(nodes: list[int], workers: int, threads: int | None) -> None:
    try:
        share = share_cpus(nodes, workers, threads)
    except ConfigError:
        assert sum(cpus // (threads or 1) for cpus in nodes) < workers
        return
    assert threads in (None, share)
    assert sum(cpus // share for cpus in nodes) >= workers


def test_more_threads_than_a_node_has_are_refused() -> None:
    with pytest.raises(ConfigError, match=r"2 workers of 4 CPUs .* nodes have 2 CPUs"):
        share_cpus([2], 2, 4)


def test_workers_own_sentence_is_raised_and_nothing_else() -> None:
    with pytest.raises(ConfigError, match="loss is not finite"):
        raise_what_the_user_can_mend(
            WorkerGroupError(
                "…", {0: RuntimeError("gone"), 1: ConfigError("The loss is not finite.")}
            )
        )
    raise_what_the_user_can_mend(WorkerGroupError("…", {0: RuntimeError("gone")}))
    raise_what_the_user_can_mend(ControllerError(RuntimeError("gone")))


def test_address_where_nobody_listens_is_refused_at_once() -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))  # bound but not listening
        with pytest.raises(ClusterError, match="No Ray cluster answers at 127"):
            check_answers(f"127.0.0.1:{taken.getsockname()[1]}")
        taken.listen()
        check_answers(f"127.0.0.1:{taken.getsockname()[1]}")
    check_answers("auto")
