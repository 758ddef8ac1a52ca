"""Threads that share a core work on until their turn is over."""

from __future__ import annotations

import os
import platform
import subprocess
import sys

import pytest

# In a process of its own, since a thread cannot take it back. sched_getattr(2) tells the turn.
ASK = """
import ctypes, os, platform, threading
from service.scheduling import take_long_turns

def look():
    print(os.sched_getscheduler(0))
    found = ctypes.create_string_buffer(56)
    number = {"x86_64": 315, "aarch64": 275}[platform.machine()]
    assert ctypes.CDLL(None).syscall(number, 0, found, 56, 0) == 0
    print(int.from_bytes(found.raw[24:32], "little"))

take_long_turns()
look()
later = threading.Thread(target=look)
later.start()
later.join()
"""


@pytest.mark.skipif(
    sys.platform != "linux" or platform.machine() not in {"x86_64", "aarch64"},
    reason="asks Linux",
)
def test_this_thread_and_those_it_makes_have_long_turns() -> None:
    said = subprocess.run(
        [sys.executable, "-c", ASK], capture_output=True, text=True, check=True
    ).stdout.split()
    assert said[::2] == [str(os.SCHED_BATCH)] * 2
    release = tuple(int(part) for part in platform.release().split(".")[:2])
    if release >= (6, 12):
        assert said[1::2] == ["10000000"] * 2
