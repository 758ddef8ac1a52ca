"""A client in the same process: the application runs in its own event loop, as in a server."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Coroutine
from contextlib import AsyncExitStack
from typing import Any, Self, TypeVar

import httpx
from fastapi import FastAPI

from hasse.service.core.engine import Engine
from hasse.service.http.services import Services, services_of

Result = TypeVar("Result")


class Client:
    """Start an application, ask it, stop it: `with Client(app) as client: client.get("/")`."""

    def __init__(self, app: FastAPI, wait: bool = True) -> None:
        self.app = app
        self._wait = wait
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever)
        self._stack = AsyncExitStack()

    def __enter__(self) -> Self:
        self._thread.start()
        self.run(self._start())
        return self

    def __exit__(self, *_: object) -> None:
        self.run(self._stack.aclose())
        self.run(self._loop.shutdown_default_executor())
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()

    @property
    def services(self) -> Services:
        """The parts of the application."""
        return services_of(self.app)

    @property
    def engine(self) -> Engine:
        """The engine of the application."""
        return self.services.engine

    def run(self, work: Coroutine[Any, Any, Result]) -> Result:
        """Run a coroutine in the application's loop."""
        return asyncio.run_coroutine_threadsafe(work, self._loop).result(300)

    def request(self, method: str, path: str, **how: Any) -> httpx.Response:
        """Send one request."""
        return self.run(self.http.request(method, path, **how))

    def get(self, path: str, **how: Any) -> httpx.Response:
        """Send a GET."""
        return self.request("GET", path, **how)

    def post(self, path: str, **how: Any) -> httpx.Response:
        """Send a POST."""
        return self.request("POST", path, **how)

    async def _start(self) -> None:
        await self._stack.enter_async_context(self.app.router.lifespan_context(self.app))
        self.http = await self._stack.enter_async_context(
            httpx.AsyncClient(
                transport=httpx.ASGITransport(self.app, raise_app_exceptions=False),
                base_url="http://hasse.test",
                timeout=30,
            )
        )
        readiness = self.services.readiness
        while self._wait and readiness.engine is None:
            await asyncio.sleep(0.005)
