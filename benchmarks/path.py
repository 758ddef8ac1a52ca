"""Through how many of our files does one caption go, from POST to answer?

    python -m benchmarks.path [--calls]

Serves a tiny collection in this process, asks the same caption a few times, and then notes the
calls of functions of `models/`, `index/`, `service/` and `hasse/` in all threads, to the line in
the log. A coroutine that is resumed is not called again. A move is a call of a function in another
file than the call before it. `--calls` lists them.
"""

from __future__ import annotations

import argparse
import json
import os
import signal
import socket
import sys
import tempfile
import threading
import time
from collections.abc import Sequence
from itertools import pairwise
from pathlib import Path
from types import FrameType
from typing import Any, NamedTuple

from benchmarks.reliability.connection import search
from benchmarks.report import Line, finish, machine
from hasse.service.runtime import logs
from hasse.service.runtime.server import run
from hasse.service.runtime.sockets import listen
from hasse.service.settings import Settings
from tests.service.collection import make_collection

FILES, MOVES = 26, 80
_ROOT = Path(__file__).parents[1]
_OURS = tuple(f"{_ROOT / name}{os.sep}" for name in ("models", "index", "service", "hasse"))
_WARM, _TRIES = 5, 10
_REST_SECONDS = 0.05  # after an answer, for its line in the log


class Call(NamedTuple):
    """A call of a function of ours."""

    file: str
    function: str


class Recorder:
    """Notes calls in all threads that begin after it, while it is on."""

    def __init__(self) -> None:
        self.calls: list[Call] = []
        self.is_on = False

    def install(self) -> None:
        """Profile this thread, and those that begin later."""
        threading.setprofile(self._note)
        sys.setprofile(self._note)

    def _note(self, frame: FrameType, event: str, _: Any) -> None:
        code = frame.f_code
        if not self.is_on or event != "call" or not code.co_filename.startswith(_OURS):
            return
        if code.co_code[frame.f_lasti + 1] == 0:  # RESUME 0 begins a function, others go on
            file = str(Path(code.co_filename).relative_to(_ROOT))
            self.calls.append(Call(file, code.co_qualname))


def files(calls: Sequence[Call]) -> int:
    """Count the files of calls."""
    return len({call.file for call in calls})


def moves(calls: Sequence[Call]) -> int:
    """Count the calls into another file than the call before."""
    return sum(one.file != other.file for one, other in pairwise(calls))


def measure() -> list[Call]:
    """Return the calls that a search makes, with the fewest that the service makes beside it."""
    recorder = Recorder()
    recorder.install()
    found: list[list[Call]] = []

    def ask(port: int) -> None:
        try:
            with socket.create_connection(("127.0.0.1", port)) as connection:
                for at in range(_WARM + _TRIES):
                    recorder.calls, recorder.is_on = [], at >= _WARM
                    connection.sendall(search("a dog runs"))
                    _receive(connection)
                    time.sleep(_REST_SECONDS)
                    recorder.is_on = False
                    found.append(recorder.calls)
        finally:
            os.kill(os.getpid(), signal.SIGTERM)

    with (
        tempfile.TemporaryDirectory() as folder,
        Path(os.devnull).open("w") as nowhere,
        listen("127.0.0.1", 0) as listener,
    ):
        index = make_collection(Path(folder))
        logs.configure("text", stream=nowhere)
        asking = threading.Thread(target=ask, args=(listener.getsockname()[1],))
        settings = Settings(index=index, device="cpu", drain_seconds=0, refresh_seconds=60)
        run(settings, listener, lambda _: asking.start())
        asking.join()
        logs.flush()
    sys.setprofile(None)
    threading.setprofile(None)
    return min(found[_WARM:], key=lambda calls: (files(calls), moves(calls), len(calls)))


def _receive(connection: socket.socket) -> None:
    answer = b""
    while not answer.endswith(b"}"):
        answer += connection.recv(1 << 16)
    head, _, body = answer.partition(b"\r\n\r\n")
    if not head.startswith(b"HTTP/1.1 200") or not json.loads(body)["hits"]:
        raise RuntimeError(head.decode())


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--calls", action="store_true", help="list the calls")
    given = parser.parse_args()
    at = machine()
    calls = measure()
    if given.calls:
        for before, call in zip([None, *calls], calls, strict=False):
            mark = " " if before and before.file == call.file else ">"
            print(mark, call.file, call.function)
    finish(
        "One caption from POST to answer",
        [
            Line("files", str(files(calls)), f"{FILES} or fewer", files(calls) <= FILES),
            Line("moves", str(moves(calls)), f"{MOVES} or fewer", moves(calls) <= MOVES),
        ],
        at,
    )


if __name__ == "__main__":
    main()
