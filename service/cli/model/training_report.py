"""What commands that train show: a bar, and a line after each epoch."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, TypeVar

from service.cli.terminal.progress import ProgressCallback, tell

if TYPE_CHECKING:
    from models.training.run import Progress

Measured = TypeVar("Measured")


def training_report(
    bar: ProgressCallback, epochs: int, describe: Callable[[Measured], str]
) -> Callable[[Progress[Measured]], None]:
    """Return a callback for a training; `describe` puts what was measured into words."""

    def show(now: Progress[Measured]) -> None:
        place = f"epoch {now.epoch + 1} of {epochs}"
        if now.measured is None:
            bar(now.steps_done, epochs * now.steps, f"{place}, loss {now.loss:.3f}")
        else:
            best = " (best so far)" if now.best else ""
            tell(f"{place}: loss {now.loss:.3f}, {describe(now.measured)}{best}")

    return show
