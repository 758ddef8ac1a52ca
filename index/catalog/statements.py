"""Counts the statements that a thread has sent to databases, for `Server-Timing`."""

from __future__ import annotations

import threading
from typing import Any


class _Statements(threading.local):
    """Number of statements of a thread."""

    count = 0


_STATEMENTS = _Statements()


def count_statement(*_: Any) -> None:
    """Count a statement that this thread has sent to a database."""
    _STATEMENTS.count += 1


def statement_count() -> int:
    """Return how many reading statements this thread has sent to databases."""
    return _STATEMENTS.count
