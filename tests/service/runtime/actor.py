"""A worker process that plays a part, given in a folder, instead of serving an index."""

from __future__ import annotations

import json
import os
import signal
import sys
import time
from functools import partial
from pathlib import Path
from socket import socket

from hasse.service.runtime.sockets import ServeError
from hasse.service.runtime.workers import Worker
from hasse.service.settings import Settings


class Actor(Worker):
    """Takes the first part that no other process has taken.

    A part is "serves", until a signal comes; "dies" after it has served; "stands still" after it
    has served; or "fails" to start.
    """

    def __init__(self, folder: Path, port: socket, number: int) -> None:
        super().__init__(Settings(processes=2), partial(Settings, processes=2), port, number)
        self.folder = folder

    def serve(self) -> None:
        """Play the part."""
        for at, part in enumerate(json.loads((self.folder / "parts.json").read_text())):
            try:
                (self.folder / str(at)).touch(exist_ok=False)
            except FileExistsError:
                continue
            if part == "fails":
                raise ServeError(f"part {at} failed")
            self.child_conn.send(("serving", f"this is part {at}"))
            if part == "stands still":
                self.beat()
                os.kill(os.getpid(), signal.SIGSTOP)
            time.sleep(0.2 if part == "dies" else 600)  # SIGTERM ends it
            sys.exit(3)
        raise LookupError("there are more processes than parts")
