"""Prints the rows of a dataset that a command could not use."""

from __future__ import annotations

from typing import TYPE_CHECKING

from service.cli.terminal.progress import tell
from service.plural import count

if TYPE_CHECKING:
    from models.datasets.problems import Problems


def tell_each(problems: Problems) -> None:
    """Print a line for each problem on standard error; of many alike, for the first few."""
    for line in problems.told():
        tell(line)


def counted(problems: Problems) -> str:
    """Return the number of problems and their reasons, to append to a result; "" for none."""
    if not problems.total:
        return ""
    return f"; {count(problems.total, 'problem')} ({problems.summary()})"
