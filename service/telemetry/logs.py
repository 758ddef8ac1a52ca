"""Writes log lines as text or JSON: one for each request, and events of the service."""

from __future__ import annotations

import atexit
import json
import logging
import sys
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from functools import lru_cache
from logging.handlers import QueueHandler, QueueListener
from queue import SimpleQueue
from select import PIPE_BUF
from typing import Any, Literal, TextIO

LOGGER = logging.getLogger("hasse")
# Loggers whose warnings would otherwise have another format than our lines.
_LIBRARY_LOGGERS = ("asyncio", "opentelemetry", "uvicorn")
_MAX_QUEUED = 10_000  # records that wait for the writing thread; beyond them, new ones are lost
_TRACEBACKS = logging.Formatter()
_REST_SECONDS = 0.02  # of the writing thread, so that it is not woken for each of many lines
_queue: SimpleQueue[logging.LogRecord] = SimpleQueue()
_listener: QueueListener | None = None


def configure(
    shape: Literal["text", "json"], level: str = "info", stream: TextIO | None = None
) -> None:
    """Send the lines of this service to a stream (by default standard error), and nowhere else.

    A thread writes them, so that a slow reader of the log does not delay requests.
    """
    global _listener  # noqa: PLW0603 - logging is one for a process
    if _listener is not None:
        _listener.stop()
    handler = _Lines(stream or sys.stderr, _json if shape == "json" else _text)
    _listener = _Listener(_queue, handler)
    _listener.start()
    for logger in (LOGGER, *map(logging.getLogger, _LIBRARY_LOGGERS)):
        for old in list(logger.handlers):
            logger.removeHandler(old)
        logger.addHandler(_Enqueue(_queue))
        logger.propagate = False
    set_level(level)
    # No log line shows these facts, and each costs time.
    logging.logThreads = logging.logProcesses = logging.logMultiprocessing = False


def set_level(level: str) -> None:
    """Set the lowest level of lines that are written."""
    LOGGER.setLevel(level.upper())


def event(message: str, level: int = logging.INFO, **facts: Any) -> None:
    """Log an event, with named facts."""
    if LOGGER.isEnabledFor(level):
        # `LOGGER.log` would look up the caller, which no line shows.
        record = logging.LogRecord(LOGGER.name, level, "", 0, message, None, None)
        record.__dict__["facts"] = facts
        LOGGER.handle(record)


def flush(seconds: float = 1.0) -> None:
    """Wait until the lines logged so far are written, or the timeout ends."""
    if _listener is not None:
        marker, written = logging.makeLogRecord({}), threading.Event()
        marker.__dict__["written"] = written
        _queue.put(marker)
        written.wait(seconds)


atexit.register(flush)


class _Enqueue(QueueHandler):
    """Passes records to the writing thread."""

    def prepare(self, record: logging.LogRecord) -> logging.LogRecord:
        """Return the record unchanged: the thread formats it."""
        return record

    def enqueue(self, record: logging.LogRecord) -> None:
        """Queue a record; drop it if the queue is full."""
        if _queue.qsize() < _MAX_QUEUED:
            _queue.put(record)


class _Listener(QueueListener):
    """Writes queued records, then rests, because each wake-up interrupts the requests."""

    def dequeue(self, block: bool) -> logging.LogRecord:
        """Return the next record."""
        if _queue.empty():
            time.sleep(_REST_SECONDS)
        return super().dequeue(block)


class _Lines(logging.StreamHandler[TextIO]):
    """Writes a line for each record."""

    def __init__(self, stream: TextIO, shape: Callable[[logging.LogRecord], str]) -> None:
        super().__init__(stream)
        self._shape = shape
        self._lines: list[str] = []  # are written together

    def format(self, record: logging.LogRecord) -> str:
        """Return the line of a record."""
        return self._shape(record)

    def emit(self, record: logging.LogRecord) -> None:
        """Write a line together with the buffered ones; drop lines that the stream refuses.

        Neither a full disk nor a closed pipe may end the service.
        """
        if (written := getattr(record, "written", None)) is not None:
            self.flush()
            written.set()
            return
        try:
            line = self.format(record) + self.terminator
        except Exception:
            self.handleError(record)
            return
        # Each write interrupts requests. Up to PIPE_BUF, writes of several processes do not mix.
        if sum(map(len, self._lines)) + len(line) > PIPE_BUF:
            self.flush()
        self._lines.append(line)
        if _queue.empty():
            self.flush()

    def flush(self) -> None:
        """Write the buffered lines."""
        with suppress(OSError, ValueError):  # ValueError: the stream is closed
            lines, self._lines = "".join(self._lines), []
            self.stream.write(lines)
            self.stream.flush()


def _json(record: logging.LogRecord) -> str:
    row = {
        "time": _clock(record.created),
        "level": record.levelname.lower(),
        "event": record.getMessage(),
        **getattr(record, "facts", {}),
    }
    if record.exc_info:
        row["exception"] = _TRACEBACKS.formatException(record.exc_info)
    return json.dumps(row, default=str)


def _text(record: logging.LogRecord) -> str:
    parts = [_clock(record.created), record.levelname.lower(), record.getMessage()]
    facts = getattr(record, "facts", {})
    parts += [f"{name}={_plain(value)}" for name, value in facts.items()]
    words = " ".join(parts)
    return f"{words}\n{_TRACEBACKS.formatException(record.exc_info)}" if record.exc_info else words


def _clock(at: float) -> str:
    second = int(at)
    return f"{_second(second)}.{int((at - second) * 1000):03d}Z"


@lru_cache(maxsize=1)
def _second(since_1970: int) -> str:
    return time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(since_1970))


def _plain(value: Any) -> str:
    text = str(value)
    # Quoted and escaped, so that a client cannot write lines of its own into the log.
    return text if text.isascii() and text.isprintable() and " " not in text else json.dumps(text)
