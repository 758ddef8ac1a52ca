"""A server that answers on a port of its own."""

from __future__ import annotations

import asyncio
import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager

import httpx
import uvicorn

from hasse.service.app import create_app
from hasse.service.settings import Settings


@contextmanager
def served(settings: Settings) -> Iterator[str]:
    """Serve with these settings, and give the address."""
    listener = socket.create_server(("127.0.0.1", 0))
    url = f"http://127.0.0.1:{listener.getsockname()[1]}"
    config = uvicorn.Config(
        create_app(settings), log_config=None, access_log=False, timeout_graceful_shutdown=1
    )
    server = uvicorn.Server(config)
    thread = threading.Thread(target=lambda: asyncio.run(server.serve([listener])))
    thread.start()
    try:
        while httpx.get(f"{url}/readyz", timeout=60).status_code != 200:
            pass
        yield url
    finally:
        server.should_exit = True
        thread.join()
