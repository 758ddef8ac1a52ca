"""Who is let in: so many searches at one time, so many waiting, and nobody beyond."""

from __future__ import annotations

import asyncio
import math
from collections import deque
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from time import perf_counter

from service.errors import ServiceError
from service.timing import Stages

# How much the newest search counts in the running mean of how long one takes.
_WEIGHT = 0.1
# A search is not begun when it would take more than this share of the deadline.
_SAFE = 0.8


class Admission:
    """A bounded number of searches in flight, and a bounded queue before them.

    A search that finds the queue full is refused at once; one that cannot be answered within
    the deadline is given up. Belongs to one event loop.
    """

    def __init__(self, in_flight: int, queued: int, deadline: float) -> None:
        self._capacity = in_flight
        self._queued = queued
        self._deadline = deadline
        self._active = 0
        self._waiting: deque[asyncio.Future[None]] = deque()
        self._coming = 0  # let in at the door, and not at `enter` yet
        self._mean_seconds = 0.0

    @property
    def in_flight(self) -> int:
        """Count the searches that are worked on."""
        return self._active

    @property
    def waiting(self) -> int:
        """Count the searches that wait for their turn."""
        return len(self._waiting)

    def knock(self) -> ServiceError | None:
        """Return what a search that comes to the door is refused with; None lets it in.

        Who is let in enters when the loop comes to its task. Those who knock before that are told
        of places that are left beside it, or all would be let in for the one that is free.
        """
        refusal = self._refusal(self._coming)
        if refusal is None:
            if not self._coming:
                asyncio.get_running_loop().call_soon(self._all_came)
            self._coming += 1
        return refusal

    @asynccontextmanager
    async def enter(self, stages: Stages) -> AsyncIterator[None]:
        """Hold a place while the block runs.

        Raises:
            ServiceError: `busy` when the queue is full or the turn did not come before the
                deadline, `late` when the deadline passed during the work.
        """
        admitted = False
        arrived = perf_counter()
        try:
            async with asyncio.timeout(self._deadline):
                with stages.measure("queue"):
                    had_to_wait = await self._acquire()
                start = perf_counter()
                if had_to_wait and start - arrived + self._mean_seconds > self._deadline:
                    # Work that nobody will wait for keeps others from theirs.
                    self._release()
                    raise self._busy()
                admitted = True
                try:
                    yield
                finally:
                    self._mean_seconds += _WEIGHT * (perf_counter() - start - self._mean_seconds)
                    self._release()
        except TimeoutError:
            if admitted:
                raise ServiceError(
                    "late",
                    f"the answer did not come within {self._deadline:g} seconds",
                    retry_after=self._retry_after(),
                ) from None
            raise self._busy() from None

    async def _acquire(self) -> bool:
        """Return when there is a place, and whether it had to be waited for."""
        refusal = self._refusal()
        if refusal is not None:
            raise refusal
        if self._free():
            self._active += 1
            return False
        turn = asyncio.get_running_loop().create_future()
        self._waiting.append(turn)
        try:
            await turn
        except asyncio.CancelledError:
            if turn.done() and not turn.cancelled():
                self._release()  # the turn came in the same instant: hand it on
            elif turn in self._waiting:
                self._waiting.remove(turn)
            raise
        return True

    def _release(self) -> None:
        while self._waiting:
            turn = self._waiting.popleft()
            if not turn.done():
                turn.set_result(None)  # the place goes over, so `_active` stays
                return
        self._active -= 1

    def _all_came(self) -> None:
        self._coming = 0

    def _free(self) -> int:
        return 0 if self._waiting else self._capacity - self._active

    def _refusal(self, coming: int = 0) -> ServiceError | None:
        """Return what a search is refused with that comes after `coming` others."""
        free = self._free()
        if coming < free:
            return None
        ahead = len(self._waiting) + coming - free
        late = self._expected_seconds(ahead) > _SAFE * self._deadline
        return self._busy() if late or ahead >= self._queued else None

    def _expected_seconds(self, ahead: int) -> float:
        # Its turn comes when those before it had theirs, and then it takes its own time.
        return self._mean_seconds * ((ahead + 1) / self._capacity + 1)

    def _retry_after(self) -> int:
        return max(1, math.ceil(self._expected_seconds(len(self._waiting))))

    def _busy(self) -> ServiceError:
        return ServiceError(
            "busy",
            "the service has as many searches as it can take: try again shortly",
            retry_after=self._retry_after(),
        )
