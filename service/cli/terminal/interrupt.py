"""Ctrl-C as a request: finish the current step, save, then stop."""

from __future__ import annotations

import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType

import typer


@contextmanager
def stop_request(*, silent: bool = False, patient: bool = False) -> Iterator[Callable[[], bool]]:
    """Yield a function that tells whether SIGINT or SIGTERM has come.

    A second signal interrupts at once, unless `patient`: torchrun sends each signal twice, and
    kills processes that do not end in time.
    """
    received: list[int] = []

    def notice(number: int, frame: FrameType | None) -> None:
        received.append(number)
        if len(received) > 1 and not patient:
            raise KeyboardInterrupt
        if len(received) == 1 and not silent:
            hint = "" if patient else "; press Ctrl-C again to stop at once"
            typer.echo(f"stopping after this step{hint}", err=True)

    before = {number: signal.signal(number, notice) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield lambda: bool(received)
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
