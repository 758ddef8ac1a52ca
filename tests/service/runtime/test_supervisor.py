"""Several processes behind one port: one service to whoever asks, whatever becomes of one."""

from __future__ import annotations

import errno
import io
import json
import os
import re
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx
import pytest

from benchmarks.reliability import stop
from benchmarks.reliability.connection import search
from benchmarks.reliability.served import Served
from service.runtime import logs, supervisor
from service.runtime.sockets import ServeError, shared
from service.runtime.supervisor import Supervisor
from service.settings import Settings
from tests.service import player
from tests.service.collection import IMAGES, make_collection, png

ROOT = Path(__file__).parents[3]
PATIENCE = 60.0

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="only Linux shares a port out")


@dataclass
class Service:
    """A supervisor and the processes that it keeps."""

    process: subprocess.Popen[str]
    lines: list[str]
    log: Path

    @property
    def url(self) -> str:
        found = re.search(r"http://[\d.:]+", self.lines[-1])
        assert found is not None, self.lines
        return found[0]

    @property
    def siblings(self) -> list[int]:
        """The processes that answer."""
        pid = self.process.pid
        return [int(one) for one in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]

    def get(self, path: str) -> httpx.Response:
        """Ask on a connection of its own, which any of the processes may take."""
        return httpx.get(self.url + path, timeout=PATIENCE)

    def metric(self, name: str) -> float:
        (line,) = (
            line for line in self.get("/metrics").text.splitlines() if line.startswith(name + " ")
        )
        return float(line.rpartition(" ")[2])


def command(index: Path, *settings: str, port: int = 0) -> list[str | Path]:
    given: list[str | Path] = [sys.executable, "-m", "service.cli", "serve", "--index", index]
    given += ["--port", str(port), "--device", "cpu"]
    return given + [part for one in ("processes=2", *settings) for part in ("--set", one)]


@contextmanager
def serving(index: Path, log: Path, *settings: str) -> Iterator[Service]:
    with log.open("w") as errors:
        process = subprocess.Popen(
            command(index, *settings), cwd=ROOT, stdout=subprocess.PIPE, stderr=errors, text=True
        )
    service = Service(process, [], log)
    try:
        assert process.stdout is not None
        for line in process.stdout:
            service.lines.append(line.rstrip())
            if "Serving" in line:
                break
        yield service
    finally:
        process.terminate()
        process.communicate(timeout=PATIENCE)


def until(found: Callable[[], bool]) -> None:
    deadline = time.monotonic() + PATIENCE
    while not found():
        assert time.monotonic() < deadline, "it never came to this"
        time.sleep(0.05)


def is_there(pid: int) -> bool:
    try:
        return "Z" not in Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except OSError:
        return False


@pytest.fixture(scope="module")
def service(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Service]:
    """A service that looks for changes too seldom to find any by that."""
    folder = tmp_path_factory.mktemp("several")
    settings = ("open_writes=true", "refresh_seconds=600", "ready_seconds=0")
    with serving(make_collection(folder), folder / "log", *settings) as service:
        yield service


def test_it_says_how_many_it_is(service: Service) -> None:
    assert "Processes   2, each within these limits" in service.lines
    assert [line for line in service.lines if "12 images" in line] == [service.lines[0]]
    assert len(service.siblings) == 2


def test_processes_share_the_cores_and_the_connections(service: Service) -> None:
    every = os.sched_getaffinity(0)
    shares = [os.sched_getaffinity(pid) for pid in service.siblings]
    assert set.union(*shares) == every
    assert len(every) < 2 or not set.intersection(*shares)

    def sockets(pid: int) -> int:
        links = list(Path(f"/proc/{pid}/fd").iterdir())
        return sum(str(link.readlink()).startswith("socket:") for link in links)

    before = [sockets(pid) for pid in service.siblings]
    with ExitStack() as stack:
        for _ in range(40):
            client = stack.enter_context(httpx.Client(base_url=service.url))
            assert client.get("/livez").status_code == 200
        held = [sockets(pid) - n for pid, n in zip(service.siblings, before, strict=True)]
    assert sum(held) == 40
    assert min(held) > 0  # by chance alone one time in 2 ** 39


