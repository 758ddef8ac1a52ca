"""Lifespan of the application: opens the engine in a thread, keeps it fresh and closes it."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress

from fastapi import FastAPI

from hasse.index.errors import HasseIndexError
from hasse.models.checkpoints.model_folder import CheckpointError
from hasse.service.core import about
from hasse.service.core.admission import Admission
from hasse.service.core.device import DeviceError
from hasse.service.core.engine import Engine
from hasse.service.core.readiness import Phase
from hasse.service.http.services import Services
from hasse.service.settings import Settings
from hasse.service.telemetry.logs import LOGGER, event
from hasse.service.telemetry.metrics import Metrics

Open = Callable[[Settings, Metrics, Admission, Callable[[], None]], Engine]
_EXPECTED_ERRORS = (HasseIndexError, CheckpointError, DeviceError)


class Lifecycle:
    """Opens and closes the engine of one application, and sets its phase.

    Args:
        services: the state of the application.
        open_engine: opens the engine; it runs in a thread.
        on_failure: called with one sentence when the engine cannot open or fails.
    """

    def __init__(
        self, services: Services, open_engine: Open, on_failure: Callable[[str], None]
    ) -> None:
        self._services = services
        self._readiness = services.readiness
        self._open = open_engine
        self._on_failure = on_failure
        self._opened = asyncio.Event()  # set also when opening has failed

    @asynccontextmanager
    async def run(self, app: FastAPI) -> AsyncIterator[None]:
        """Open the engine while the block runs, or before it; close it after the block."""
        starting = asyncio.create_task(self._start())
        # One of several workers listens only when it can answer.
        if self._services.settings.processes > 1:
            await self._opened.wait()
        yield
        self._readiness.phase = Phase.STOPPING
        if self._readiness.engine is not None:
            starting.cancel()
        with suppress(asyncio.CancelledError):
            await starting
        if self._readiness.engine is not None:
            await asyncio.to_thread(self._readiness.engine.close)

    async def _start(self) -> None:
        loop = asyncio.get_running_loop()

        def on_death() -> None:
            loop.call_soon_threadsafe(self._on_failure, "a worker ended unexpectedly; see the log")

        try:
            services = self._services
            engine = await asyncio.to_thread(
                self._open, services.settings, services.metrics, services.admission, on_death
            )
        except _EXPECTED_ERRORS as error:
            self._fail(str(error))
        except Exception as error:
            LOGGER.exception("could not start")
            self._fail(f"the service could not start ({type(error).__name__}); see the log")
        else:
            self._readiness.engine = engine
            self._opened.set()
            if self._readiness.phase is not Phase.STARTING:
                return  # stopped while loading: there is nothing to refresh
            self._readiness.phase = Phase.SERVING
            event("serving", **about.serving_facts(engine))
            try:
                await engine.keep_fresh()
            except HasseIndexError as error:
                event("damaged", logging.ERROR, error=str(error))
                self._fail(str(error))

    def _fail(self, sentence: str) -> None:
        self._opened.set()
        if self._readiness.phase is Phase.STOPPING:  # the service is stopping meanwhile
            event("not started", logging.WARNING, reason=sentence)
            return
        self._readiness.phase = Phase.FAILED
        self._on_failure(sentence)
