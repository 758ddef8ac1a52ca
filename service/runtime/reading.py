"""A process in the background that reads the text in new pictures: `hasse ocr`, with low priority.

It is one process for a library, whoever starts it, and what it has read so far is durable.
"""

from __future__ import annotations

import os
import subprocess
import sys
from contextlib import suppress
from importlib.util import find_spec
from pathlib import Path

from hasse.models.errors import pip_install

NICENESS = 10  # searches and additions come first
ADVICE = f"text in pictures can be found by its words too: {pip_install('ocr')}"
_TOLD = "ocr.told"  # a file of a library whose owner was told of the extra


class BackgroundReading:
    """Reads the text in pictures of a library that was not read yet, in a process of its own."""

    def __init__(self, library: Path) -> None:
        self._library = library
        self._process: subprocess.Popen[bytes] | None = None

    def start(self, *, outlives: bool = False) -> bool:
        """Start the process, unless it runs; tell whether one runs, which needs the extra `ocr`.

        A process that `outlives` this one is not ended by Ctrl-C in its terminal.
        """
        if find_spec("rapidocr") is None:
            return False
        if self._process is None or self._process.poll() is not None:
            self._process = subprocess.Popen(  # noqa: S603
                [sys.executable, "-m", "hasse", "ocr", "--library", str(self._library)],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                start_new_session=outlives,
            )
            with suppress(OSError):  # it has ended
                os.setpriority(os.PRIO_PROCESS, self._process.pid, NICENESS)
        return True

    def stop(self) -> None:
        """End the process."""
        if self._process is not None:
            self._process.terminate()
            self._process.wait()


def advice(library: Path) -> str | None:
    """Return, once for a library, the line that says which extra reads text in pictures."""
    told = library / _TOLD
    if told.exists():
        return None
    with suppress(OSError):
        told.touch()
    return ADVICE