def test_what_one_process_was_told_the_next_search_of_each_knows(service: Service) -> None:
    def searched() -> set[int]:
        return {
            httpx.post(f"{service.url}/search/images", json={"caption": "a dog"}).json()["searched"]
            for _ in range(8)
        }

    def common(image_id: int) -> set[int]:
        ask = {"common": [image_id]}
        return {httpx.post(f"{service.url}/search/common", json=ask).status_code for _ in range(8)}

    assert searched() == {IMAGES}
    ids = []
    for at in range(5):
        added = httpx.post(f"{service.url}/images", files={"image": ("new.png", png(100 + at))})
        assert added.status_code == 201
        ids.append(added.json()["image_id"])
        assert searched() == {IMAGES + at + 1}
        assert common(ids[-1]) == {200}
    for at, image_id in enumerate(ids, 1):
        assert httpx.delete(f"{service.url}/images/{image_id}").status_code == 204
        assert searched() == {IMAGES + len(ids) - at}
        assert common(image_id) == {404}


def test_whichever_is_asked_measures_all_of_them(service: Service) -> None:
    asked = 'hasse_requests_total{route="/version",status="200"}'
    for _ in range(20):
        assert service.get("/version").status_code == 200
    until(lambda: service.metric(asked) == 20)  # an answer is counted when it was sent
    assert {service.metric(asked) for _ in range(6)} == {20}
    assert {service.metric('hasse_rows{kind="image"}') for _ in range(6)} == {IMAGES}
    assert {service.metric("hasse_ready") for _ in range(6)} == {1}
    assert {service.metric("hasse_in_flight") for _ in range(6)} == {0}
    own = [
        int(re.findall(r"VmRSS:\s+(\d+)", Path(f"/proc/{pid}/status").read_text())[0]) * 1024
        for pid in service.siblings
    ]
    assert service.metric("process_resident_memory_bytes") > 1.5 * max(own)


def test_one_that_dies_is_replaced_while_the_others_answer(tmp_path: Path) -> None:
    index = make_collection(tmp_path)
    asked = 'hasse_requests_total{route="/version",status="200"}'
    with serving(index, tmp_path / "log") as service:
        for _ in range(20):
            service.get("/version")
        until(lambda: service.metric(asked) == 20)
        before = service.siblings
        catalog = index / "catalog.db"
        catalog.rename(index / "away.db")  # so that there is none to replace it yet
        os.kill(before[0], signal.SIGKILL)
        until(lambda: service.log.read_text().count("error process ended") >= 2)
        assert before[1] in service.siblings
        for _ in range(10):
            assert service.get("/readyz").status_code == 200
        (index / "away.db").rename(catalog)
        until(lambda: service.log.read_text().count("info serving") == 3)
        (new,) = set(service.siblings) - set(before)
        for _ in range(20):
            assert service.get("/version").status_code == 200
        # What the dead one has counted is not forgotten, and what it showed is not shown.
        until(lambda: service.metric(asked) == 40)
        until(lambda: service.metric("hasse_generation") == 1)
        assert new != before[0]
    assert service.process.returncode == 0
    lines = service.log.read_text().splitlines()
    (killed, *not_begun) = [line for line in lines if "error process ended" in line]
    assert "was ended by signal 9" in killed
    assert all(str(index) in line for line in not_begun)


def test_a_stop_answers_everything_in_flight_and_ends_all(tmp_path: Path) -> None:
    with serving(make_collection(tmp_path), tmp_path / "log") as service:
        siblings = service.siblings
        host, port = service.url.removeprefix("http://").split(":")
        ending = stop.stop(
            Served(service.process, host, int(port)), [search("a dog"), search("a red animal")]
        )
        assert ending.resets == 0
        assert ending.statuses.total() >= stop.CLIENTS
        assert ending.exit_status == 0
        assert not any(map(is_there, siblings))
    events = service.log.read_text()
    assert events.count("info stopped") == 2
    assert "Traceback" not in events


def test_they_stop_when_who_keeps_them_is_gone(tmp_path: Path) -> None:
    with serving(make_collection(tmp_path), tmp_path / "log") as service:
        siblings = service.siblings
        service.process.kill()
        until(lambda: not any(map(is_there, siblings)))
    assert service.log.read_text().count("info stopped") == 2


