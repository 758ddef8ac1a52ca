"""The heaps that the threads of a service allocate from: few, and what is freed goes back."""

from __future__ import annotations

import ctypes
import sys
from contextlib import suppress

HEAPS = 2
_ARENA_MAX = -8  # M_ARENA_MAX of mallopt(3)


def share_heaps() -> None:
    """Let threads that are made from now on share `HEAPS` heaps.

    The C library gives each thread one of its own, up to eight for each core. None of them gives
    back what it held at its largest, so that under a first overload a service grows by what all
    of them need at most, each at another time. Little is lost: Python runs one thread at a time.
    """
    _ask("mallopt", _ARENA_MAX, HEAPS)


def give_back() -> None:
    """Return to the system what is free inside the heaps, which takes some milliseconds at most.

    By itself the C library returns what is free at their ends, so that a service stays as large as
    it was under its worst load for as long as anything newer lives.
    """
    _ask("malloc_trim", 0)


def _ask(name: str, *arguments: int) -> None:
    """Call a function of the C library, where it has one of that name."""
    if sys.platform == "linux":
        with suppress(OSError, AttributeError):
            getattr(ctypes.CDLL(None), name)(*arguments)
