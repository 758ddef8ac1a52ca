"""A client that goes away takes its work with it."""

from __future__ import annotations

import asyncio
from types import TracebackType

from fastapi import Request

from service.errors import ServiceError

# Most work is done sooner, and then a watch would cost a task for nothing.
_SOON_SECONDS = 0.02


class Watch:
    """A block that is given up when its client disconnects; see `until_client_leaves`.

    With two methods, since a generator costs as much again for each of thousands a second.
    """

    __slots__ = ("_beginning", "_gone", "_request", "_task", "_watcher")

    def __init__(self, request: Request) -> None:
        self._request = request
        self._gone = False
        self._watcher: asyncio.Task[None] | None = None

    async def __aenter__(self) -> None:
        """Begin to watch, soon."""
        task = asyncio.current_task()
        if task is None:
            raise RuntimeError("a request is served by a task")
        self._task = task
        self._beginning = asyncio.get_running_loop().call_later(_SOON_SECONDS, self._begin)

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Watch no longer."""
        self._beginning.cancel()
        watcher, self._watcher = self._watcher, None
        if watcher is not None:
            # Its last exception will know this watch: only if the watch does not know it any more
            # do both, with all of the request, go without a search for garbage.
            watcher.cancel()
        # Someone else may have cancelled too, and then it is theirs to raise.
        if kind is asyncio.CancelledError and self._gone and self._task.uncancel() == 0:
            raise ServiceError("client_gone", "the client did not wait for the answer") from None

    def _begin(self) -> None:
        self._watcher = asyncio.create_task(self._watch())

    async def _watch(self) -> None:
        while (await self._request.receive())["type"] != "http.disconnect":
            pass
        self._gone = True
        self._task.cancel()


def until_client_leaves(request: Request) -> Watch:
    """Give the block up when the client disconnects. The body must have been read before.

    It is looked at from `_SOON_SECONDS` on, and one who left before is seen then.

    Raises:
        ServiceError: `client_gone`, which nobody is there to read.
    """
    return Watch(request)
