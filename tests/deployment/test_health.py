"""The container health check tells whether the service is ready, cheaply."""

from __future__ import annotations

import os
import socket
import subprocess
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path

import pytest

SCRIPT = Path(__file__).parents[2] / "docker" / "health.sh"


class Answering(HTTPServer):
    status = 200
    asked: list[str]


class Handler(BaseHTTPRequestHandler):
    server: Answering

    def do_GET(self) -> None:
        self.server.asked.append(self.path)
        self.send_response(self.server.status)
        self.end_headers()

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002
        """Keep the test's output clean."""


@pytest.fixture
def server() -> Iterator[Answering]:
    with Answering(("127.0.0.1", 0), Handler) as answering:
        answering.asked = []
        thread = threading.Thread(target=answering.serve_forever)
        thread.start()
        yield answering
        answering.shutdown()
        thread.join()


def check(
    port: int, host: str = "127.0.0.1", seconds: float = 5
) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [SCRIPT, str(seconds)],
        env=os.environ | {"HASSE_PORT": str(port), "HASSE_HOST": host},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )


def test_ready_service_is_healthy_on_every_host(server: Answering) -> None:
    for host in ("127.0.0.1", "0.0.0.0"):  # noqa: S104
        healthy = check(server.server_port, host)
        assert healthy.returncode == 0, healthy.stderr
        assert healthy.stderr == ""
    assert server.asked == ["/readyz", "/readyz"]


def test_service_that_answers_503_is_unhealthy(server: Answering) -> None:
    server.status = 503
    sick = check(server.server_port)
    assert sick.returncode == 1
    assert sick.stderr == f"error: 127.0.0.1:{server.server_port} answers 503: not ready\n"


def test_refused_connection_is_unhealthy() -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))  # bound, not listening: connections are refused
        sick = check(taken.getsockname()[1])
    assert sick.returncode == 1
    assert sick.stderr.startswith("error: no answer from 127.0.0.1")
    assert sick.stderr.count("\n") == 1


def test_server_without_http_is_unhealthy() -> None:
    with socket.create_server(("127.0.0.1", 0)) as other:
        other.settimeout(60)

        def answer() -> None:
            connection, _ = other.accept()
            with connection:
                connection.sendall(b"SSH-2.0-OpenSSH\r\n")
                while connection.recv(1024):
                    pass

        answering = threading.Thread(target=answer, daemon=True)
        answering.start()
        sick = check(other.getsockname()[1])
        answering.join()
    assert sick.returncode == 1
    assert "speaks no HTTP" in sick.stderr


def test_server_that_hangs_up_while_it_is_asked_is_unhealthy() -> None:
    with socket.create_server(("127.0.0.1", 0)) as other:
        other.settimeout(60)

        def hang_up() -> None:
            other.accept()[0].close()

        answering = threading.Thread(target=hang_up, daemon=True)
        answering.start()
        sick = check(other.getsockname()[1])
        answering.join()
    assert sick.returncode == 1
    assert "no answer" in sick.stderr


def test_service_that_hangs_is_unhealthy() -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        sick = check(silent.getsockname()[1], seconds=0.1)
    assert sick.returncode == 1
    assert "no answer" in sick.stderr
