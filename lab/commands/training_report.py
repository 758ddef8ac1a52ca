"""Progress of a training, for a person."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, TypeVar

from hasse.service.cli.terminal.progress import ProgressCallback, tell

if TYPE_CHECKING:
    from hasse.lab.training.run import Progress

Measurement = TypeVar("Measurement")


def training_report(
    bar: ProgressCallback, epochs: int, describe: Callable[[Measurement], str]
) -> Callable[[Progress[Measurement]], None]:
    """Return a callback that shows the progress of a training; `describe` formats measurements."""

    def show(state: Progress[Measurement]) -> None:
        epoch = f"epoch {state.epoch + 1} of {epochs}"
        if state.measurement is None:
            bar(state.steps_done, epochs * state.steps, f"{epoch}, loss {state.loss:.3f}")
        else:
            best = " (best so far)" if state.best else ""
            tell(f"{epoch}: loss {state.loss:.3f}, {describe(state.measurement)}{best}")

    return show
