"""Runs several worker processes on one port, each with its share of the cores.

Python runs one thread of a process at a time, so a service uses several cores only with several
processes. They share only the port, the index and the folder of metrics.
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
from hasse.service.runtime import hang_ups
from hasse.service.runtime.sockets import ServeError, listen, reserve, share
from hasse.service.settings import Settings
from hasse.service.telemetry import logs

if TYPE_CHECKING:  # it imports torch, which this process does not need
    from hasse.service.runtime.reloading import Reread

_STOP_SECONDS = 20.0  # after SIGTERM, until a worker is killed
_MAX_ROUND_SECONDS = 1.0  # counted between two checks, because this process may stand still too


def serve(
    settings: Settings, announce: Callable[[str], None] = print, reread: Reread | None = None
) -> None:
    """Serve until SIGTERM or Ctrl-C; return when all requests in flight are answered.

    Args:
        settings: all limits and paths, and the number of processes.
        announce: receives the startup message when searches are answered.
        reread: reads the settings again at SIGHUP; it must be picklable, for other processes.

    Raises:
        ServeError: the port is taken, or the engine cannot be opened or has failed.
    """
    hang_ups.hold()
    logs.configure(settings.log_format, settings.log_level)
    reread = reread or partial(Settings.model_copy, settings)
    if settings.processes == 1:
        from hasse.service.runtime.server import run

        with listen(settings.host, settings.port) as listener:
            run(settings, listener, announce, reread=reread)
        return
    if sys.platform != "linux":
        raise ServeError("several processes share a port on Linux only: leave processes at 1")
    with (
        reserve(settings.host, settings.port) as port,
        TemporaryDirectory(prefix="hasse-metrics-") as metrics,
    ):
        os.environ["PROMETHEUS_MULTIPROC_DIR"] = metrics  # the workers inherit it
        supervisor = Supervisor(
            settings.processes, partial(Worker, settings, reread, port), announce
        )
        supervisor.run()
    if supervisor.failure:
        raise ServeError(supervisor.failure)


class Worker(Process):
    """A process that serves the shared port.

    Args:
        settings: the settings of the service.
        reread: reads the settings again.
        port: a socket of the port, see `service.runtime.sockets.reserve`.
        number: the number of this worker, from 0.
    """

    def __init__(self, settings: Settings, reread: Reread, port: socket, number: int) -> None:
        super().__init__(Config("", log_config=None), [port])
        self.process.daemon = True  # ends with the parent process, also if that fails
        self.settings, self.reread, self.port, self.number = settings, reread, port, number
        self.startup_message = self.failure = ""  # sent when it serves, and when it fails
        self.replace_at: float | None = None  # by the monotonic clock, after it has ended
        self.beats = multiprocessing.get_context("spawn").RawValue("Q", 0)
        self._seen_beats, self._seen_at, self._silent_seconds = 0, time.monotonic(), 0.0

    def target(self, sockets: list[socket] | None = None) -> None:
        """Serve, in the new process."""
        # Set first, because libraries make as many threads as there are cores.
        if hasattr(os, "sched_setaffinity"):  # not on macOS
            cores = sorted(os.sched_getaffinity(0))
            os.sched_setaffinity(0, cores_of(cores, self.number, self.settings.processes))
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
        """Serve until a signal comes, and send the startup message to the parent process."""
        from hasse.service.runtime.server import run

        with share(self.port) as listener:
            run(
                self.settings,
                listener,
                lambda message: self.child_conn.send(("serving", message)),
                beat=self.beat,
                reread=self.reread,
            )

    def beat(self) -> None:
        """Show the parent process that the event loop runs."""
        self.beats.value += 1

    def measure_silence(self) -> float:
        """Return the seconds since a serving worker's last beat, as far as this process saw."""
        now = time.monotonic()
        self._silent_seconds += min(now - self._seen_at, _MAX_ROUND_SECONDS)
        if self.beats.value != self._seen_beats or not self.is_serving:
            self._silent_seconds = 0.0
        self._seen_beats, self._seen_at = self.beats.value, now
        return self._silent_seconds if self._seen_beats else 0.0

    @property
    def is_serving(self) -> bool:
        """Whether the worker has started and still runs."""
        return bool(self.startup_message) and self.process.is_alive()

    def receive(self) -> None:
        """Read messages of the process."""
        while self.parent_conn.poll():
            kind, message = self.parent_conn.recv()
            if kind == "serving":
                self.startup_message = message
            else:
                self.failure = message


