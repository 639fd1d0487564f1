"""Run a job under the Python that has Ray. Standard library only: it comes before all else.

`ray job submit` starts an entrypoint with the `python` of the cluster's PATH, and that need not be
the one in which Ray and this project are installed, for instance when Ray was started as
`.venv/bin/ray` without activating the environment. The raylet knows better: its command line names
the Python of its workers.
"""

from __future__ import annotations

import importlib.util
import os
import sys
from collections.abc import Iterator
from pathlib import Path

_SETTING = "--python_worker_command="


def use_python_with_ray() -> None:
    """Go on under another Python if this one has no Ray; keep this one if none is found."""
    if importlib.util.find_spec("ray") is not None:
        return
    for python in _candidates():
        if Path(python).exists() and Path(python) != Path(sys.executable):
            os.execv(python, [python, *sys.argv])


def _candidates() -> Iterator[str]:
    for line in _ancestors():
        for argument in line:
            if argument.startswith(_SETTING):
                yield argument.removeprefix(_SETTING).split()[0]
    yield str(Path(__file__).resolve().parents[1] / ".venv" / "bin" / "python")


def _ancestors() -> Iterator[list[str]]:
    """The command lines of the processes that led to this one (Linux; none elsewhere)."""
    process = os.getppid()
    while process > 1:
        try:
            yield Path(f"/proc/{process}/cmdline").read_text().split("\0")
            status = Path(f"/proc/{process}/status").read_text()
        except OSError:
            return
        process = int(status.split("\nPPid:")[1].split()[0])


use_python_with_ray()