def test_a_service_that_cannot_start_says_why_once(tmp_path: Path, service: Service) -> None:
    absent = subprocess.run(
        command(tmp_path / "absent"), cwd=ROOT, capture_output=True, text=True, check=False
    )
    assert absent.returncode == 1
    (error,) = [line for line in absent.stderr.splitlines() if line.startswith("error:")]
    assert "hasse index build" in error
    port = httpx.URL(service.url).port
    taken = subprocess.run(
        command(tmp_path / "absent", port=port or 0),
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    assert taken.returncode == 1
    assert f"cannot listen on 127.0.0.1:{port}" in taken.stderr


def test_where_a_port_is_not_shared_out_there_is_one_process(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(sys, "platform", "darwin")
    with pytest.raises(ServeError, match="leave processes at 1"):
        supervisor.serve(Settings(processes=2))


class Stage:
    """A supervisor of processes that play parts, which is stopped when each has been taken."""

    def __init__(self, folder: Path, parts: Sequence[str]) -> None:
        self.folder, self.count = folder, len(parts)
        (folder / "parts.json").write_text(json.dumps(parts))
        self.said: list[str] = []

    def listened(self) -> list[str]:
        """When each process that has begun was to listen, in the order of their parts."""
        found = sorted(self.folder.glob("[0-9]*"), key=lambda path: int(path.name))
        return [path.read_text() for path in found]

    def run(self, number: signal.Signals = signal.SIGTERM) -> None:
        over = threading.Event()

        def stop() -> None:
            while len(self.listened()) < self.count and not over.wait(0.05):
                pass
            if not over.wait(0.3):  # in which the last of them says that it serves
                os.kill(os.getpid(), number)

        # The signal may come when nobody is kept any more.
        former = signal.signal(number, lambda *_: None)
        stopping = threading.Thread(target=stop)
        try:
            with shared("127.0.0.1", 0) as port:
                kept = Supervisor(Settings(processes=2), port, self.folder, self.said.append)
                stopping.start()
                kept.run()
        finally:
            over.set()
            stopping.join()
            signal.signal(number, former)


@pytest.fixture
def stage(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., Stage]:
    monkeypatch.setattr(supervisor, "_AGAIN_SECONDS", 0.05)
    monkeypatch.setattr(supervisor, "_SIBLING", "tests.service.player")
    monkeypatch.setenv(player.FOLDER, str(tmp_path))
    monkeypatch.chdir(ROOT)
    return lambda *parts: Stage(tmp_path, parts)


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_all_are_stopped_by_one_signal(number: signal.Signals, stage: Callable[..., Stage]) -> None:
    play = stage("serves", "serves")
    play.run(number)
    assert play.said in (["this is 0"], ["this is 1"])
    assert play.listened() == ["at once", "at once"]


def test_each_that_dies_is_replaced_by_one_that_waits_until_it_can_answer(
    stage: Callable[..., Stage],
) -> None:
    play = stage("dies", "serves", "dies", "serves")
    play.run()
    assert play.listened() == ["at once", "at once", "when open", "when open"]
    assert len(play.said) == 1


def test_one_that_cannot_begin_is_tried_again_while_another_serves(
    stage: Callable[..., Stage], monkeypatch: pytest.MonkeyPatch
) -> None:
    out = io.StringIO()
    logs.configure("text", stream=out)
    left = iter([True, True, False])  # the system's refusals of the third process

    class Crowded(subprocess.Popen[str]):
        def __init__(self, *args: Any, **given: Any) -> None:
            if len(play.listened()) == 3 and next(left, False):
                raise BlockingIOError(errno.EAGAIN, "no more processes")
            super().__init__(*args, **given)

    monkeypatch.setattr("service.runtime.supervisor.subprocess.Popen", Crowded)
    play = stage("dies", "serves", "fails", "serves")
    play.run()
    assert play.listened() == ["at once", "at once", "when open", "when open"]
    logs.flush()
    reasons = [line.partition("reason=")[2] for line in out.getvalue().splitlines()]
    assert reasons == [
        '"a process ended with status 3; see the log"',
        '"number 2 failed"',
        *['"[Errno 11] no more processes"'] * 2,
    ]


def test_where_none_serves_the_service_ends_and_says_why(stage: Callable[..., Stage]) -> None:
    play = stage("fails", "fails")
    with pytest.raises(ServeError, match=r"number [01] failed"):
        play.run()
    assert play.said == []


@pytest.mark.parametrize(
    ("cores", "processes", "shares"),
    [
        ({0, 1}, 2, [[0], [1]]),
        ({4, 5, 6, 7, 9}, 2, [[4, 5], [6, 7, 9]]),
        ({0, 1, 2}, 3, [[0], [1], [2]]),
        ({3, 8}, 3, [[3, 8], [3, 8], [3, 8]]),
    ],
)
def test_every_core_is_used_and_none_by_two_unless_there_are_too_few(
    cores: set[int], processes: int, shares: list[list[int]], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: cores)
    assert [supervisor.cores_of(place, processes) for place in range(processes)] == shares
