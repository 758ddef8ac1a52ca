"""Several workers on one port are one service, whatever happens to one of them."""

from __future__ import annotations

import errno
import io
import json
import math
import os
import re
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from http.client import HTTPConnection
from pathlib import Path
from typing import Any

import httpx
import pytest
from uvicorn.supervisors.multiprocess import SIGNALS

from benchmarks.reliability import stop
from benchmarks.reliability.connection import search
from benchmarks.reliability.served import Served
from hasse.models.encoders.names import LITE
from hasse.service.http.access import fingerprint, new_key
from hasse.service.runtime.workers import Supervisor, cores_of
from hasse.service.telemetry import logs
from tests.service.collection import IMAGES, make_collection, png
from tests.service.runtime.actor import Actor

ROOT = Path(__file__).parents[3]
PATIENCE = 120.0

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")


@dataclass
class Service:
    """A supervisor and its workers."""

    process: subprocess.Popen[str]
    lines: list[str]
    log: Path
    library: Path

    @property
    def url(self) -> str:
        found = re.search(r"http://[\d.:]+", self.lines[-1])
        assert found is not None, self.lines
        return found[0]

    @property
    def workers(self) -> list[int]:
        """The processes that answer; multiprocessing has one more, which tracks its resources."""
        pid = self.process.pid
        children = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
        return [int(one) for one in children if "spawn_main" in cmdline(one)]

    def get(self, path: str) -> httpx.Response:
        """Ask on a new connection, which any worker may take."""
        return httpx.get(self.url + path, timeout=PATIENCE)

    def metric(self, name: str) -> float:
        (line,) = (
            line for line in self.get("/metrics").text.splitlines() if line.startswith(name + " ")
        )
        return float(line.rpartition(" ")[2])


def command(index: Path, *settings: str, port: int = 0) -> list[str | Path]:
    given: list[str | Path] = [sys.executable, "-m", "hasse", "serve", "--library", index]
    given += ["--port", str(port), "--device", "cpu"]
    return given + [part for one in ("processes=2", *settings) for part in ("--set", one)]


@contextmanager
def serving(index: Path, log: Path, *settings: str) -> Iterator[Service]:
    with log.open("w") as errors:
        process = subprocess.Popen(
            command(index, *settings), cwd=ROOT, stdout=subprocess.PIPE, stderr=errors, text=True
        )
    service = Service(process, [], log, index)
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


def cmdline(pid: str) -> str:
    try:
        return Path(f"/proc/{pid}/cmdline").read_text()
    except OSError:  # it has ended since
        return ""


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
    with serving(make_collection(folder, backbone=LITE), folder / "log", *settings) as service:
        yield service


