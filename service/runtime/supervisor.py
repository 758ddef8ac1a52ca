"""As many processes as are asked for behind one port, and one that does nothing but keep them.

Python runs one thread of a process at a time, so a service answers with several cores only by
several processes. The system shares the connections to the port out among them. They share
nothing else but the index, and each is `service.runtime.sibling`; one that ends is replaced.
"""

from __future__ import annotations

import logging
import os
import selectors
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from socket import socket
from tempfile import TemporaryDirectory
from types import FrameType
from typing import IO

from prometheus_client.multiprocess import mark_process_dead

from service.runtime import logs
from service.runtime.sibling import Orders, Report
from service.runtime.sockets import BACKLOG, Listens, ServeError, another, shared
from service.settings import Settings

_SIGNALS = (signal.SIGINT, signal.SIGTERM)
_SIBLING = "service.runtime.sibling"
_AGAIN_SECONDS = 5.0  # after which a process that could not begin is tried again


def serve(settings: Settings, say: Callable[[str], None] = print) -> None:
    """Serve until SIGTERM or Ctrl-C; return when everything in flight was answered.

    Args:
        settings: all limits and places, and the number of processes.
        say: gets a few lines for a person, once the service answers.

    Raises:
        ServeError: the port cannot be had, the engine cannot be opened, or, of one process alone,
            a worker died.
    """
    if settings.processes == 1:
        from service.runtime.server import serve as alone

        alone(settings, say)
        return
    if sys.platform != "linux":
        raise ServeError("several processes share a port on Linux only: leave processes at 1")
    logs.configure(settings.log_format, settings.log_level)
    with (
        shared(settings.host, settings.port) as port,
        TemporaryDirectory(prefix="hasse-metrics-") as metrics,
    ):
        Supervisor(settings, port, Path(metrics), say).run()


@dataclass(slots=True)
class _Sibling:
    place: int
    process: subprocess.Popen[str]
    orders: IO[str]
    reports: IO[str]
    serves: bool = False
    failure: str = ""

    def take(self, orders: Orders) -> None:
        """Hand over what to do. The pipe stays open: where it ends, so does the process."""
        with suppress(OSError):  # a process that has ended is heard of next
            self.orders.write(orders.model_dump_json() + "\n")
            self.orders.flush()

    def end(self) -> int:
        """Wait until the process has ended; return its status."""
        status = self.process.wait()
        self.reports.close()
        with suppress(OSError):
            self.orders.close()
        return status


