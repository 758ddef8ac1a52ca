"""Ends a process with the one that started it, also when that is killed."""

from __future__ import annotations

import fcntl
import os
import select
import signal


def end_with_parent(pipe: int) -> None:
    """End this process at once when the other end of a pipe closes, which nobody writes to.

    The parent holds that end, and the kernel closes it when the parent ends. The kernel sends the
    signal, because a library that decodes a picture may hold Python's interpreter lock for long.
    """
    signal.signal(signal.SIGIO, signal.SIG_DFL)  # it ends the process
    fcntl.fcntl(pipe, fcntl.F_SETOWN, os.getpid())
    fcntl.fcntl(pipe, fcntl.F_SETFL, fcntl.fcntl(pipe, fcntl.F_GETFL) | os.O_ASYNC)
    if select.select([pipe], [], [], 0)[0]:  # it has ended meanwhile
        os._exit(1)
