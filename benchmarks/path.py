"""How many of our files a search and an upload pass.

    python -m benchmarks.path [--calls search] [--commands]

Draws and serves small libraries of the demo in this process: one with captions, one without. With
`--commands`, it also runs a sync and a training on tiny data. Counts the calls of functions of
`models/`, `index/`, `service/`, `lab/`, `scenes/` and `hasse/` in all threads; of a request, to its
line in the log. A resumed coroutine is not called again. A move is a call of a function in another
file than the call before it.
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
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from types import FrameType
from typing import Any, NamedTuple

import hasse
from benchmarks.reliability.connection import form, search
from benchmarks.report import Line, finish, machine, parser_of
from hasse.models.checkpoints import checkpoint, named_models
from hasse.service.pipelines.scenes import generate
from hasse.service.runtime.server import run
from hasse.service.runtime.sockets import listen
from hasse.service.settings import Settings
from hasse.service.telemetry import logs
from hasse.service.writing.image_source import ImageSource
from hasse.service.writing.indexing import build
from tests.service.cli.shell import TINY_TRAINING
from tests.service.cli.shell import hasse as run_command
from tests.service.collection import png
from tests.tiny import tiny_checkpoint

# The most files and moves of a request, by its name. Pictures are searched and texts beside them,
# unless only what is shown is searched.
LIMITS = {
    "search": (34, 150),
    "search without captions": (33, 126),
    "search of what is shown": (29, 95),
    "upload": (73, 430),
}
_SCENES, _BARE, _HITS = 120, 20, 3
_CAPTION = "wearing a coat"  # more than 40 of the scenes say it: more than are read
_ROOT = Path(hasse.__file__).parent
_OURS = f"{_ROOT}{os.sep}"
_CLOCK = {"_Server.on_tick", "_Server._keep_beating"}  # of the server, which belong to no request
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
        self._tick: FrameType | None = None  # of the server's clock
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
        if code.co_qualname in _CLOCK:
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


def served(
    recorder: Recorder, library: Path, requests: Mapping[str, Sequence[bytes]]
) -> dict[str, list[Call]]:
    """Return the calls that each kind of request makes: of its tries, those with the fewest."""
    tries: dict[str, list[list[Call]]] = {name: [] for name in requests}

    def ask(port: int) -> None:
        try:
            with socket.create_connection(("127.0.0.1", port)) as connection:
                for name, bodies in requests.items():
                    for at, body in enumerate(bodies):
                        recorder.start(at >= _WARM)
                        connection.sendall(body)
                        _receive(connection)
                        time.sleep(_REST_SECONDS)
                        tries[name].append(recorder.stop())
        finally:
            os.kill(os.getpid(), signal.SIGTERM)

    with Path(os.devnull).open("w") as nowhere, listen("127.0.0.1", 0) as listener:
        logs.configure("text", stream=nowhere)
        client = threading.Thread(target=ask, args=(listener.getsockname()[1],))
        recorder.install()
        settings = Settings(
            library=library, device="cpu", drain_seconds=0, refresh_seconds=60, open_writes=True
        )
        run(settings, listener, lambda _: client.start())
        client.join()
        logs.flush()
    return {
        name: min(runs[_WARM:], key=lambda calls: (files(calls), moves(calls), len(calls)))
        for name, runs in tries.items()
    }


def requested(recorder: Recorder) -> dict[str, list[Call]]:
    """Return the calls of requests to the demo's library, and to one without captions."""
    times = _WARM + _TRIES
    with tempfile.TemporaryDirectory() as folder:
        home = Path(folder)
        scenes = generate(home / "scenes", train=0, val=0, test=_SCENES, workers=1)
        uncaptioned = (replace(image, captions=()) for image in scenes.images[:_BARE])
        bare = replace(scenes, images=tuple(uncaptioned))
        model = checkpoint.load(named_models.pretrained())
        for name, dataset in (("captioned", scenes), ("bare", bare)):
            build(dataset, model, home / name, ImageSource()).close()
        default = [search(_CAPTION, _HITS)] * times
        shown = [search(_CAPTION, _HITS, evidence="shows")] * times
        pictures = [form("/images", png(100 + at), caption=_CAPTION) for at in range(times)]
        captioned = {
            "search": default,
            "search of what is shown": shown,
            "upload": pictures,
        }
        return served(recorder, home / "captioned", captioned) | served(
            recorder, home / "bare", {"search without captions": default}
        )


def commanded(recorder: Recorder) -> dict[str, list[Call]]:
    """Return the calls of commands: one new picture is followed, and a tiny model is trained."""
    calls: dict[str, list[Call]] = {}
    recorder.install()
    with tempfile.TemporaryDirectory() as folder:
        home = Path(folder)
        pictures, data = home / "pictures", home / "data"
        pictures.mkdir()
        for at in range(20):
            (pictures / f"{at}.png").write_bytes(png(at))
            (pictures / f"{at}.txt").write_text("a dog\na red dog\n")
        model = tiny_checkpoint(home / "model")
        sync = ("add", pictures, "--library", home / "index", "--model", model)
        run_command("lab data", "import", "folder", pictures, "--out", data)
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
                done = run_command(*command)
                calls[name] = recorder.stop()
                if done.status:
                    raise RuntimeError(done.err)
            (pictures / "new.png").write_bytes(png(30))
    return calls


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
    parser.add_argument("--calls", metavar="NAME", help="list the calls of a row of the table")
    parser.add_argument("--commands", action="store_true", help="also a sync and a training")
    options = parser.parse_args()
    started_on, recorder = machine(), Recorder()
    paths = requested(recorder)
    if options.commands:
        paths |= commanded(recorder)
    calls = paths.get(options.calls, [])
    for before, call in zip([None, *calls], calls, strict=False):
        print(" " if before and before.file == call.file else ">", call.file, call.function)
    finish("Files of ours that each way passes", [*_lines(paths)], started_on)


def _lines(paths: Mapping[str, Sequence[Call]]) -> Iterator[Line]:
    for name, calls in paths.items():
        limits = LIMITS.get(name, (None, None))
        counts = {"files": files(calls), "moves": moves(calls)}
        for (unit, count), limit in zip(counts.items(), limits, strict=True):
            promised = f"{limit} or fewer" if limit else ""
            yield Line(f"{name}: {unit}", str(count), promised, not limit or count <= limit)


if __name__ == "__main__":
    main()
