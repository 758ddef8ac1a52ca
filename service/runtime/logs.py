"""One line for each request, and lines about the service itself, for people or for collectors."""

from __future__ import annotations

import json
import logging
import sys
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import nullcontext, suppress
from functools import lru_cache
from select import PIPE_BUF
from typing import Any, Literal, NamedTuple, TextIO

LOGGER = logging.getLogger("hasse")
# Whose warnings would else stand between our lines in a shape of their own.
_OTHERS = ("asyncio", "uvicorn")
_AT_ONCE = 64  # lines that are written together at the most
_SECONDS = 0.1  # for which a line may wait
_TRACES = logging.Formatter()
# In a line that many share, what stands for the time, the id and the milliseconds of each.
_NEVER, _ID, _MS = 0.0, "ID", 1234567.5


class Line(NamedTuple):
    """What a line tells: when it was, by the clock, what happened, and the facts of it by name."""

    at: float
    level: int
    message: str
    facts: dict[str, Any]
    exception: str | None = None


def configure(
    shape: Literal["text", "json"], level: str = "info", stream: TextIO | None = None
) -> None:
    """Send the lines of this service to a stream (standard error), and nowhere else."""
    handler = Lines(stream or sys.stderr, _json if shape == "json" else _text)
    for logger in (LOGGER, *map(logging.getLogger, _OTHERS)):
        for old in list(logger.handlers):
            logger.removeHandler(old)
        logger.addHandler(handler)
        logger.propagate = False
    LOGGER.setLevel(level.upper())
    # Facts that no line shows, and that would be found out for each.
    logging.logThreads = logging.logProcesses = logging.logMultiprocessing = False


def event(message: str, level: int = logging.INFO, **facts: Any) -> None:
    """Write one line: what happened, and the facts of it by name."""
    if LOGGER.isEnabledFor(level):
        LOGGER.log(level, message, extra={"facts": facts})


def events(
    message: str, level: int, facts: dict[str, Any], each: Iterable[tuple[float, str, float]]
) -> None:
    """Write many lines at once, which costs a fraction of an `event` each.

    They differ in their time, `id` (letters, digits, dots and dashes) and `ms`, which `each` gives
    in this order. `facts` are what all say; it has an `id` and an `ms` too, which hold their places
    in the line, `id` before all that a client may have said.
    """
    if LOGGER.isEnabledFor(level):
        for handler in LOGGER.handlers:
            if isinstance(handler, Lines):
                handler.take(Line(_NEVER, level, message, facts | {"id": _ID, "ms": _MS}), each)


def flush() -> None:
    """Write the lines that wait; whoever logs many of them calls this several times a second."""
    for handler in LOGGER.handlers:
        handler.flush()


class Lines(logging.StreamHandler[TextIO]):
    """Writes lines that come soon after each other together, and bad news at once.

    Each write lets other threads go first, and there are thousands of lines a second where
    thousands of clients are refused.
    """

    def __init__(self, stream: TextIO, shape: Callable[[Line], str]) -> None:
        super().__init__(stream)
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

    def format(self, record: logging.LogRecord) -> str:
        """Return the line of a record."""
        exception = _TRACES.formatException(record.exc_info) if record.exc_info else None
        facts = getattr(record, "facts", {})
        message = record.getMessage()
        return self._shape(Line(record.created, record.levelno, message, facts, exception))

    def take(self, alike: Line, each: Iterable[tuple[float, str, float]]) -> None:
        """Take many lines, see `events`; good news is written with the next ones, or by `flush`."""
        before, _, rest = (self._shape(alike) + self.terminator).partition(_clock(_NEVER))
        upto_id, _, rest = rest.partition(_ID)
        # From behind, since what a client said lies between.
        upto_ms, _, after = rest.rpartition(str(_MS))
        taken = []
        said, last = "", None
        for at, name, ms in each:
            if at != last:  # many are of one moment
                said, last = f"{before}{_clock(at)}{upto_id}", at
            taken.append(f"{said}{name}{upto_ms}{round(ms, 2)}{after}")
        with self.lock or nullcontext():
            self._waiting += taken
        if alike.level >= logging.WARNING:
            self.flush()

    def flush(self) -> None:
        """Write the lines that wait; those for which the stream has no room are lost.

        Neither a full disk nor a reader who left may end the service, or fill its memory.
        """
        with self.lock or nullcontext(), suppress(OSError):
            if self._waiting:
                lines, self._waiting = self._waiting, []
                self._written = time.time()
                for words in _pieces(lines):
                    self.stream.write(words)
                    self.stream.flush()
            super().flush()


def _pieces(lines: Iterable[str]) -> Iterator[str]:
    """Put lines together that a pipe takes in one piece, which several processes may write to."""
    piece: list[str] = []
    room = PIPE_BUF
    for line in lines:
        if len(line) > room and piece:
            yield "".join(piece)
            piece, room = [], PIPE_BUF
        piece.append(line)
        room -= len(line)
    yield "".join(piece)


def _json(line: Line) -> str:
    row = {
        "time": _clock(line.at),
        "level": logging.getLevelName(line.level).lower(),
        "event": line.message,
        **line.facts,
    }
    if line.exception is not None:
        row["exception"] = line.exception
    return json.dumps(row, default=str)


def _text(line: Line) -> str:
    # Values that could confuse are quoted.
    parts = [_clock(line.at), logging.getLevelName(line.level).lower(), line.message]
    parts += [f"{name}={_plain(value)}" for name, value in line.facts.items()]
    words = " ".join(parts)
    return words if line.exception is None else f"{words}\n{line.exception}"


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
