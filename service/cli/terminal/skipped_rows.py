"""Prints which rows of a dataset a command skipped, and why."""

from __future__ import annotations

from typing import TYPE_CHECKING

from hasse.models.datasets.skipped_rows import TOO_LARGE
from hasse.service.cli.terminal.progress import tell
from hasse.service.plural import count

if TYPE_CHECKING:
    from hasse.models.datasets.skipped_rows import SkippedRows


def warn_each(skipped: SkippedRows) -> None:
    """Print a line for each problem on standard error; for many of one kind, the first few."""
    for line in skipped.report_lines():
        tell(line)
    if TOO_LARGE in skipped.by_reason:
        tell("a larger HASSE_PICTURE_PIXELS reads them, such as 100000000, and takes more memory")


def skipped_summary(skipped: SkippedRows) -> str:
    """Return the number of problems with their reasons, to append to a line; "" for none."""
    if not skipped.total:
        return ""
    return f"; {count(skipped.total, 'problem')} ({skipped.summary()})"
