"""Interruption of long commands: Ctrl-C finishes the current step and saves."""

from __future__ import annotations

import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType

import typer

from hasse.service.cli.terminal.errors import CommandError, Interrupted

CONTINUE_MESSAGE = "the same command goes on from there"


@contextmanager
def stop_request(*, silent: bool = False, patient: bool = False) -> Iterator[Callable[[], bool]]:
    """Yield a function that returns whether SIGINT or SIGTERM was received.

    A second signal interrupts at once, unless `patient`: torchrun sends each signal twice, and
    kills processes that do not end in time.
    """
    received: list[int] = []

    def handle(number: int, frame: FrameType | None) -> None:
        received.append(number)
        if len(received) > 1 and not patient:
            raise KeyboardInterrupt
        if len(received) == 1 and not silent:
            hint = "" if patient else "; press Ctrl-C again to stop at once"
            typer.echo(f"stopping after this step{hint}", err=True)

    previous = {number: signal.signal(number, handle) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield lambda: bool(received)
    finally:
        for number, handler in previous.items():
            signal.signal(number, handler)


@contextmanager
def stoppable(
    message: Callable[[], str],
    stop_exception: type[Exception],
    *,
    silent: bool = False,
    patient: bool = False,
) -> Iterator[Callable[[], bool]]:
    """Yield a function that returns whether work has to stop.

    When the work then raises `stop_exception`, print it with the message.
    """
    with stop_request(silent=silent, patient=patient) as stop:
        try:
            yield stop
        except stop_exception as error:
            raise Interrupted(f"{error}; {message()}") from None


@contextmanager
def consistent_options() -> Iterator[None]:
    """Raise CommandError for a combination of options that a configuration refuses."""
    try:
        yield
    except ValueError as error:
        raise CommandError(f"these options do not go together: {error}") from None
