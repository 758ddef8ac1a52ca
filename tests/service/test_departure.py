"""The watch for a client that leaves: it ends what it watches over, and nothing else."""

from __future__ import annotations

import asyncio
import gc
import weakref
from typing import Any

import pytest
from fastapi import Request

from service.departure import until_client_leaves
from service.errors import ServiceError

LONG = 0.05  # seconds, after which a client is watched


def request(messages: asyncio.Queue[Any]) -> Request:
    return Request({"type": "http"}, messages.get)


def test_a_client_that_left_before_it_was_watched_is_seen() -> None:
    async def main() -> None:
        messages: asyncio.Queue[Any] = asyncio.Queue()
        messages.put_nowait({"type": "http.disconnect"})
        with pytest.raises(ServiceError) as raised:
            async with until_client_leaves(request(messages)):
                await asyncio.sleep(20)
        assert raised.value.reason == "client_gone"
        await asyncio.sleep(0)  # nor is what comes after it cancelled

    asyncio.run(main())


@pytest.mark.parametrize("leaves", [False, True])
def test_who_else_cancels_the_work_is_not_told_that_its_client_left(*, leaves: bool) -> None:
    async def main() -> None:
        messages: asyncio.Queue[Any] = asyncio.Queue()

        async def work() -> None:
            async with until_client_leaves(request(messages)):
                await asyncio.sleep(20)

        working = asyncio.create_task(work())
        await asyncio.sleep(LONG)
        if leaves:
            messages.put_nowait({"type": "http.disconnect"})
            await asyncio.sleep(0)  # the watch has seen it, and the work has not
        working.cancel()
        with pytest.raises(asyncio.CancelledError):
            await working

    asyncio.run(main())


@pytest.mark.parametrize("seconds", [0.0, LONG])
def test_a_client_that_leaves_when_its_work_is_done_cancels_nothing(seconds: float) -> None:
    async def main() -> None:
        messages: asyncio.Queue[Any] = asyncio.Queue()
        async with until_client_leaves(request(messages)):
            await asyncio.sleep(seconds)
        messages.put_nowait({"type": "http.disconnect"})
        await asyncio.sleep(LONG)

    asyncio.run(main())


def test_what_was_watched_goes_without_a_search_for_garbage() -> None:
    async def main() -> None:
        messages: asyncio.Queue[Any] = asyncio.Queue()
        asked = request(messages)
        async with until_client_leaves(asked):
            await asyncio.sleep(LONG)
        await asyncio.sleep(0)  # in which the watch ends
        gone = weakref.ref(asked)
        del asked
        assert gone() is None

    gc.disable()
    try:
        asyncio.run(main())
    finally:
        gc.enable()