@pytest.mark.slow
def test_keys_change_under_load_without_a_wrong_answer_by_any_worker(
    service: Service, tmp_path: Path
) -> None:
    keys = {name: new_key() for name in ("old", "new", "always")}
    lines = {name: f"read {name}:{fingerprint(key)}\n" for name, key in keys.items()}
    file = tmp_path / "keys"
    file.write_text(lines["old"] + lines["always"])
    answers: list[tuple[str, float, float, int]] = []  # name, begin, end and status
    stop = threading.Event()
    library = service.library

    def ask(url: str, name: str) -> None:
        while not stop.is_set():
            began = time.monotonic()
            connection = HTTPConnection(url.removeprefix("http://"), timeout=PATIENCE)
            connection.request("GET", "/images/1000", headers={"X-API-Key": keys[name]})
            status = connection.getresponse().status
            connection.close()
            answers.append((name, began, time.monotonic(), status))

    def statuses(name: str, after: float = 0.0, before: float = math.inf) -> set[int]:
        return {one[3] for one in answers if one[0] == name and after < one[1] and one[2] < before}

    with serving(library, tmp_path / "log", f"keys_file={file}", "ready_seconds=0") as keyed:
        threads = [
            threading.Thread(target=ask, args=(keyed.url, name)) for name in [*keys, "always"]
        ]
        for thread in threads:
            thread.start()
        try:
            until(lambda: sum(one[3] == 200 for one in answers) > 20)
            file.write_text(lines["old"] + lines["new"] + lines["always"])
            keyed.process.send_signal(signal.SIGHUP)
            until(lambda: (tmp_path / "log").read_text().count("readers +new") == 2)
            added = time.monotonic()
            file.write_text(f"nonsense\n{lines['new']}")
            keyed.process.send_signal(signal.SIGHUP)
            until(lambda: (tmp_path / "log").read_text().count("not reloaded") == 2)
            removing = time.monotonic()
            file.write_text(lines["new"] + lines["always"])
            keyed.process.send_signal(signal.SIGHUP)
            until(lambda: (tmp_path / "log").read_text().count("readers -old") == 2)
            removed = time.monotonic()
            until(lambda: bool(statuses("old", removed) and statuses("new", removed)))
        finally:
            stop.set()
            for thread in threads:
                thread.join()
    assert statuses("always") == {200}
    assert statuses("new", after=added) == {200}
    assert statuses("old", before=removing) == {200}
    assert statuses("old", after=removed) == {401}


def test_service_of_two_workers_introduces_itself_once(service: Service) -> None:
    assert "Processes   2, each within these limits" in service.lines
    assert [line for line in service.lines if "12 images" in line] == [service.lines[0]]
    assert len(service.workers) == 2


def test_workers_share_cores_and_connections(service: Service) -> None:
    every = os.sched_getaffinity(0)
    shares = [os.sched_getaffinity(pid) for pid in service.workers]
    assert set.union(*shares) == every
    assert len(every) < 2 or not set.intersection(*shares)

    def sockets(pid: int) -> int:
        links = list(Path(f"/proc/{pid}/fd").iterdir())
        return sum(str(link.readlink()).startswith("socket:") for link in links)

    before = [sockets(pid) for pid in service.workers]
    with ExitStack() as stack:
        for _ in range(40):
            client = stack.enter_context(httpx.Client(base_url=service.url, timeout=PATIENCE))
            assert client.get("/livez").status_code == 200
        held = [sockets(pid) - n for pid, n in zip(service.workers, before, strict=True)]
    assert min(held) > 0  # by chance alone one time in 2 ** 39


@pytest.mark.slow
def test_write_by_one_worker_is_seen_by_the_next_search_of_each(service: Service) -> None:
    def ask(method: str, path: str, **how: Any) -> httpx.Response:
        return httpx.request(method, service.url + path, timeout=PATIENCE, **how)

    def searched() -> set[int]:
        asked = {"caption": "a dog"}
        answers = [ask("POST", "/search/images", json=asked) for _ in range(8)]
        return {answer.json()["searched"] for answer in answers}

    def common(image_id: int) -> set[int]:
        asked = {"common": [image_id]}
        return {ask("POST", "/search/common", json=asked).status_code for _ in range(8)}

    assert searched() == {IMAGES}
    ids = []
    for at in range(5):
        added = ask("POST", "/images", files={"image": ("new.png", png(100 + at))})
        assert added.status_code == 201
        ids.append(added.json()["image_id"])
        assert searched() == {IMAGES + at + 1}
        assert common(ids[-1]) == {200}
    for at, image_id in enumerate(ids, 1):
        assert ask("DELETE", f"/images/{image_id}").status_code == 204
        assert searched() == {IMAGES + len(ids) - at}
        assert common(image_id) == {404}


def test_metrics_of_any_worker_cover_all(service: Service) -> None:
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
        for pid in service.workers
    ]
    assert service.metric("process_resident_memory_bytes") > 1.2 * max(own)  # usually twice


