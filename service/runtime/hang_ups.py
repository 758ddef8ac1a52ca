"""SIGHUP: an operator sends it to reload, and a terminal that is closed to end what it ran."""

from __future__ import annotations

import os
import signal
import sys
import threading

_HAD_TERMINAL = os.isatty(0)
_missed = threading.Event()


def hold() -> None:
    """Note SIGHUP until this process handles it: by default it would end the process."""
    if sys.platform != "win32":
        signal.signal(signal.SIGHUP, lambda *_: _missed.set())


def was_missed() -> bool:
    """Tell whether there was one since `hold`."""
    return _missed.is_set()


def terminal_is_gone() -> bool:
    """Tell whether the terminal of this process was closed."""
    return _HAD_TERMINAL and not os.isatty(0)
