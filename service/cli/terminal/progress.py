"""Progress of long work: a bar on a terminal, an occasional line anywhere else."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Protocol

from hasse.service.cli.terminal.output import one_line

QUIET_SECONDS = 2.0  # shorter work prints nothing
SECONDS_BETWEEN_LINES = 5.0
PACE_SECONDS = 10.0  # a pace measured over less is unreliable


class ProgressCallback(Protocol):
    """Called by long work from time to time: the amount done, the total, and a remark."""

    def __call__(self, done: int, total: int, remark: str = "") -> None: ...


class _Pace:
    """Speed of work and the time left, measured since the first report."""

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._started = clock()
        self._first: tuple[float, int] | None = None

    def __call__(self, done: int, total: int) -> str:
        """Return a text such as "24 a second, 3:20 left"; "" before the tenth second."""
        now = self._clock()
        if self._first is None:
            self._first = (now, done)
        first_time, first_done = self._first
        if now - self._started < PACE_SECONDS or not first_done < done < total:
            return ""
        speed = (done - first_done) / (now - first_time)
        minutes, seconds = divmod(round((total - done) / speed), 60)
        hours, minutes = divmod(minutes, 60)
        left = f"{hours}:{minutes:02}:{seconds:02}" if hours else f"{minutes}:{seconds:02}"
        return f"{speed:,.{0 if speed >= 10 else 1}f} a second, {left} left"


@contextmanager
def progress(label: str, *, silent: bool = False) -> Iterator[ProgressCallback]:
    """Yield a callback that shows progress on standard error, or nothing if `silent`."""
    if silent:
        yield lambda done, total, remark="": None
        return
    from rich.console import Console

    console = Console(stderr=True)
    if not console.is_terminal:
        yield LineProgress(label)
        return
    from rich import progress as rich

    columns = (
        rich.TextColumn("{task.description}"),
        rich.BarColumn(),
        rich.MofNCompleteColumn(),
        rich.TextColumn("{task.fields[pace]}"),
    )
    pace = _Pace(time.monotonic)
    with rich.Progress(*columns, console=console, transient=True) as bar:
        task = bar.add_task(label, total=None, pace="")

        def report(done: int, total: int, remark: str = "") -> None:
            text = f"{label}, {remark}" if remark else label
            bar.update(task, completed=done, total=total, description=text, pace=pace(done, total))

        yield report


def tell(line: str) -> None:
    """Print one line on standard error, above a progress bar if there is one.

    The bar replaces `sys.stderr`, and `typer.echo` would bypass it.
    """
    sys.stderr.write(f"{one_line(line)}\n")


class LineProgress:
    """Progress for logs and pipes: a few whole lines, none for quick work."""

    def __init__(self, label: str, clock: Callable[[], float] = time.monotonic) -> None:
        self.label = label
        self.clock = clock
        self.pace = _Pace(clock)
        self.started = clock()
        self.next = self.started + QUIET_SECONDS

    def __call__(self, done: int, total: int, remark: str = "") -> None:
        """Print `label: done of total (share), remark, pace` if it is time for another line."""
        now, pace = self.clock(), self.pace(done, total)
        if now < self.next and not (done >= total and self.next > self.started + QUIET_SECONDS):
            return
        self.next = now + SECONDS_BETWEEN_LINES
        share = f" ({done / total:.0%})" if total else ""
        more = "".join(f", {text}" for text in (remark, pace) if text)
        tell(f"{self.label}: {done:,} of {total:,}{share}{more}")