@pytest.mark.slow
def test_killed_worker_is_replaced_while_the_others_answer(tmp_path: Path) -> None:
    index = make_collection(tmp_path, backbone=LITE)
    asked = 'hasse_requests_total{route="/version",status="200"}'
    with serving(index, tmp_path / "log") as service:
        for _ in range(20):
            service.get("/version")
        until(lambda: service.metric(asked) == 20)
        before = service.workers
        catalog = index / "catalog.db"
        catalog.rename(index / "away.db")  # so that there is none to replace it yet
        os.kill(before[0], signal.SIGKILL)
        until(lambda: service.log.read_text().count("error process ended") >= 2)
        assert before[1] in service.workers
        for _ in range(10):
            assert service.get("/readyz").status_code == 200
        (index / "away.db").rename(catalog)
        until(lambda: service.log.read_text().count("info serving") == 3)
        (new,) = set(service.workers) - set(before)
        for _ in range(20):
            assert service.get("/version").status_code == 200
        # What the dead one has counted is not forgotten, and what it showed is not shown.
        until(lambda: service.metric(asked) == 40)
        until(lambda: service.metric("hasse_generation") == 1)
        assert new != before[0]
    assert service.process.returncode == 0
    lines = service.log.read_text().splitlines()
    (killed, *not_begun) = [line for line in lines if "error process ended" in line]
    assert "ended with status -9" in killed
    assert all(str(index) in line for line in not_begun)


@pytest.mark.slow
def test_sigterm_answers_everything_in_flight_and_ends_all_workers(tmp_path: Path) -> None:
    with serving(make_collection(tmp_path, backbone=LITE), tmp_path / "log") as service:
        workers = service.workers
        host, port = service.url.removeprefix("http://").split(":")
        ending = stop.stop(
            Served(service.process, host, int(port)), [search("a dog"), search("a red animal")]
        )
        assert ending.resets == 0
        assert ending.statuses.total() >= stop.CLIENTS
        assert ending.exit_status == 0
        assert not any(map(is_there, workers))
    events = service.log.read_text()
    assert events.count("info stopped") == 2
    assert "Traceback" not in events


@pytest.mark.slow
def test_workers_stop_when_their_parent_is_killed(tmp_path: Path) -> None:
    with serving(make_collection(tmp_path, backbone=LITE), tmp_path / "log") as service:
        workers = service.workers
        service.process.kill()
        until(lambda: not any(map(is_there, workers)))
    assert service.log.read_text().count("info stopped") == 2


@pytest.mark.slow
def test_stopped_worker_is_replaced_and_does_not_hold_up_the_end(tmp_path: Path) -> None:
    with serving(make_collection(tmp_path, backbone=LITE), tmp_path / "log") as service:
        os.kill(service.workers[0], signal.SIGSTOP)
        until(lambda: "process stands still" in service.log.read_text())
        until(lambda: service.log.read_text().count("info serving") == 3)
        for _ in range(8):
            assert service.get("/livez").status_code == 200
        os.kill(service.workers[0], signal.SIGSTOP)
    assert service.process.returncode == 0


