"""What commands say of rows that they could not use."""

from __future__ import annotations

from typing import TYPE_CHECKING

from service.cli.terminal.progress import tell
from service.plural import count

if TYPE_CHECKING:
    from models.datasets.problems import Problems


def tell_each(found: Problems) -> None:
    """Print a line for each problem on standard error, of many alike for the first."""
    for line in found.told():
        tell(line)


def counted(found: Problems) -> str:
    """Return how many there are and why, to stand behind the result; "" if there are none."""
    return f"; {count(found.total, 'problem')} ({found.summary()})" if found.total else ""
