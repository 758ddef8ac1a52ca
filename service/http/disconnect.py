"""A client that goes away takes its work with it."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from types import TracebackType

from fastapi import Request

from service.errors import ServiceError

SCOPE = "hasse.departure"  # where a request has its `Departure`


class Departure:
    """Whether the client of a request has left, of which its connection tells.

    To wait for the message `http.disconnect` instead is a task for each of thousands a second.

    Attributes:
        happened: whether it has.
        watcher: is called when it does.
    """

    __slots__ = ("happened", "watcher")

    def __init__(self) -> None:
        self.happened = False
        self.watcher: Callable[[], object] | None = None

    def happen(self) -> None:
        """Tell who watches that the client has left."""
        self.happened = True
        if self.watcher is not None:
            self.watcher()


class Watch:
    """A block that is given up when its client disconnects; see `until_client_leaves`.

    With two methods, since a generator costs as much again for each of thousands a second.
    """

    __slots__ = ("_departure", "_task")

    def __init__(self, departure: Departure) -> None:
        self._departure = departure

    async def __aenter__(self) -> None:
        """Begin to watch."""
        task = asyncio.current_task()
        if task is None:
            raise RuntimeError("a request is served by a task")
        if self._departure.happened:
            raise _gone()
        self._task = task
        self._departure.watcher = task.cancel

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Watch no longer."""
        self._departure.watcher = None
        # Someone else may have cancelled too, and then it is theirs to raise.
        left = kind is asyncio.CancelledError and self._departure.happened
        if left and self._task.uncancel() == 0:
            raise _gone() from None


def until_client_leaves(request: Request) -> Watch:
    """Give the block up when the client disconnects.

    Raises:
        ServiceError: `client_gone`, which nobody is there to read.
    """
    return Watch(request.scope.get(SCOPE) or Departure())


def _gone() -> ServiceError:
    return ServiceError("client_gone", "the client did not wait for the answer")
