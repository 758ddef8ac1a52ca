"""One line for each request, and lines about the service itself, for people or for collectors."""

from __future__ import annotations

import json
import logging
import sys
import time
from typing import Any, Literal, TextIO

LOGGER = logging.getLogger("hasse")


def configure(
    shape: Literal["text", "json"], level: str = "info", stream: TextIO | None = None
) -> None:
    """Send the lines of this service to a stream (standard error), and nowhere else."""
    handler = logging.StreamHandler(stream or sys.stderr)
    handler.setFormatter(JsonFormatter() if shape == "json" else TextFormatter())
    for old in list(LOGGER.handlers):
        LOGGER.removeHandler(old)
    LOGGER.addHandler(handler)
    LOGGER.setLevel(level.upper())
    LOGGER.propagate = False


def event(message: str, level: int = logging.INFO, **facts: Any) -> None:
    """Write one line: what happened, and the facts of it by name."""
    if LOGGER.isEnabledFor(level):
        LOGGER.log(level, message, extra={"facts": facts})


class JsonFormatter(logging.Formatter):
    """One JSON object for each line."""

    def format(self, record: logging.LogRecord) -> str:
        """Return the line."""
        row = {
            "time": _clock(record),
            "level": record.levelname.lower(),
            "event": record.getMessage(),
            **getattr(record, "facts", {}),
        }
        if record.exc_info:
            row["exception"] = self.formatException(record.exc_info)
        return json.dumps(row, default=str)


class TextFormatter(logging.Formatter):
    """Time, level, what happened, then name=value; values that could confuse are quoted."""

    def format(self, record: logging.LogRecord) -> str:
        """Return the line."""
        facts = getattr(record, "facts", {})
        parts = [_clock(record), record.levelname.lower(), record.getMessage()]
        parts += [f"{name}={_plain(value)}" for name, value in facts.items()]
        line = " ".join(parts)
        if record.exc_info:
            line += "\n" + self.formatException(record.exc_info)
        return line


def _clock(record: logging.LogRecord) -> str:
    seconds = time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(record.created))
    return f"{seconds}.{int(record.msecs):03d}Z"


def _plain(value: Any) -> str:
    text = str(value)
    # Quoted and escaped, so that a client cannot write lines of its own into the log.
    return text if text.isascii() and text.isprintable() and " " not in text else json.dumps(text)
