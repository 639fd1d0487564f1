"""A real Ray cluster for tests, with ports, folders and a HOME of its own, ended by process id."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
RAY = Path(sys.executable).parent / "ray"


@dataclass(frozen=True)
class Cluster:
    """A running head node."""

    address: str
    dashboard: str
    environment: dict[str, str]


def private_environment(home: Path) -> dict[str, str]:
    """The environment without anything of an outer Ray, with a HOME for Ray's token."""
    kept = {k: v for k, v in os.environ.items() if not k.startswith("RAY_")}
    return {**kept, "HOME": str(home), "RAY_USAGE_STATS_ENABLED": "0", "RAY_AUTH_MODE": "disabled"}


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


@contextmanager
def cluster(home: Path, cpus: int = 2) -> Iterator[Cluster]:
    """A head node started in the repository's root, and nothing left of it afterwards."""
    environment = private_environment(home)
    port, dashboard, agent = free_port(), free_port(), free_port()
    # sockets below the temporary folder: their paths must be short
    with tempfile.TemporaryDirectory(prefix="ray", ignore_cleanup_errors=True) as folder:
        log = Path(folder) / "head.log"
        command = [str(RAY), "start", "--head", "--block", f"--port={port}", f"--num-cpus={cpus}"]
        command += ["--dashboard-host=127.0.0.1", f"--dashboard-port={dashboard}"]
        command += [f"--dashboard-agent-listen-port={agent}", f"--temp-dir={folder}/s"]
        with log.open("w") as output:
            head = subprocess.Popen(
                command,
                cwd=ROOT,
                env=environment,
                stdout=output,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
        try:
            _wait_for(head, dashboard, log)
            address = f"http://127.0.0.1:{dashboard}"
            yield Cluster(f"127.0.0.1:{port}", address, environment)
        finally:
            end(head)


def end(head: subprocess.Popen[Any]) -> None:
    """Kill a process and every one that it has started, all at once."""
    started = descendants(head.pid)
    head.kill()
    head.communicate()
    for process in started:
        with suppress(ProcessLookupError):
            os.kill(process, signal.SIGKILL)


def descendants(process: int) -> list[int]:
    """The ids of the processes that `process` has started, directly or not."""
    listed = subprocess.run(["ps", "-eo", "pid=,ppid="], capture_output=True, text=True, check=True)
    parents = [tuple(map(int, line.split())) for line in listed.stdout.splitlines()]
    found, waiting = list[int](), [process]
    while waiting:
        parent = waiting.pop()
        children = [pid for pid, ppid in parents if ppid == parent]
        found += children
        waiting += children
    return found


def _wait_for(head: subprocess.Popen[bytes], port: int, log: Path) -> None:
    for _ in range(240):
        assert head.poll() is None, log.read_text()[-3000:]
        with socket.socket() as probe:
            if probe.connect_ex(("127.0.0.1", port)) == 0 and "runtime" in log.read_text():
                return
        time.sleep(0.5)
    raise AssertionError(log.read_text()[-3000:])
