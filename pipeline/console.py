"""What a person sees while a stage runs: lines and progress on stderr, results on stdout."""

from __future__ import annotations

import errno
import sys
import time
from collections.abc import Callable
from types import TracebackType

from pipeline.errors import GscnetError


def say(message: str) -> None:
    """Print one line of progress on stderr."""
    print(message, file=sys.stderr, flush=True)


def warn(message: str) -> None:
    """Print a warning on stderr."""
    say(f"warning: {message}")


def format_bytes(count: float) -> str:
    """1536 → '1.5 KiB'."""
    for unit in ("B", "KiB", "MiB", "GiB"):
        if abs(count) < 1024:
            return f"{count:.0f} {unit}" if unit == "B" else f"{count:.1f} {unit}"
        count /= 1024
    return f"{count:.1f} TiB"


def format_seconds(seconds: float) -> str:
    """75.3 → '1 min 15 s'; short times keep a decimal."""
    if seconds < 60:
        return f"{seconds:.1f} s"
    minutes, rest = divmod(round(seconds), 60)
    if minutes < 60:
        return f"{minutes} min {rest:02d} s"
    hours, minutes = divmod(minutes, 60)
    return f"{hours} h {minutes:02d} min"


class Progress:
    """A count towards a total on stderr, with rate and time left.

    On a terminal one line is redrawn; in a log a line appears at most every `log_every` seconds.
    """

    def __init__(self, label: str, total: int, unit: str, *, log_every: float = 5.0) -> None:
        self.label, self.total, self.unit = label, total, unit
        self.done = 0
        self._live = sys.stderr.isatty()
        self._interval = 0.2 if self._live else log_every
        self._start = self._last = time.monotonic()

    def __enter__(self) -> Progress:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if self._live:
            print(file=sys.stderr)

    def advance(self, count: int = 1, note: str = "") -> None:
        """Count `count` more units as done; `note` is shown behind the rate."""
        self.done += count
        now = time.monotonic()
        finished = self.done >= self.total
        if now - self._last < self._interval and not (finished and self._live):
            return
        self._last = now
        elapsed = max(now - self._start, 1e-9)
        rate = self.done / elapsed
        left = (self.total - self.done) / rate if rate else 0.0
        line = (
            f"  {self.label}: {self.done:,}/{self.total:,} {self.unit}, "
            f"{rate:,.3g} {self.unit}/s, {format_seconds(left)} left"
        )
        line = f"{line}, {note}" if note else line
        print(
            f"\r{line:<79}" if self._live else line,
            end="" if self._live else "\n",
            file=sys.stderr,
            flush=True,
        )


def guarded(action: Callable[[], int]) -> int:
    """Run `action`; errors that a user can mend become one sentence and exit code 2."""
    try:
        return action()
    except GscnetError as error:
        say(f"error: {error}")
    except OSError as error:
        where = f": {error.filename}" if error.filename else ""
        advice = " Make room and run it again: finished work is kept."
        say(
            f"error: {error.strerror or error}{where}."
            f"{advice if error.errno in (errno.ENOSPC, errno.EDQUOT) else ''}"
        )
    except KeyboardInterrupt:
        say("interrupted; run the same command again to go on.")
        return 130
    return 2