class Supervisor(Multiprocess):
    """Starts workers, replaces those that end, and stops all of them on SIGTERM or Ctrl-C.

    A worker whose event loop stands still (a stopped process, a deadlock) is killed and replaced.

    Args:
        count: the number of workers.
        make: makes the worker of a number, not yet started.
        announce: receives the startup message of the first worker when all serve.
        retry_seconds: time between two attempts to replace a worker that cannot start.
        silent_seconds: longest silence of a serving worker.
    """

    processes: list[Worker]  # type: ignore[assignment]

    def __init__(
        self,
        count: int,
        make: Callable[[int], Worker],
        announce: Callable[[str], None],
        retry_seconds: float = 5.0,
        silent_seconds: float = 5.0,
    ) -> None:
        super().__init__(Config("", log_config=None), [])
        self.failure = ""  # why no worker serves
        self._count, self._make, self._announce = count, make, announce
        self._retry_seconds = retry_seconds
        self._silent_seconds = silent_seconds
        self._announced = False
        signal.signal(signal.SIGHUP, self._hang_up)

    def init_processes(self) -> None:
        """Start all workers."""
        self.processes = [self._start(number) for number in range(self._count)]

    def keep_subprocess_alive(self) -> None:
        """Replace each worker that has ended; stop if none serves and one cannot start."""
        for worker in self.processes:
            worker.receive()
        if not self._announced and all(worker.startup_message for worker in self.processes):
            self._announced = True
            self._announce(self.processes[0].startup_message)
        self._kill_silent()
        for worker in self.processes:
            if not worker.process.is_alive() and not self.should_exit.is_set():
                if worker.replace_at is None:
                    self._note_end(worker)
                elif worker.replace_at <= time.monotonic():
                    self._replace(worker)

    def join_all(self) -> None:
        """Wait until all workers have ended; kill those that stand still or take too long."""
        deadline = time.monotonic() + _STOP_SECONDS
        while any(worker.process.is_alive() for worker in self.processes):
            self._kill_silent()
            if time.monotonic() > deadline:
                for worker in self.processes:
                    worker.process.kill()
            time.sleep(0.05)
        super().join_all()

    def handle_signals(self) -> None:
        """Stop on a signal that ends a program; ignore the other signals that uvicorn handles."""
        if {signal.SIGINT, signal.SIGTERM, signal.SIGHUP}.intersection(self.signal_queue):
            self.should_exit.set()

    def _hang_up(self, sig: int, _frame: object) -> None:
        """Send SIGHUP to all workers, or stop if the terminal was closed."""
        if hang_ups.terminal_is_gone():
            self.signal_queue.append(sig)
            return
        for worker in self.processes:
            if worker.pid is not None and worker.process.is_alive():
                os.kill(worker.pid, sig)

    def _start(self, number: int) -> Worker:
        worker = self._make(number)
        # Workers inherit blocked signals, so only this process handles Ctrl-C.
        mask = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
        try:
            worker.start()
        finally:
            signal.pthread_sigmask(signal.SIG_SETMASK, mask)
        return worker

    def _kill_silent(self) -> None:
        for worker in self.processes:
            if worker.measure_silence() > self._silent_seconds:
                logs.event("process stands still", logging.ERROR, number=worker.number)
                worker.process.kill()

    def _note_end(self, worker: Worker) -> None:
        worker.receive()
        worker.join()
        mark_process_dead(worker.pid)  # type: ignore[no-untyped-call]
        reason = worker.failure or f"a process ended with status {worker.exitcode}; see the log"
        logs.event("process ended", logging.ERROR, number=worker.number, reason=reason)
        worker.replace_at = time.monotonic() + (
            0 if worker.startup_message else self._retry_seconds
        )
        if not worker.startup_message and not any(process.is_serving for process in self.processes):
            self.failure = reason
            self.should_exit.set()

    def _replace(self, worker: Worker) -> None:
        try:
            self.processes[worker.number] = self._start(worker.number)
        except OSError as error:  # the system has no more processes or files
            logs.event("process not started", logging.ERROR, reason=str(error))
            worker.replace_at = time.monotonic() + self._retry_seconds


def cores_of(cores: list[int], number: int, count: int) -> list[int]:
    """Return the cores of one of `count` workers: consecutive ones, or all if there are too few."""
    first, last = (at * len(cores) // count for at in (number, number + 1))
    return cores[first:last] if count <= len(cores) else cores


def stop_with_parent() -> None:
    """Wait for the parent process to end, then send SIGTERM to this one."""
    parent = multiprocessing.parent_process()
    if parent is not None:
        parent.join()
        os.kill(os.getpid(), signal.SIGTERM)
