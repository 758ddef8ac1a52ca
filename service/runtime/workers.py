"""Worker processes on one port: uvicorn's, each with its share of the cores.

Python runs one thread of a process at a time, so a service uses several cores only with several
processes. They share the port, the index and the folder of metrics, and nothing else.
"""

from __future__ import annotations

import logging
import multiprocessing
import os
import signal
import sys
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from socket import socket
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING

from prometheus_client.multiprocess import mark_process_dead
from uvicorn import Config
from uvicorn.supervisors.multiprocess import Multiprocess, Process

from hasse.models.errors import HasseError
from hasse.service.runtime import hang_ups, logs
from hasse.service.runtime.sockets import ServeError, listen, reserve, share
from hasse.service.settings import Settings

if TYPE_CHECKING:  # it imports torch, which this process does not need
    from hasse.service.runtime.reloading import Reread

_STOP_SECONDS = 20.0  # after SIGTERM, until a worker is killed
_ROUND_SECONDS = 1.0  # most that one look at a worker counts, should this process stand still too


def serve(
    settings: Settings, say: Callable[[str], None] = print, reread: Reread | None = None
) -> None:
    """Serve until SIGTERM or Ctrl-C; return when all requests in flight are answered.

    Args:
        settings: all limits and paths, and the number of processes.
        say: gets a few lines for a person, once the service answers.
        reread: reads the settings again at SIGHUP; it is sent to other processes, too.

    Raises:
        ServeError: the port is taken, or the engine cannot be opened or has failed.
    """
    hang_ups.hold()
    logs.configure(settings.log_format, settings.log_level)
    reread = reread or partial(Settings.model_copy, settings)
    if settings.processes == 1:
        from hasse.service.runtime.server import run

        with listen(settings.host, settings.port) as listener:
            run(settings, listener, say, reread=reread)
        return
    if sys.platform != "linux":
        raise ServeError("several processes share a port on Linux only: leave processes at 1")
    with (
        reserve(settings.host, settings.port) as port,
        TemporaryDirectory(prefix="hasse-metrics-") as metrics,
    ):
        os.environ["PROMETHEUS_MULTIPROC_DIR"] = metrics  # the workers inherit it
        supervisor = Supervisor(settings.processes, partial(Worker, settings, reread, port), say)
        supervisor.run()
    if supervisor.failure:
        raise ServeError(supervisor.failure)


class Worker(Process):
    """A process that serves the port which all workers share.

    Args:
        settings: those of the service.
        reread: reads them again.
        port: a socket of the port, see `service.runtime.sockets.reserve`.
        number: which of the workers it is, from 0.
    """

    def __init__(self, settings: Settings, reread: Reread, port: socket, number: int) -> None:
        super().__init__(Config("", log_config=None), [port])
        self.process.daemon = True  # ends with the parent process, should that fail
        self.settings, self.reread, self.port, self.number = settings, reread, port, number
        self.introduction = self.failure = ""  # sent once it serves, and when it ends
        self.replace_at: float | None = None  # by the monotonic clock, once it has ended
        self.beats = multiprocessing.get_context("spawn").RawValue("Q", 0)
        self._seen_beats, self._seen_at, self._silent_seconds = 0, time.monotonic(), 0.0

    def target(self, sockets: list[socket] | None = None) -> None:
        """Serve, in the new process."""
        # Before any library makes as many threads as there are cores.
        if hasattr(os, "sched_setaffinity"):  # not on macOS
            every = sorted(os.sched_getaffinity(0))
            os.sched_setaffinity(0, cores_of(every, self.number, self.settings.processes))
        hang_ups.hold()
        with suppress(HasseError):  # this process may replace another after a reload
            self.settings.adopt(self.reread())
        logs.configure(self.settings.log_format, self.settings.log_level)
        threading.Thread(target=stop_with_parent, daemon=True).start()
        try:
            self.serve()
        except ServeError as error:
            self.child_conn.send(("failure", str(error)))
            sys.exit(1)

    def serve(self) -> None:
        """Serve until a signal comes, and send the parent process the introduction."""
        from hasse.service.runtime.server import run

        with share(self.port) as listener:
            run(
                self.settings,
                listener,
                lambda words: self.child_conn.send(("serving", words)),
                beat=self.beat,
                reread=self.reread,
            )

    def beat(self) -> None:
        """Show the parent process that this one does not stand still."""
        self.beats.value += 1

    def silence(self) -> float:
        """Return for how many seconds a worker that serves has not beaten, as far as was seen."""
        now = time.monotonic()
        self._silent_seconds += min(now - self._seen_at, _ROUND_SECONDS)
        if self.beats.value != self._seen_beats or not self.serves:
            self._silent_seconds = 0.0
        self._seen_beats, self._seen_at = self.beats.value, now
        return self._silent_seconds if self._seen_beats else 0.0

    @property
    def serves(self) -> bool:
        """Whether the worker has started and still runs."""
        return bool(self.introduction) and self.process.is_alive()

    def receive(self) -> None:
        """Read messages of the process."""
        while self.parent_conn.poll():
            kind, words = self.parent_conn.recv()
            if kind == "serving":
                self.introduction = words
            else:
                self.failure = words


