"""How far a long piece of work is: a bar on a terminal, a line now and then anywhere else."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Protocol

QUIET_SECONDS = 2.0  # work that ends within this says nothing
BETWEEN_LINES = 5.0


class Report(Protocol):
    """What long work calls now and then: how much is done, of how much, and a remark."""

    def __call__(self, done: int, total: int, remark: str = "") -> None: ...


@contextmanager
def progress(label: str, *, silent: bool = False) -> Iterator[Report]:
    """Yield a callback that shows progress on standard error, or nothing if `silent`.

    Standard output stays free for results, so that it can be piped at any time.
    """
    if silent:
        yield lambda done, total, remark="": None
        return
    from rich.console import Console

    console = Console(stderr=True)
    if not console.is_terminal:
        yield Lines(label)
        return
    from rich import progress as rich

    columns = (
        rich.TextColumn("{task.description}"),
        rich.BarColumn(),
        rich.MofNCompleteColumn(),
        rich.TimeElapsedColumn(),
        rich.TextColumn("left"),
        rich.TimeRemainingColumn(),
    )
    with rich.Progress(*columns, console=console, transient=True) as shown:
        task = shown.add_task(label, total=None)

        def report(done: int, total: int, remark: str = "") -> None:
            described = f"{label}, {remark}" if remark else label
            shown.update(task, completed=done, total=total, description=described)

        yield report


def tell(line: str) -> None:
    """Print a line on standard error, above a bar that is shown there.

    The bar stands in for `sys.stderr`, which `typer.echo` writes around.
    """
    sys.stderr.write(f"{line}\n")


class Lines:
    """Progress for logs and pipes: whole lines, few of them, none for quick work."""

    def __init__(self, label: str, clock: Callable[[], float] = time.monotonic) -> None:
        self.label = label
        self.clock = clock
        self.started = clock()
        self.next = self.started + QUIET_SECONDS

    def __call__(self, done: int, total: int, remark: str = "") -> None:
        """Print `label: done of total (share), remark` if it is time for another line."""
        now = self.clock()
        if now < self.next and not (done >= total and self.next > self.started + QUIET_SECONDS):
            return
        self.next = now + BETWEEN_LINES
        share = f" ({done / total:.0%})" if total else ""
        tell(f"{self.label}: {done:,} of {total:,}{share}{remark and f', {remark}'}")
