"""Ctrl-C as a request: finish the step at hand, write down where it got, then stop."""

from __future__ import annotations

import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType

import typer


@contextmanager
def stop_request(*, silent: bool = False, patient: bool = False) -> Iterator[Callable[[], bool]]:
    """Yield a function that tells whether Ctrl-C (or a polite kill) has come.

    The first one only makes it true. The second interrupts at once, as usual: what was written
    before is still there. One who is `patient` takes no second one (torchrun passes each on
    twice, and kills who does not end in time).
    """
    came: list[int] = []

    def notice(number: int, frame: FrameType | None) -> None:
        came.append(number)
        if len(came) > 1 and not patient:
            raise KeyboardInterrupt
        if len(came) == 1 and not silent:
            once_more = "" if patient else "; once more stops at once"
            typer.echo(f"stopping after this step{once_more}", err=True)

    before = {number: signal.signal(number, notice) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield lambda: bool(came)
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
