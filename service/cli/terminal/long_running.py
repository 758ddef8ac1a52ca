"""Progress and interruption of long commands."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, TypeVar

from hasse.service.cli.terminal.errors import CommandError, Interrupted
from hasse.service.cli.terminal.interrupt import stop_request
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
        if now.measured is None:
            bar(now.steps_done, epochs * now.steps, f"{place}, loss {now.loss:.3f}")
        else:
            best = " (best so far)" if now.best else ""
            tell(f"{place}: loss {now.loss:.3f}, {describe(now.measured)}{best}")

    return show


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
