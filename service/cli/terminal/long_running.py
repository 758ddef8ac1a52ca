"""Progress and interruption of long commands: Ctrl-C finishes the current step, and saves."""

from __future__ import annotations

import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType
from typing import TYPE_CHECKING, TypeVar

import typer

from hasse.service.cli.terminal.errors import CommandError, Interrupted
from hasse.service.cli.terminal.progress import ProgressCallback, tell

if TYPE_CHECKING:
    from hasse.models.training.run import Progress

Measured = TypeVar("Measured")
AGAIN = "the same command goes on from there"


def training_report(
    bar: ProgressCallback, epochs: int, describe: Callable[[Measured], str]
) -> Callable[[Progress[Measured]], None]:
    """Return a callback for a training; `describe` formats the measurements."""

    def show(now: Progress[Measured]) -> None:
        place = f"epoch {now.epoch + 1} of {epochs}"
        if now.measurement is None:
            bar(now.steps_done, epochs * now.steps, f"{place}, loss {now.loss:.3f}")
        else:
            best = " (best so far)" if now.best else ""
            tell(f"{place}: loss {now.loss:.3f}, {describe(now.measurement)}{best}")

    return show


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


@contextmanager
def stoppable(
    kept: Callable[[], str],
    stopped: type[Exception],
    *,
    silent: bool = False,
    patient: bool = False,
) -> Iterator[Callable[[], bool]]:
    """Yield a function that tells work to stop; when it raises `stopped`, print where it stands."""
    with stop_request(silent=silent, patient=patient) as stop:
        try:
            yield stop
        except stopped as error:
            raise Interrupted(f"{error}; {kept()}") from None


@contextmanager
def consistent_options() -> Iterator[None]:
    """Refuse options that a configuration refuses, in one sentence."""
    try:
        yield
    except ValueError as error:
        raise CommandError(f"these options do not go together: {error}") from None
