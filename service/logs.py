"""One line for each request, and lines about the service itself, for people or for collectors."""

from __future__ import annotations

import json
import logging
import sys
import time
from collections.abc import Iterable
from contextlib import nullcontext
from functools import lru_cache
from typing import Any, Literal, TextIO

LOGGER = logging.getLogger("hasse")
_AT_ONCE = 64  # lines that are written together at the most
_SECONDS = 0.1  # for which a line may wait


def configure(
    shape: Literal["text", "json"], level: str = "info", stream: TextIO | None = None
) -> None:
    """Send the lines of this service to a stream (standard error), and nowhere else."""
    handler = Lines(stream or sys.stderr, JsonShape() if shape == "json" else TextShape())
    for old in list(LOGGER.handlers):
        LOGGER.removeHandler(old)
    LOGGER.addHandler(handler)
    LOGGER.setLevel(level.upper())
    LOGGER.propagate = False
    # Facts that no line shows, and that would be found out for each.
    logging.logThreads = logging.logProcesses = logging.logMultiprocessing = False


def event(message: str, level: int = logging.INFO, **facts: Any) -> None:
    """Write one line: what happened, and the facts of it by name."""
    if LOGGER.isEnabledFor(level):
        LOGGER.log(level, message, extra={"facts": facts})


def events(message: str, level: int, rows: Iterable[tuple[float, dict[str, Any]]]) -> None:
    """Write a line for each of many events of one kind: when they happened, and their facts.

    A third of the work of as many `event`, for those of which there are thousands a second.
    """
    if LOGGER.isEnabledFor(level):
        for handler in LOGGER.handlers:
            if isinstance(handler, Lines):
                handler.take(message, level, rows)


def flush() -> None:
    """Write the lines that wait; whoever logs many of them calls this several times a second."""
    for handler in LOGGER.handlers:
        handler.flush()


class Lines(logging.StreamHandler[TextIO]):
    """Writes lines that come soon after each other together, and bad news at once.

    Each write lets other threads go first, and there are thousands of lines a second where
    thousands of clients are refused.
    """

    def __init__(self, stream: TextIO, shape: Shape) -> None:
        super().__init__(stream)
        self.setFormatter(shape)
        self._shape = shape
        self._waiting: list[str] = []
        self._written = 0.0

    def emit(self, record: logging.LogRecord) -> None:
        """Take a line."""
        try:
            self._waiting.append(self.format(record) + self.terminator)
            late = record.created - self._written >= _SECONDS
            if late or record.levelno >= logging.WARNING or len(self._waiting) >= _AT_ONCE:
                self.flush()
        except Exception:
            self.handleError(record)

    def take(self, message: str, level: int, rows: Iterable[tuple[float, dict[str, Any]]]) -> None:
        """Take many lines; they are written with the next ones, or by `flush`."""
        line, name = self._shape.line, logging.getLevelName(level)
        with self.lock or nullcontext():
            self._waiting += [
                line(at, name, message, facts) + self.terminator for at, facts in rows
            ]

    def flush(self) -> None:
        """Write the lines that wait."""
        with self.lock or nullcontext():
            if self._waiting:
                self.stream.write("".join(self._waiting))
                self._waiting.clear()
                self._written = time.time()
            super().flush()


class Shape(logging.Formatter):
    """How a line looks."""

    def line(
        self,
        at: float,
        level: str,
        message: str,
        facts: dict[str, Any],
        exception: str | None = None,
    ) -> str:
        """Return the line of something that happened `at` a time of the clock."""
        raise NotImplementedError

    def format(self, record: logging.LogRecord) -> str:
        """Return the line of a record."""
        facts = getattr(record, "facts", {})
        exception = self.formatException(record.exc_info) if record.exc_info else None
        return self.line(record.created, record.levelname, record.getMessage(), facts, exception)


class JsonShape(Shape):
    """One JSON object for each line."""

    def line(
        self,
        at: float,
        level: str,
        message: str,
        facts: dict[str, Any],
        exception: str | None = None,
    ) -> str:
        """Return the line."""
        row = {"time": _clock(at), "level": level.lower(), "event": message, **facts}
        if exception is not None:
            row["exception"] = exception
        return json.dumps(row, default=str)


class TextShape(Shape):
    """Time, level, what happened, then name=value; values that could confuse are quoted."""

    def line(
        self,
        at: float,
        level: str,
        message: str,
        facts: dict[str, Any],
        exception: str | None = None,
    ) -> str:
        """Return the line."""
        parts = [_clock(at), level.lower(), message]
        parts += [f"{name}={_plain(value)}" for name, value in facts.items()]
        line = " ".join(parts)
        return line if exception is None else f"{line}\n{exception}"


def _clock(at: float) -> str:
    second = int(at)
    return f"{_second(second)}.{int((at - second) * 1000):03d}Z"


@lru_cache(maxsize=1)  # there may be thousands of lines in a second
def _second(since_1970: int) -> str:
    return time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(since_1970))


def _plain(value: Any) -> str:
    text = str(value)
    # Quoted and escaped, so that a client cannot write lines of its own into the log.
    return text if text.isascii() and text.isprintable() and " " not in text else json.dumps(text)
