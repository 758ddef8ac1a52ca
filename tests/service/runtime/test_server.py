"""A real process on a real port: it introduces itself, answers, and stops cleanly."""

from __future__ import annotations

import json
import os
import re
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from http.client import HTTPConnection
from pathlib import Path

import httpx
import pytest

ROOT = Path(__file__).parents[3]
PATIENCE = 120


@dataclass
class Server:
    """A service in a process of its own."""

    process: subprocess.Popen[str]
    lines: list[str]

    @property
    def url(self) -> str:
        found = re.search(r"http://[\d.:]+", self.lines[-1])
        assert found is not None, self.lines
        return found[0]

    def end(self) -> tuple[int, str]:
        """Wait for the process; return its status and what it said to standard error."""
        _, words = self.process.communicate(timeout=PATIENCE)
        return self.process.returncode, words


@contextmanager
def serving(index: Path, gate: Path = Path("none"), **settings: object) -> Iterator[Server]:
    chosen = {"library": index, "port": 0, "device": "cpu", **settings}
    environment = os.environ | {
        f"HASSE_{name.upper()}": str(value) for name, value in chosen.items()
    }
    process = subprocess.Popen(
        [sys.executable, "-m", "tests.service.runtime.slow_service", gate],
        cwd=ROOT,
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    server = Server(process, [])
    try:
        assert process.stdout is not None
        for line in process.stdout:
            server.lines.append(line.rstrip())
            if "Serving" in line:
                break
        yield server
    finally:
        if process.poll() is None:
            process.kill()
            process.communicate()


def test_server_introduces_itself_answers_and_on_sigterm_finishes_all_in_flight(
    collection: Path, tmp_path: Path
) -> None:
    gate = tmp_path / "gate"
    limits = {"in_flight": 10, "deadline_seconds": PATIENCE, "shutdown_seconds": PATIENCE}
    seconds = {"ready_seconds": 600, "drain_seconds": 1}  # so that metrics do not probe either
    with serving(collection, gate, **limits, **seconds, log_format="json") as server:
        said = "\n".join(server.lines)
        assert "12 images, 24 captions" in said
        assert "tiny: order, 16 dimensions, on cpu" in said
        assert "10 searches at a time" in said
        with httpx.Client(base_url=server.url, timeout=PATIENCE) as client:
            ready = client.get("/readyz")
            assert ready.status_code == 200
            assert ready.headers["cache-control"] == "no-store"
            assert "server" not in ready.headers
            answer = client.post("/search/images", json={"caption": "a dog", "k": 3})
            assert len(answer.json()["hits"]) == 3
            refused = client.post("/search/captions", files={"image": ("a.jpg", bytes(12_000_000))})
            assert refused.status_code == 413
            assert refused.json()["reason"] == "body_too_large"
            head = client.head("/images/1000/file")
            assert (head.status_code, head.content) == (200, b"")
        host, port = server.url.removeprefix("http://").split(":")
        with socket.create_connection((host, int(port))) as old:
            old.sendall(b"GET /livez HTTP/1.0\r\n\r\n")  # HTTP/1.0 needs no Host
            assert old.makefile("rb").readline() == b"HTTP/1.1 200 OK\r\n"
        statuses: list[int] = []

        def ask() -> None:
            connection = HTTPConnection(host, int(port), timeout=PATIENCE)
            body = json.dumps({"caption": "a dog runs slowly", "k": 1})
            headers = {"Content-Type": "application/json"}
            connection.request("POST", "/search/images", body, headers)
            statuses.append(connection.getresponse().status)
            connection.close()

        threads = [threading.Thread(target=ask) for _ in range(50)]
        for thread in threads:
            thread.start()
        with httpx.Client(base_url=server.url, timeout=PATIENCE) as client:
            while "hasse_queue_length 40.0" not in client.get("/metrics").text:
                time.sleep(0.05)
            server.process.send_signal(signal.SIGTERM)
            assert server.process.stderr is not None
            while '"stopping"' not in server.process.stderr.readline():
                pass
            assert client.get("/readyz").json()["detail"] == "the service is stopping"
        gate.touch()
        for thread in threads:
            thread.join()
        status, words = server.end()
    assert statuses == [200] * 50
    assert status == 0
    assert "Traceback" not in words
    assert json.loads(words.splitlines()[-1])["event"] == "stopped"


@pytest.mark.slow
def test_sigterm_answers_an_unfinished_body_with_503(collection: Path) -> None:
    with serving(collection, shutdown_seconds=1, log_format="json") as server:
        host, port = server.url.removeprefix("http://").split(":")
        connection = HTTPConnection(host, int(port), timeout=PATIENCE)
        headers = {"Content-Type": "application/json", "Content-Length": "100"}
        connection.request("POST", "/search/images", b'{"caption": ', headers)
        with httpx.Client(base_url=server.url, timeout=PATIENCE) as client:
            while "hasse_body_bytes 12.0" not in client.get("/metrics").text:
                time.sleep(0.05)
        server.process.send_signal(signal.SIGTERM)
        response = connection.getresponse()
        found = json.loads(response.read())
        assert (response.status, found["reason"]) == (503, "not_ready")
        assert response.getheader("Retry-After") == "1"
        connection.close()
        status, words = server.end()
    assert status == 0
    lines = [json.loads(line) for line in words.splitlines()]
    (line,) = [line for line in lines if line.get("status") == 503]
    assert line["reason"] == "not_ready"
    assert lines[-1]["event"] == "stopped"


@pytest.mark.slow
def test_sigint_does_not_wait_for_a_catalog_that_hangs(collection: Path) -> None:
    with serving(collection, deadline_seconds=0.2, shutdown_seconds=1, log_format="json") as server:
        with httpx.Client(base_url=server.url, timeout=PATIENCE) as client:
            assert client.get("/images/7").json()["reason"] == "catalog_unreachable"
        server.process.send_signal(signal.SIGINT)
        status, words = server.end()
    assert status == 0
    assert json.loads(words.splitlines()[-1])["event"] == "stopped"
