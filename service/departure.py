"""A client that goes away takes its work with it."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from fastapi import Request

from service.errors import ServiceError

# Most work is done sooner, and then a watch would cost a task for nothing.
_SOON_SECONDS = 0.02


@asynccontextmanager
async def until_client_leaves(request: Request) -> AsyncIterator[None]:
    """Give the block up when the client disconnects. The body must have been read before.

    It is looked at from `_SOON_SECONDS` on, and one who left before is seen then.

    Raises:
        ServiceError: `client_gone`, which nobody is there to read.
    """
    task = asyncio.current_task()
    if task is None:
        raise RuntimeError("a request is served by a task")
    gone = False

    async def watch() -> None:
        nonlocal gone
        while (await request.receive())["type"] != "http.disconnect":
            pass
        gone = True
        task.cancel()

    watchers: list[asyncio.Task[None]] = []
    beginning = asyncio.get_running_loop().call_later(
        _SOON_SECONDS, lambda: watchers.append(asyncio.create_task(watch()))
    )
    try:
        yield
    except asyncio.CancelledError:
        # Someone else may have cancelled too, and then it is theirs to raise.
        if gone and task.uncancel() == 0:
            raise ServiceError("client_gone", "the client did not wait for the answer") from None
        raise
    finally:
        beginning.cancel()
        for watcher in watchers:
            watcher.cancel()
