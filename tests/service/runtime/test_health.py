"""The container health check tells whether the service is ready, cheaply."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer

import pytest

from hasse.service.runtime import health
from hasse.service.runtime.health import trouble


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


def check(port: int, host: str = "127.0.0.1") -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "hasse.service.runtime.health"],
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

        answering = threading.Thread(target=answer, daemon=True)
        answering.start()
        found = trouble("127.0.0.1", other.getsockname()[1])
        answering.join()
    assert found is not None
    assert "no answer" in found


def test_address_is_the_default_where_none_is_set(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[tuple[str, int]] = []
    for name in ("HASSE_HOST", "HASSE_PORT"):
        monkeypatch.delenv(name, raising=False)
    assert health.main(lambda *address: asked.append(address)) == 0
    assert asked == [("127.0.0.1", 8000)]


def test_service_that_hangs_is_unhealthy() -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        found = trouble("127.0.0.1", silent.getsockname()[1], timeout=0.1)
    assert found is not None
    assert "no answer" in found


def test_check_imports_only_the_standard_library() -> None:
    program = (
        "import sys; before = set(sys.modules); import service.runtime.health; "
        "print(' '.join(sorted({m.split('.')[0] for m in sys.modules} "
        "- sys.stdlib_module_names - before)))"
    )
    loaded = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True
    )
    assert loaded.stdout.split() == ["service"]
