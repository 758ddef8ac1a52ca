"""Serve by one process: a clean start and a clean stop."""

from __future__ import annotations

import asyncio
import gc
import logging
import os
import signal
import socket
import threading
from collections.abc import Callable

import uvicorn
from fastapi import FastAPI

from service.app import create_app
from service.core.engine import Engine
from service.door import door
from service.heaps import share_heaps
from service.http.middleware import Record
from service.runtime import about, logs
from service.runtime.metrics import Metrics
from service.runtime.readiness import Phase, Readiness
from service.runtime.sockets import BACKLOG, Listens, ServeError, address_of, listen
from service.scheduling import take_long_turns
from service.settings import Settings

_SIGNALS = (signal.SIGINT, signal.SIGTERM)
# For which a connection may rest, and within which the head of a request has to come.
KEEP_ALIVE_SECONDS = 10
# After what was in flight, the time that threads have to end what they do.
_CLOSE_SECONDS = 4
# Objects made and not freed before garbage is looked for among them; a request makes hundreds.
_GARBAGE = 20_000


def serve(settings: Settings, say: Callable[[str], None] = print) -> None:
    """Serve until SIGTERM or Ctrl-C; return when everything in flight was answered.

    Args:
        settings: all limits and places.
        say: gets a few lines for a person, once the service answers.

    Raises:
        ServeError: the port cannot be had, the engine cannot be opened, or a worker died.
    """
    logs.configure(settings.log_format, settings.log_level)

    def introduce(engine: Engine) -> None:
        for line in about.lines(engine, address_of(listener)):
            say(line)

    with listen(settings.host, settings.port) as listener:
        run(settings, listener, introduce)


def run(
    settings: Settings,
    listener: socket.socket,
    on_serving: Callable[[Engine], None],
    *,
    listens: Listens = "at once",
    lifeline: int | None = None,
) -> None:
    """Serve on a socket until a signal comes; return when everything in flight was answered.

    Args:
        settings: all limits; where to listen is the socket's.
        listener: the socket, bound.
        on_serving: told once when searches are answered.
        listens: from when on connections are taken.
        lifeline: a descriptor at the other end of which is who began this process: where it ends,
            so does the service, as by a signal.

    Raises:
        ServeError: the engine cannot be opened, or a worker died.
    """
    take_long_turns()
    share_heaps()
    failures: list[str] = []
    server: _Server | None = None

    def on_failure(sentence: str) -> None:
        failures.append(sentence)
        if server is not None:
            server.should_exit = True

    app = create_app(settings, on_failure=on_failure, listens=listens)
    server = _Server(app, settings)
    try:
        with asyncio.Runner(loop_factory=server.config.get_loop_factory()) as runner:
            runner.run(server.run_until_stopped(listener, on_serving, lifeline))
    finally:
        gc.unfreeze()
        logs.event("stopped")
    if failures:
        raise ServeError(failures[0])


def _settle() -> None:
    # What was loaded stays: to walk all of it in search of garbage takes a tenth of a second, in
    # which nobody is answered.
    gc.collect()
    gc.freeze()
    gc.set_threshold(_GARBAGE)


def _leave() -> None:
    # A thread cannot be called back from a database that says nothing. What was acknowledged is on
    # the disk, and what such a thread may still change is changed wholly or not at all.
    logs.event("not waited for any longer", logging.WARNING)
    logs.event("stopped")
    logs.flush()
    os._exit(0)


class _Server(uvicorn.Server):
    """Fails readiness before it closes the port, and ends with status 0 when asked to stop."""

    def __init__(self, app: FastAPI, settings: Settings) -> None:
        super().__init__(
            uvicorn.Config(
                app,
                http=door(app.state.reception, app.state.record, settings.refusals_per_second),
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
        self._settings = settings
        self._readiness: Readiness = app.state.readiness
        self._record: Record = app.state.record
        self._metrics: Metrics = app.state.metrics
        self._stopping: asyncio.Task[None] | None = None
        self._last: threading.Timer | None = None

    async def run_until_stopped(
        self,
        listener: socket.socket,
        on_serving: Callable[[Engine], None],
        lifeline: int | None,
    ) -> None:
        """Serve on a socket until a signal comes, or the lifeline ends."""
        loop = asyncio.get_running_loop()
        for number in _SIGNALS:
            loop.add_signal_handler(number, self._on_signal)
        if lifeline is not None:
            loop.add_reader(lifeline, self._on_end, lifeline)
        announcing = asyncio.create_task(self._announce(on_serving))
        await self._serve(sockets=[listener])
        # Asked twice, it has closed nothing, and the threads of the catalog are yet waited for.
        if self._last is not None and not self.force_exit:
            self._last.cancel()
        self._record.settle()
        announcing.cancel()

    async def on_tick(self, counter: int) -> bool:
        """Write the lines that wait, ten times a second; say whether to stop."""
        self._record.settle()
        self._metrics.show()
        logs.flush()
        return await super().on_tick(counter)

    def _on_signal(self) -> None:
        if self._stopping is not None:
            self.force_exit = True
            return
        logs.event("stopping")
        self._readiness.phase = Phase.STOPPING
        self._stopping = asyncio.get_running_loop().create_task(self._stop())
        patience = self._settings.drain_seconds + self._settings.shutdown_seconds + _CLOSE_SECONDS
        self._last = threading.Timer(patience, _leave)
        self._last.daemon = True
        self._last.start()

    def _on_end(self, lifeline: int) -> None:
        asyncio.get_running_loop().remove_reader(lifeline)
        self._on_signal()

    async def _stop(self) -> None:
        # Those who still come in this moment are answered; then the port is closed.
        if self._readiness.engine is not None:
            await asyncio.sleep(self._settings.drain_seconds)
        self.should_exit = True

    async def _announce(self, on_serving: Callable[[Engine], None]) -> None:
        while self._readiness.phase is Phase.STARTING:
            await asyncio.sleep(0.05)
        _settle()
        if self._readiness.engine is not None:
            on_serving(self._readiness.engine)
