"""SIGHUP: sent by an operator to reload, and by a terminal that closes to end its processes."""

from __future__ import annotations

import os
import signal
import sys
import threading

_HAD_TERMINAL = os.isatty(0)
_missed = threading.Event()


def hold() -> None:
    """Remember a SIGHUP that comes before this process can handle it, instead of ending."""
    if sys.platform != "win32":
        signal.signal(signal.SIGHUP, lambda *_: _missed.set())


def was_missed() -> bool:
    """Return whether a SIGHUP came since `hold`."""
    return _missed.is_set()


def terminal_is_gone() -> bool:
    """Return whether the terminal of this process was closed."""
    return _HAD_TERMINAL and not os.isatty(0)