class Supervisor:
    """Begins processes, replaces those that end, and stops all of them.

    Args:
        settings: those of each process.
        port: what the processes listen on; see `service.runtime.sockets.shared`.
        metrics: an empty folder, in which the processes count.
        say: gets the introduction of the first process, when all serve.
    """

    def __init__(
        self, settings: Settings, port: socket, metrics: Path, say: Callable[[str], None]
    ) -> None:
        self._settings = settings
        self._port = port
        self._metrics = metrics
        self._say = say
        self._siblings: dict[int, _Sibling] = {}  # by place
        self._due: dict[int, float] = {}  # when the process of a place is tried again
        self._selector = selectors.DefaultSelector()
        self._introduced = False
        self._stopping = False
        self._failure = ""

    def run(self) -> None:
        """Keep the processes until a signal comes and the last of them has ended.

        Raises:
            ServeError: none of them serves, or one ended badly when it was told to stop.
        """
        with self._selector, self._heeding():
            for place in range(self._settings.processes):
                self._begin(place, "at once")
            while self._siblings:
                for key, _ in self._selector.select(self._patience()):
                    self._hear(key.data)
                self._begin_again()
        if self._failure:
            raise ServeError(self._failure)

    @contextmanager
    def _heeding(self) -> Iterator[None]:
        """Stop the processes when a signal comes, and whatever happens here."""
        former = {number: signal.signal(number, self._on_signal) for number in _SIGNALS}
        try:
            yield
        finally:
            for number, handler in former.items():
                signal.signal(number, handler)
            for sibling in self._siblings.values():
                sibling.process.kill()
                sibling.end()

    def _on_signal(self, _number: int, _frame: FrameType | None) -> None:
        self._stop()

    def _stop(self) -> None:
        # Asked twice, they wait no longer for what is in flight.
        self._stopping = True
        self._due.clear()
        for sibling in list(self._siblings.values()):
            sibling.process.terminate()

    def _begin(self, place: int, listens: Listens) -> None:
        listener = another(self._port)
        # The first wait for nobody: who comes now is answered by them as soon as they can. Where
        # others serve, the system sends clients to them until this one listens itself.
        if listens == "at once":
            listener.listen(BACKLOG)
        with listener:
            process = subprocess.Popen(  # noqa: S603
                [sys.executable, "-m", _SIBLING],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                text=True,
                env=os.environ | {"PROMETHEUS_MULTIPROC_DIR": str(self._metrics)},
                pass_fds=[listener.fileno()],
                start_new_session=True,  # Ctrl-C is for the supervisor
            )
            orders = Orders(
                settings=self._settings,
                descriptor=listener.fileno(),
                cores=cores_of(place, self._settings.processes),
                listens=listens,
            )
        if process.stdin is None or process.stdout is None:
            raise TypeError("a process was begun without pipes")
        sibling = _Sibling(place, process, process.stdin, process.stdout)
        self._siblings[place] = sibling
        self._selector.register(sibling.reports, selectors.EVENT_READ, sibling)
        sibling.take(orders)
        if self._stopping:  # since the signal found it not in the list
            process.terminate()

    def _hear(self, sibling: _Sibling) -> None:
        line = sibling.reports.readline()
        if not line:
            self._ended(sibling)
            return
        report = Report.model_validate_json(line)
        sibling.failure = report.failure or ""
        if report.serving is not None:
            sibling.serves = True
            if not self._introduced and self._all_serve():
                self._introduced = True
                for words in report.serving:
                    self._say(words)

    def _ended(self, sibling: _Sibling) -> None:
        self._selector.unregister(sibling.reports)
        status = sibling.end()
        del self._siblings[sibling.place]
        pid = sibling.process.pid
        mark_process_dead(pid, str(self._metrics))  # type: ignore[no-untyped-call]
        why = sibling.failure or f"a process {_how(status)}; see the log"
        if self._stopping:
            # Before it could heed the signal it was ended by it.
            if status not in (0, -signal.SIGTERM):
                self._failure = self._failure or why
            return
        logs.event("process ended", logging.ERROR, place=sibling.place, pid=pid, reason=why)
        if sibling.serves:
            self._replace(sibling.place)
        else:
            self._not_begun(sibling.place, why)

    def _replace(self, place: int) -> None:
        try:
            self._begin(place, "when open")
        except (OSError, ServeError) as error:  # the system has no more processes or files
            logs.event("process not begun", logging.ERROR, place=place, reason=str(error))
            self._not_begun(place, str(error))

    def _not_begun(self, place: int, why: str) -> None:
        if any(sibling.serves for sibling in self._siblings.values()):
            self._due[place] = time.monotonic() + _AGAIN_SECONDS
        else:
            self._failure = self._failure or why
            self._stop()

    def _begin_again(self) -> None:
        now = time.monotonic()
        for place in [place for place, due in self._due.items() if due <= now]:
            del self._due[place]
            self._replace(place)

    def _patience(self) -> float | None:
        """Return the seconds until a process is tried again."""
        return max(0.0, min(self._due.values()) - time.monotonic()) if self._due else None

    def _all_serve(self) -> bool:
        return len(self._siblings) == self._settings.processes and all(
            sibling.serves for sibling in self._siblings.values()
        )


def _how(status: int) -> str:
    return f"was ended by signal {-status}" if status < 0 else f"ended with status {status}"


def cores_of(place: int, processes: int) -> list[int]:
    """Return the cores of one of some processes: neighbours, or all where there are too few."""
    every = sorted(os.sched_getaffinity(0))
    if processes > len(every):
        return every
    first, last = (at * len(every) // processes for at in (place, place + 1))
    return every[first:last]
