"""Runs `hasse ocr` in the background with low priority: it reads the text in new pictures.

A library has one such process at a time. The text read so far is stored durably.
"""

from __future__ import annotations

import os
import subprocess
import sys
from contextlib import suppress
from importlib.util import find_spec
from pathlib import Path

from hasse.models.errors import pip_install

NICENESS = 10  # less important than searches and additions
ADVICE = f"text in pictures can be found by its words too: {pip_install('ocr')}"
_ALONE = "from hasse.service.cli.app import main; main()"
_WITH_PARENT = f"from hasse.models.lifeline import end_with_parent; end_with_parent(0); {_ALONE}"
_ADVICE_MARK = "ocr.told"  # a file of a library for which the advice was printed


class BackgroundReading:
    """Reads the text in the unread pictures of a library, in another process."""

    def __init__(self, library: Path) -> None:
        self._library = library
        self._process: subprocess.Popen[bytes] | None = None

    def start(self, *, detached: bool = False) -> bool:
        """Start the process unless it runs; return False if the extra `ocr` is missing.

        Ctrl-C in the terminal does not end a `detached` process.
        """
        if find_spec("rapidocr") is None:
            return False
        if self._process is None or self._process.poll() is not None:
            self.stop()
            self._process = subprocess.Popen(  # noqa: S603
                [
                    *(sys.executable, "-P", "-c", _ALONE if detached else _WITH_PARENT),
                    *("ocr", "--library", str(self._library)),
                ],
                stdin=subprocess.DEVNULL if detached else subprocess.PIPE,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                start_new_session=detached,
            )
            with suppress(OSError):  # the process has ended already
                os.setpriority(os.PRIO_PROCESS, self._process.pid, NICENESS)
        return True

    def stop(self) -> None:
        """End the process."""
        if self._process is not None:
            self._process.terminate()
            self._process.communicate()


def advice(library: Path) -> str | None:
    """Return the line that names the extra for text in pictures, once for each library."""
    mark = library / _ADVICE_MARK
    if mark.exists():
        return None
    with suppress(OSError):
        mark.touch()
    return ADVICE
