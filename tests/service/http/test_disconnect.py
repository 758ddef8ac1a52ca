"""The watch for a client that leaves: it ends what it watches over, and nothing else."""

from __future__ import annotations

import asyncio
import gc
import weakref

import pytest
from fastapi import Request

from service.errors import ServiceError
from service.http.disconnect import SCOPE, Departure, until_client_leaves


def request(leaves: Departure) -> Request:
    return Request({"type": "http", SCOPE: leaves})


def test_a_client_that_leaves_ends_its_work() -> None:
    async def main() -> None:
        leaves = Departure()
        asyncio.get_running_loop().call_later(0.01, leaves.happen)
        with pytest.raises(ServiceError) as raised:
            async with until_client_leaves(request(leaves)):
                await asyncio.sleep(20)
        assert raised.value.reason == "client_gone"
        await asyncio.sleep(0)  # nor is what comes after it cancelled

    asyncio.run(main())


def test_the_work_of_a_client_that_left_before_is_not_begun() -> None:
    async def main() -> None:
        leaves = Departure()
        leaves.happen()
        begun = False
        with pytest.raises(ServiceError) as raised:
            async with until_client_leaves(request(leaves)):
                begun = True
        assert (raised.value.reason, begun) == ("client_gone", False)
        await asyncio.sleep(0)

    asyncio.run(main())


@pytest.mark.parametrize("left", [False, True])
def test_who_else_cancels_the_work_is_not_told_that_its_client_left(*, left: bool) -> None:
    async def main() -> None:
        leaves = Departure()

        async def work() -> None:
            async with until_client_leaves(request(leaves)):
                await asyncio.sleep(20)

        working = asyncio.create_task(work())
        await asyncio.sleep(0)
        if left:
            leaves.happen()
        working.cancel()
        with pytest.raises(asyncio.CancelledError):
            await working

    asyncio.run(main())


def test_a_client_that_leaves_when_its_work_is_done_cancels_nothing() -> None:
    async def main() -> None:
        leaves = Departure()
        async with until_client_leaves(request(leaves)):
            await asyncio.sleep(0)
        leaves.happen()
        await asyncio.sleep(0.01)

    asyncio.run(main())


def test_a_failure_is_not_hidden_by_a_client_that_leaves() -> None:
    async def main() -> None:
        leaves = Departure()

        async def work() -> None:
            async with until_client_leaves(request(leaves)):
                leaves.happened = True
                raise ZeroDivisionError

        with pytest.raises(ZeroDivisionError):
            await work()

    asyncio.run(main())


def test_what_was_watched_goes_without_a_search_for_garbage() -> None:
    async def main() -> None:
        asked = request(Departure())
        async with until_client_leaves(asked):
            await asyncio.sleep(0)
        gone = weakref.ref(asked)
        del asked
        assert gone() is None

    gc.disable()
    try:
        asyncio.run(main())
    finally:
        gc.enable()
