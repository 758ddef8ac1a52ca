"""Server of one process: startup, startup message and graceful shutdown."""

from __future__ import annotations

import asyncio
import ctypes
import gc
import logging
import os
import signal
import socket
import sys
import threading
from collections.abc import Callable
from contextlib import suppress
from types import FrameType

import uvicorn
from fastapi import FastAPI

from hasse.service.app import SEARCH_ROUTES, create_app
from hasse.service.core import about
from hasse.service.core.engine import Engine
from hasse.service.core.readiness import Phase
from hasse.service.http.connection import connections_of
from hasse.service.http.lifespan import Open
from hasse.service.http.services import services_of
from hasse.service.runtime import hang_ups
from hasse.service.runtime.reloading import Reloading, Reread
from hasse.service.runtime.sockets import BACKLOG, ServeError, address_of
from hasse.service.settings import Settings
from hasse.service.telemetry import logs
from hasse.service.telemetry.collector import traces_of

# After this time an idle connection is closed, and a connection with an incomplete request head.
KEEP_ALIVE_SECONDS = 10
# Time for threads to end, after requests in flight had `shutdown_seconds`.
_CLOSE_SECONDS = 4
_BEAT_SECONDS = 0.25
_M_ARENA_MAX = -8  # of mallopt(3)


def run(
    settings: Settings,
    listener: socket.socket,
    announce: Callable[[str], None],
    open_engine: Open = Engine.open,
    beat: Callable[[], None] = lambda: None,
    reread: Reread | None = None,
) -> None:
    """Serve on a socket until a signal comes; return when all requests in flight are answered.

    Args:
        settings: all limits.
        listener: the bound socket.
        announce: receives the startup message when searches are answered.
        open_engine: opens the engine.
        beat: called a few times a second while the event loop runs.
        reread: reads the settings again at SIGHUP; by default they stay the same.

    Raises:
        ServeError: the engine cannot be opened, or a worker thread died.
    """
    _tune_process()
    failures: list[str] = []

    def on_failure(sentence: str) -> None:
        failures.append(sentence)
        server.should_exit = True

    traces = traces_of()
    app = create_app(settings, open_engine, on_failure, traces)
    server = _Server(
        app,
        settings,
        lambda engine: announce(about.startup_message(engine, address_of(listener))),
        beat,
        Reloading(services_of(app), reread or (lambda: settings)),
    )
    try:
        server.run([listener])
    finally:
        # After a forced exit the timer keeps running, because Python waits for the other threads.
        if not server.force_exit:
            if traces is not None:
                traces.close()
            server.exit_timer.cancel()
        gc.unfreeze()  # libraries warn of objects left at exit
        logs.event("stopped")
    if failures:
        raise ServeError(failures[0])


class _Server(uvicorn.Server):
    """Fails readiness before it closes the port, and exits with status 0 on SIGTERM."""

    def __init__(
        self,
        app: FastAPI,
        settings: Settings,
        on_serving: Callable[[Engine], None],
        beat: Callable[[], None],
        reloading: Reloading,
    ) -> None:
        services = services_of(app)
        super().__init__(
            uvicorn.Config(
                app,
                http=connections_of(services, SEARCH_ROUTES),
                interface="asgi3",
                proxy_headers=False,
                access_log=False,
                log_config=None,
                server_header=False,
                lifespan="on",
                backlog=BACKLOG,
                timeout_keep_alive=KEEP_ALIVE_SECONDS,
                timeout_graceful_shutdown=max(1, round(settings.shutdown_seconds)),
            )
        )
        self._drain_seconds = settings.drain_seconds
        self._readiness = services.readiness
        self._metrics = services.metrics
        self._on_serving = on_serving
        self._beat = beat
        self._reloading = reloading
        self._announced = self._stop_requested = self._stopping = False
        limit = settings.drain_seconds + settings.shutdown_seconds + _CLOSE_SECONDS
        self.exit_timer = threading.Timer(limit, _exit)
        self.exit_timer.daemon = True

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """Start, and beat until the event loop ends."""
        self._keep_beating()
        if threading.current_thread() is threading.main_thread() and sys.platform != "win32":
            asyncio.get_running_loop().add_signal_handler(signal.SIGHUP, self._hang_up)
            if hang_ups.was_missed():
                self._hang_up()
        await super().startup(sockets)

    def _hang_up(self) -> None:
        if hang_ups.terminal_is_gone():
            self.handle_exit(signal.SIGHUP, None)
        else:
            self._reloading.reload()

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        """Remember a signal to stop; a second signal stops at once."""
        if self._stop_requested:
            self.force_exit = True
            return
        self._stop_requested = True
        self.exit_timer.start()

    async def on_tick(self, counter: int) -> bool:
        """Begin to stop, announce the service, update metrics; called ten times a second."""
        if self._stop_requested and not self._stopping:
            self._stopping = True
            logs.event("stopping")
            self._readiness.phase = Phase.STOPPING
            # Clients that connect before they see the service as not ready are still answered.
            drain = self._drain_seconds if self._readiness.engine is not None else 0
            asyncio.get_running_loop().call_later(drain, self._close)
        engine = self._readiness.engine
        if engine is not None and self._readiness.phase is Phase.SERVING and not self._announced:
            self._announced = True
            _freeze()
            self._on_serving(engine)
        self._metrics.update_gauges()
        return await super().on_tick(counter)

    def _close(self) -> None:
        self.should_exit = True

    def _keep_beating(self) -> None:
        self._beat()
        asyncio.get_running_loop().call_later(_BEAT_SECONDS, self._keep_beating)


def _tune_process() -> None:
    # How long the event loop waits for a thread that runs Python, several times in each request.
    # With Python's default of 5 ms, /livez beside 64 costly searches took up to twice as long.
    sys.setswitchinterval(0.001)
    if sys.platform != "linux":
        return
    # With SCHED_BATCH a thread that wakes does not interrupt a running one. A request wakes four
    # threads, and takes 15 % more processor time if they interrupt each other.
    with suppress(OSError):  # a container may forbid it
        os.sched_setscheduler(0, os.SCHED_BATCH, os.sched_param(0))
    # Like MALLOC_ARENA_MAX=2 in the environment. By default the C library gives each thread an
    # arena, which never shrinks.
    with suppress(OSError, AttributeError):  # another C library
        ctypes.CDLL(None).mallopt(_M_ARENA_MAX, 2)


def _freeze() -> None:
    # A full garbage collection over all loaded objects blocks requests for a tenth of a second.
    gc.collect()
    gc.freeze()
    gc.set_threshold(20_000)


def _exit() -> None:
    # A thread blocked in the database cannot be cancelled. Acknowledged writes are on the disk, and
    # a transaction of the thread is committed completely or not at all.
    logs.event("not waited for any longer", logging.WARNING)
    logs.event("stopped")
    logs.flush()
    os._exit(0)
