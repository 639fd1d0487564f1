"""A connection to Ray: the cluster a job was submitted to, or one of its own on this machine."""

from __future__ import annotations

import logging
import os
import socket
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Final

import ray

from pipeline.cluster.runner import RayRunner
from pipeline.cluster.training import launch_on_ray
from pipeline.console import say
from pipeline.errors import ClusterError, ConfigError
from pipeline.workers import Workers

_SETTINGS: Final = {
    "RAY_USAGE_STATS_ENABLED": "0",
    "RAY_TRAIN_ENABLE_PRINT_PATCH": "0",  # it prints every line of a worker twice
}
_ANSWER_SECONDS: Final = 10
_LOCAL_SETTINGS: Final = {"RAY_TRAIN_ENABLE_PREEMPTION_WATCHER": "0"}  # this machine stays


@contextmanager
def ray_workers(count: int, threads: int | None) -> Iterator[Workers]:
    """Workers on Ray: the cluster's where RAY_ADDRESS names one, else of a private Ray."""
    with ray_session(count):
        share = share_cpus(_node_cpus(), count, threads)
        yield Workers(
            count=count,
            threads=share,
            run_tasks=RayRunner(count, share),
            launch=launch_on_ray(count),
        )


@contextmanager
def ray_session(workers: int) -> Iterator[None]:
    """Be connected to Ray inside the `with`.

    RAY_ADDRESS names the cluster (`ray job submit` sets it). Without it a private Ray is started on
    this machine, with a token of its own and its dashboard on loopback, and ended afterwards.
    """
    if ray.is_initialized():
        yield
        return
    address = os.environ.get("RAY_ADDRESS")
    for name, value in (_SETTINGS if address else _SETTINGS | _LOCAL_SETTINGS).items():
        os.environ.setdefault(name, value)
    if address:
        check_answers(address)
        ray.init(address=address, logging_level=logging.WARNING)
    else:
        say(f"starting a local Ray for {workers} worker{'s' if workers > 1 else ''}")
        ray.init(
            address="local",
            num_cpus=max(workers, os.cpu_count() or 1),
            include_dashboard=True,  # Ray Train asks it for the state of its actors
            dashboard_host="127.0.0.1",
            logging_level=logging.WARNING,
        )
    try:
        yield
    finally:
        ray.shutdown()


def check_answers(address: str) -> None:
    """Refuse an address HOST:PORT where nobody listens: Ray itself would try for minutes.

    Raises:
        ClusterError: nobody does.
    """
    host, _, port = address.rpartition(":")
    if not port.isdigit():
        return  # auto, or a URI: Ray knows what to do
    try:
        socket.create_connection((host, int(port)), timeout=_ANSWER_SECONDS).close()
    except OSError as error:
        raise ClusterError(
            f"No Ray cluster answers at {address} (RAY_ADDRESS): {error.strerror or error}. Start "
            "it, or unset RAY_ADDRESS to use one of this machine's own."
        ) from error


def share_cpus(nodes: Sequence[int], workers: int, threads: int | None) -> int:
    """CPUs for each worker: `threads`, or as many as all workers can have at the same time.

    Args:
        nodes: the CPUs of each node; a worker is on one node.
        workers: how many there are to be.
        threads: what the user asks for.

    Raises:
        ConfigError: they do not fit, and would wait for ever.
    """
    sizes = [threads] if threads else range(max(nodes, default=0), 0, -1)
    for size in sizes:
        if sum(cpus // size for cpus in nodes) >= workers:
            return size
    raise ConfigError(
        f"{workers} workers of {threads or 1} CPUs do not fit on this cluster, whose nodes have "
        f"{', '.join(map(str, nodes)) or 'no'} CPUs; ask for fewer --workers or --threads."
    )


def _node_cpus() -> list[int]:
    return [int(node["Resources"].get("CPU", 0)) for node in ray.nodes() if node["Alive"]]
