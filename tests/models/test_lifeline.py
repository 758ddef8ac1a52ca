"""A helper process ends with the process that started it, however that ends."""

from __future__ import annotations

import os
import signal
import subprocess
import sys

import pytest

# Holds Python's interpreter lock and answers no signal handler, as a library that decodes does.
_BUSY = "from hasse.models.lifeline import end_with_parent; end_with_parent(0)\nwhile True: pass"
_PARENTS = {
    "a busy process": f"""
import subprocess, sys
child = subprocess.Popen([sys.executable, "-c", {_BUSY!r}], stdin=subprocess.PIPE)
""",
    "a decoder": """
from hasse.models.images.decoder import Decoder
child = Decoder()
""",
}


@pytest.mark.parametrize("kind", _PARENTS)
def test_helper_ends_when_its_parent_is_killed(kind: str) -> None:
    program = f"{_PARENTS[kind]}\nimport time\nprint(child.pid, flush=True)\ntime.sleep(60)"
    with subprocess.Popen([sys.executable, "-c", program], stdout=subprocess.PIPE) as parent:
        assert parent.stdout is not None
        pid = int(parent.stdout.readline())
        parent.send_signal(signal.SIGKILL)
    while _runs(pid):
        os.sched_yield()


def _runs(pid: int) -> bool:
    try:
        with open(f"/proc/{pid}/stat") as file:  # noqa: PTH123
            return file.read().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False