@pytest.mark.slow
def test_service_that_cannot_start_says_why_once(tmp_path: Path, service: Service) -> None:
    absent = subprocess.run(
        command(tmp_path / "absent"), cwd=ROOT, capture_output=True, text=True, check=False
    )
    assert absent.returncode == 1
    (error,) = [line for line in absent.stderr.splitlines() if line.startswith("error:")]
    assert "hasse add FOLDER" in error
    port = httpx.URL(service.url).port
    taken = subprocess.run(
        command(make_collection(tmp_path, backbone=LITE), port=port or 0),
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    assert taken.returncode == 1
    assert f"cannot listen on 127.0.0.1:{port}" in taken.stderr


class Play:
    """A supervisor of processes that play parts; it is stopped when all serve in the last ones."""

    def __init__(self, folder: Path, parts: Sequence[str]) -> None:
        self.folder, self.count = folder, len(parts)
        (folder / "parts.json").write_text(json.dumps(parts))
        self.said: list[str] = []
        self.refusals = 0  # of the system, to start a third process

    def taken(self) -> int:
        return len(list(self.folder.glob("[0-9]*")))

    def make(self, number: int) -> Actor:
        if self.taken() == 3 and self.refusals:
            self.refusals -= 1
            raise BlockingIOError(errno.EAGAIN, "no more processes")
        return Actor(self.folder, self.port, number)

    def run(self, number: signal.Signals = signal.SIGTERM) -> Supervisor:
        over = threading.Event()

        def stop() -> None:
            while self.taken() < self.count or not all(
                one.is_serving for one in supervisor.processes
            ):
                if over.wait(0.02):
                    return
            os.kill(os.getpid(), number)

        former = {each: signal.getsignal(each) for each in SIGNALS}
        stopping = threading.Thread(target=stop)
        try:
            supervisor = Supervisor(
                2, self.make, self.said.append, retry_seconds=0.05, silent_seconds=1.0
            )
            with socket.socket() as self.port:
                stopping.start()
                supervisor.run()
        finally:
            over.set()
            stopping.join()
            for each, handler in former.items():
                signal.signal(each, handler)
        return supervisor


@pytest.fixture
def play(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., Play]:
    monkeypatch.setenv("PROMETHEUS_MULTIPROC_DIR", str(tmp_path))
    return lambda *parts: Play(tmp_path, parts)


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_signal_stops_all_workers(number: signal.Signals, play: Callable[..., Play]) -> None:
    played = play("serves", "serves")
    supervisor = played.run(number)
    assert played.said in (["this is part 0"], ["this is part 1"])
    assert not any(worker.process.is_alive() for worker in supervisor.processes)
    assert not supervisor.failure


def test_worker_that_dies_is_replaced(play: Callable[..., Play]) -> None:
    played = play("dies", "serves", "dies", "serves")
    supervisor = played.run()
    assert not supervisor.failure
    assert len(played.said) == 1


def test_worker_that_stands_still_is_replaced(play: Callable[..., Play]) -> None:
    played = play("stands still", "serves", "serves")
    supervisor = played.run()
    assert not supervisor.failure
    assert not any(worker.process.is_alive() for worker in supervisor.processes)


def test_signal_stops_workers_that_stand_still(play: Callable[..., Play]) -> None:
    supervisor = play("stands still", "stands still").run()
    assert not any(worker.process.is_alive() for worker in supervisor.processes)


def test_worker_that_cannot_start_is_tried_again_while_another_serves(
    play: Callable[..., Play],
) -> None:
    out = io.StringIO()
    logs.configure("text", stream=out)
    played = play("dies", "serves", "fails", "serves")
    played.refusals = 2
    assert not played.run().failure
    logs.flush(60)
    reasons = [line.partition("reason=")[2] for line in out.getvalue().splitlines()]
    assert reasons == [
        '"a process ended with status 3; see the log"',
        '"part 2 failed"',
        *['"[Errno 11] no more processes"'] * 2,
    ]


def test_supervisor_stops_and_says_why_where_no_worker_can_start(
    play: Callable[..., Play],
) -> None:
    played = play("fails", "fails")
    assert re.fullmatch(r"part [01] failed", played.run().failure)
    assert played.said == []


@pytest.mark.parametrize(
    ("cores", "count", "shares"),
    [
        ([0, 1], 2, [[0], [1]]),
        ([4, 5, 6, 7, 9], 2, [[4, 5], [6, 7, 9]]),
        ([0, 1, 2], 3, [[0], [1], [2]]),
        ([3, 8], 3, [[3, 8], [3, 8], [3, 8]]),
    ],
)
def test_cores_are_used_once_unless_there_are_too_few(
    cores: list[int], count: int, shares: list[list[int]]
) -> None:
    assert [cores_of(cores, number, count) for number in range(count)] == shares
