"""How long a thread works before another has its turn, where they share a core."""

from __future__ import annotations

import ctypes
import os
import platform
import struct
import sys
from contextlib import suppress

TURN_NANOSECONDS = 10_000_000
# sched_setattr(2), which the C library does not have.
_SET_ATTRIBUTES = {"x86_64": 314, "aarch64": 274}
# struct sched_attr: size, policy, flags, nice, priority, runtime, deadline, period.
_ATTRIBUTES = struct.Struct("=IIQiIQQQ")


def take_long_turns() -> None:
    """Let this thread, and those that it makes, work on until their turn is over.

    Who wakes does not interrupt who runs: where the loop and the encoders share a core, clients
    that come one by one would stop an encoder again and again, for work that is less when it is
    done together. And a turn is longer than the system's 3 ms: after each, a thread finds none of
    its memory in the caches of the core, and a refusal costs five times as much as one after
    another. Linux has turns of a length of one's own since 6.12; before, they stay as they are.
    """
    if sys.platform != "linux":
        return
    with suppress(OSError):  # a container may forbid it
        os.sched_setscheduler(0, os.SCHED_BATCH, os.sched_param(0))
        number = _SET_ATTRIBUTES.get(platform.machine())
        if number is not None:
            wanted = _ATTRIBUTES.pack(
                _ATTRIBUTES.size, os.SCHED_BATCH, 0, 0, 0, TURN_NANOSECONDS, 0, 0
            )
            ctypes.CDLL(None).syscall(number, 0, wanted, 0)