class Supervisor(Multiprocess):
    """Starts workers, replaces those that end, and stops all of them on SIGTERM or Ctrl-C.

    A worker whose event loop stands still (a stopped process, a deadlock) is killed and replaced.

    Args:
        count: how many there are.
        make: makes the worker of a number, not yet started.
        say: gets the introduction of the first worker when all serve.
        retry_seconds: time between two attempts to replace a worker that cannot start.
        silent_seconds: longest silence of a worker that serves.
    """

    processes: list[Worker]  # type: ignore[assignment]

    def __init__(
        self,
        count: int,
        make: Callable[[int], Worker],
        say: Callable[[str], None],
        retry_seconds: float = 5.0,
        silent_seconds: float = 5.0,
    ) -> None:
        super().__init__(Config("", log_config=None), [])
        self.failure = ""  # why no worker serves
        self._count, self._make, self._say = count, make, say
        self._retry_seconds = retry_seconds
        self._silent_seconds = silent_seconds
        self._introduced = False
        signal.signal(signal.SIGHUP, self._hang_up)

    def init_processes(self) -> None:
        """Start all workers."""
        self.processes = [self._start(number) for number in range(self._count)]

    def keep_subprocess_alive(self) -> None:
        """Replace each worker that has ended, or stop where none serves and one cannot start."""
        for worker in self.processes:
            worker.receive()
        if not self._introduced and all(worker.introduction for worker in self.processes):
            self._introduced = True
            self._say(self.processes[0].introduction)
        self._kill_silent()
        for worker in self.processes:
            if not worker.process.is_alive() and not self.should_exit.is_set():
                if worker.replace_at is None:
                    self._note_end(worker)
                elif worker.replace_at <= time.monotonic():
                    self._replace(worker)

    def join_all(self) -> None:
        """Wait until all workers have ended, and kill those that stand still or take too long."""
        late = time.monotonic() + _STOP_SECONDS
        while any(worker.process.is_alive() for worker in self.processes):
            self._kill_silent()
            if time.monotonic() > late:
                for worker in self.processes:
                    worker.process.kill()
            time.sleep(0.05)
        super().join_all()

    def handle_signals(self) -> None:
        """Stop on a signal that ends a program, and ignore the others that uvicorn knows."""
        if {signal.SIGINT, signal.SIGTERM, signal.SIGHUP}.intersection(self.signal_queue):
            self.should_exit.set()

    def _hang_up(self, sig: int, _frame: object) -> None:
        """Pass SIGHUP on at once, unless it says that the terminal is gone."""
        if hang_ups.terminal_is_gone():
            self.signal_queue.append(sig)
            return
        for worker in self.processes:
            if worker.pid is not None and worker.process.is_alive():
                os.kill(worker.pid, sig)

    def _start(self, number: int) -> Worker:
        worker = self._make(number)
        # Workers inherit blocked signals: only this process handles Ctrl-C.
        before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
        try:
            worker.start()
        finally:
            signal.pthread_sigmask(signal.SIG_SETMASK, before)
        return worker

    def _kill_silent(self) -> None:
        for worker in self.processes:
            if worker.silence() > self._silent_seconds:
                logs.event("process stands still", logging.ERROR, number=worker.number)
                worker.process.kill()

    def _note_end(self, worker: Worker) -> None:
        worker.receive()
        worker.join()
        mark_process_dead(worker.pid)  # type: ignore[no-untyped-call]
        why = worker.failure or f"a process ended with status {worker.exitcode}; see the log"
        logs.event("process ended", logging.ERROR, number=worker.number, reason=why)
        worker.replace_at = time.monotonic() + (0 if worker.introduction else self._retry_seconds)
        if not worker.introduction and not any(other.serves for other in self.processes):
            self.failure = why
            self.should_exit.set()

    def _replace(self, worker: Worker) -> None:
        try:
            self.processes[worker.number] = self._start(worker.number)
        except OSError as error:  # the system has no more processes or files
            logs.event("process not started", logging.ERROR, reason=str(error))
            worker.replace_at = time.monotonic() + self._retry_seconds


def cores_of(cores: list[int], number: int, count: int) -> list[int]:
    """Return the cores of one of `count` workers: neighbours, or all where there are too few."""
    first, last = (at * len(cores) // count for at in (number, number + 1))
    return cores[first:last] if count <= len(cores) else cores


def stop_with_parent() -> None:
    """Wait for the parent process to end, then send SIGTERM to this one."""
    parent = multiprocessing.parent_process()
    if parent is not None:
        parent.join()
        os.kill(os.getpid(), signal.SIGTERM)
