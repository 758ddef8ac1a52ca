"""Threads share a few heaps and give back what they freed, where the C library has such heaps."""

from __future__ import annotations

import platform
import subprocess
import sys
from pathlib import Path

import pytest

from service.heaps import HEAPS

ROOT = Path(__file__).parents[2]
COUNT = """
import ctypes, sys, threading
from service.heaps import share_heaps

if sys.argv[1] == "shared":
    share_heaps()
held = []
together = threading.Barrier(9)

def work():
    held.append([bytearray(20_000) for _ in range(50)])
    together.wait()  # a heap of a thread that has ended would be the next one's

threads = [threading.Thread(target=work) for _ in range(8)]
for thread in threads:
    thread.start()
together.wait()
libc = ctypes.CDLL(None)
libc.fopen.restype = ctypes.c_void_p
file = ctypes.c_void_p(libc.fopen(sys.argv[2].encode(), b"w"))
libc.malloc_info(0, file)
libc.fclose(file)
"""


def heaps(way: str, out: Path) -> int:
    subprocess.run([sys.executable, "-c", COUNT, way, out], cwd=ROOT, check=True)
    return out.read_text().count("<heap nr=")


FREE = """
import re, sys
from service.heaps import give_back

def resident():
    return int(re.findall(r"RssAnon:\\s+(\\d+)", open("/proc/self/status").read())[0])

held = [bytearray(50_000) for _ in range(1000)]
newer = bytearray(50_000)  # at the end of the heap
del held
before = resident()
give_back()
print(before - resident())
"""


@pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="another C library has one heap")
def test_threads_share_heaps(tmp_path: Path) -> None:
    assert heaps("shared", tmp_path / "shared") <= HEAPS
    assert heaps("own", tmp_path / "own") > HEAPS


@pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="another C library keeps its own way")
def test_what_was_freed_before_what_is_still_held_is_given_back() -> None:
    done = subprocess.run(
        [sys.executable, "-c", FREE], cwd=ROOT, check=True, capture_output=True, text=True
    )
    assert int(done.stdout) > 30_000  # of 50 MB, in kB
