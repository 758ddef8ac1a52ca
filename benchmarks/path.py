"""How many of our files a caption, an upload, a sync and a training pass.

    python -m benchmarks.path [--calls caption]

Serves a tiny collection in this process, and runs tiny commands. Counts the calls of functions of
`models/`, `index/`, `service/`, `scenes/` and `hasse/` in all threads; of a request, to its line in
the log. A resumed coroutine is not called again. A move is a call of a function in another file
than the call before it.
"""

from __future__ import annotations

import json
import os
import signal
import socket
import sys
import tempfile
import threading
import time
from collections.abc import Mapping, Sequence
from itertools import pairwise
from pathlib import Path
from types import FrameType
from typing import Any, NamedTuple

from benchmarks.reliability.connection import form, search
from benchmarks.report import Line, finish, machine, parser_of
from hasse.service.runtime.server import run
from hasse.service.runtime.sockets import listen
from hasse.service.settings import Settings
from hasse.service.telemetry import logs
from tests.service.cli.shell import TINY_TRAINING, hasse
from tests.service.collection import make_collection, png
from tests.tiny import tiny_checkpoint

FILES, MOVES = 30, 100
_ROOT = Path(__file__).parents[1]
_OURS = tuple(
    f"{_ROOT / name}{os.sep}" for name in ("models", "index", "service", "scenes", "hasse")
)
_WARM, _TRIES = 5, 10
_REST_SECONDS = 0.05  # after an answer, for its line in the log


class Call(NamedTuple):
    """A call of a function of ours."""

    file: str
    function: str


class Recorder:
    """Notes calls of our functions in all threads that begin after it."""

    def __init__(self) -> None:
        self._calls: list[Call] = []
        self._is_on = False
        self._tick: FrameType | None = None  # of the server's clock, which belongs to no request
        self._ticker = 0  # the thread that it runs in

    def start(self, on: bool) -> None:
        """Begin a new list of calls."""
        self._calls, self._is_on = [], on

    def stop(self) -> list[Call]:
        """Return the calls since the start."""
        self._is_on = False
        return self._calls

    def install(self) -> None:
        """Profile this thread, and those that begin later."""
        threading.setprofile(self._note)
        sys.setprofile(self._note)

    def _note(self, frame: FrameType, event: str, _: Any) -> None:
        code = frame.f_code
        if event == "return" and frame is self._tick:
            self._tick, self._ticker = None, 0
        if not self._is_on or event != "call" or not code.co_filename.startswith(_OURS):
            return
        if code.co_qualname == "_Server.on_tick":
            self._tick, self._ticker = frame, threading.get_ident()
        if threading.get_ident() == self._ticker:
            return
        if code.co_code[frame.f_lasti + 1] == 0:  # RESUME 0 begins a function, others go on
            file = str(Path(code.co_filename).relative_to(_ROOT))
            self._calls.append(Call(file, code.co_qualname))


def files(calls: Sequence[Call]) -> int:
    """Count the files of calls."""
    return len({call.file for call in calls})


def moves(calls: Sequence[Call]) -> int:
    """Count the calls into another file than the call before."""
    return sum(one.file != other.file for one, other in pairwise(calls))


def served(recorder: Recorder, requests: Mapping[str, Sequence[bytes]]) -> dict[str, list[Call]]:
    """Return the calls that each kind of request makes, with the fewest of the log beside it."""
    found: dict[str, list[list[Call]]] = {name: [] for name in requests}

    def ask(port: int) -> None:
        try:
            with socket.create_connection(("127.0.0.1", port)) as connection:
                for name, every in requests.items():
                    for at, request in enumerate(every):
                        recorder.start(at >= _WARM)
                        connection.sendall(request)
                        _receive(connection)
                        time.sleep(_REST_SECONDS)
                        found[name].append(recorder.stop())
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
        settings = Settings(
            library=index, device="cpu", drain_seconds=0, refresh_seconds=60, open_writes=True
        )
        run(settings, listener, lambda _: asking.start())
        asking.join()
        logs.flush()
    return {
        name: min(runs[_WARM:], key=lambda calls: (files(calls), moves(calls), len(calls)))
        for name, runs in found.items()
    }


def commanded(recorder: Recorder) -> dict[str, list[Call]]:
    """Return the calls of commands: one new picture is followed, and a tiny model is trained."""
    found: dict[str, list[Call]] = {}
    with tempfile.TemporaryDirectory() as folder:
        home = Path(folder)
        pictures, data = home / "pictures", home / "data"
        pictures.mkdir()
        for at in range(20):
            (pictures / f"{at}.png").write_bytes(png(at))
            (pictures / f"{at}.txt").write_text("a dog\na red dog\n")
        model = tiny_checkpoint(home / "model")
        sync = ("add", pictures, "--library", home / "index", "--model", model)
        hasse("lab data", "import", "folder", pictures, "--out", data)
        for at in range(2):  # modules are imported by the first
            train = (
                "lab train",
                data,
                "--out",
                home / f"model-{at}",
                *TINY_TRAINING,
                "--epochs",
                1,
            )
            for name, command in (("sync", sync), ("training", train)):
                recorder.start(on=True)
                done = hasse(*command)
                found[name] = recorder.stop()
                if done.status:
                    raise RuntimeError(done.err)
            (pictures / "new.png").write_bytes(png(30))
    return found


def _receive(connection: socket.socket) -> None:
    answer = b""
    while not answer.endswith(b"}"):
        answer += connection.recv(1 << 16)
    head, _, body = answer.partition(b"\r\n\r\n")
    if not head.startswith((b"HTTP/1.1 200", b"HTTP/1.1 201")) or json.loads(body) == {"hits": []}:
        raise RuntimeError(head.decode())


def main() -> None:
    """Measure and print."""
    parser = parser_of(__doc__)
    parser.add_argument("--calls", metavar="PATH", help="list the calls of a path")
    given = parser.parse_args()
    at, recorder = machine(), Recorder()
    recorder.install()
    requests = {
        "caption": [search("a dog runs", evidence="shows")] * (_WARM + _TRIES),
        "caption and texts": [search("a dog runs")] * (_WARM + _TRIES),
        "upload": [
            form("/images", png(100 + at), caption="a dog runs") for at in range(_WARM + _TRIES)
        ],
    }
    paths = served(recorder, requests) | commanded(recorder)
    calls = paths.get(given.calls, [])
    for before, call in zip([None, *calls], calls, strict=False):
        mark = " " if before and before.file == call.file else ">"
        print(mark, call.file, call.function)
    lines = []
    for name, calls in paths.items():
        for unit, count, most in (("files", files(calls), FILES), ("moves", moves(calls), MOVES)):
            promised = f"{most} or fewer" if name == "caption" else ""
            lines.append(
                Line(f"{name}: {unit}", str(count), promised, not promised or count <= most)
            )
    finish("Files of ours that each way passes", lines, at)


if __name__ == "__main__":
    main()
