"""Log lines: their shapes, their level, and what becomes of those that nobody takes."""

from __future__ import annotations

import errno
import io
import json
import logging
import threading
from collections.abc import Iterator
from typing import Literal

import pytest

from hasse.service.http.middleware import record_answer
from hasse.service.telemetry import logs
from hasse.service.telemetry.metrics import Metrics


@pytest.fixture(autouse=True)
def _usual_log() -> Iterator[None]:
    yield
    logs.configure("text")


@pytest.mark.parametrize("shape", ["text", "json"])
def test_record_answer_writes_a_line_and_counts(shape: Literal["text", "json"]) -> None:
    out, metrics = io.StringIO(), Metrics()
    logs.configure(shape, stream=out)
    record_answer(
        metrics,
        "mine",
        method="GET",
        path="/r",
        route="/r",
        status=200,
        reason=None,
        key="a key",
        seconds=0.25,
    )
    record_answer(
        metrics, "bad", method="GET", path="/r", route="/r", status=503, reason="not_ready"
    )
    logs.flush(60)
    good, bad = out.getvalue().splitlines()
    if shape == "json":
        told, failed = json.loads(good), json.loads(bad)
        assert (told["id"], told["key"], told["ms"]) == ("mine", "a key", 250.0)
        assert (failed["level"], failed["status"], failed["ms"]) == ("warning", 503, 0.0)
    else:
        said = 'info request id=mine method=GET path=/r key="a key" status=200 ms=250.0'
        assert good.endswith(said)
        assert bad.endswith(
            "warning request id=bad method=GET path=/r status=503 ms=0.0 reason=not_ready"
        )
    text = metrics.text().decode()
    assert 'hasse_requests_total{route="/r",status="200"} 1.0' in text
    assert 'hasse_rejections_total{reason="not_ready"} 1.0' in text
    assert 'hasse_request_seconds_count{route="/r"} 1.0' in text, "only of what was let in"


def test_configure_writes_lines_from_its_level_on_and_those_of_the_server() -> None:
    out, elsewhere = io.StringIO(), io.StringIO()
    handler = logging.StreamHandler(elsewhere)
    logging.getLogger().addHandler(handler)
    try:
        logs.configure("json", "warning", out)
        logs.event("usual")
        logs.event("odd", logging.WARNING)
        logging.getLogger("asyncio").error("theirs")
        logs.flush(60)
    finally:
        logging.getLogger().removeHandler(handler)
    assert [json.loads(line)["event"] for line in out.getvalue().splitlines()] == ["odd", "theirs"]
    assert elsewhere.getvalue() == ""


def test_event_to_a_full_disk_is_lost_and_later_ones_are_written() -> None:
    class Disk(io.StringIO):
        full = True

        def write(self, words: str, /) -> int:
            if self.full:
                raise OSError(errno.ENOSPC, "No space left on device")
            return super().write(words)

    out = Disk()
    logs.configure("text", stream=out)
    for _ in range(100):
        logs.event("lost")
    logs.flush(60)
    out.full = False
    logs.event("kept", logging.WARNING)
    logs.flush(60)
    assert [line.split()[2] for line in out.getvalue().splitlines()] == ["kept"]


def test_event_to_a_reader_that_does_not_read_does_not_wait_and_fills_no_memory() -> None:
    reads = threading.Event()

    class Pipe(io.StringIO):
        def write(self, words: str, /) -> int:
            assert reads.wait(30)
            return super().write(words)

    out = Pipe()
    logs.configure("text", stream=out)
    for _ in range(30_000):
        logs.event("line")
    reads.set()
    logs.flush(30)
    assert 10_000 <= len(out.getvalue().splitlines()) <= 10_200


def test_flush_of_a_log_that_is_not_written_ends_in_time() -> None:
    reads = threading.Event()

    class Pipe(io.StringIO):
        def write(self, words: str, /) -> int:
            assert reads.wait(30)
            return super().write(words)

    logs.configure("text", stream=Pipe())
    logs.event("line")
    logs.flush(0.01)
    reads.set()
