"""Who is let in: so many searches at one time, so many waiting, and nobody beyond."""

from __future__ import annotations

import asyncio
import math
from bisect import insort
from collections import deque
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from contextvars import Context
from functools import lru_cache
from itertools import count
from time import perf_counter

from service.core.stages import Stages
from service.errors import ServiceError

# How much the newest search counts in the running mean of how long one takes.
_WEIGHT = 0.1
# A search is not begun when it would take more than this share of the deadline.
_SAFE = 0.8
_LOOK_SECONDS = 0.05  # between two looks at who has stood in line for too long
_AT_ONCE_SECONDS = 0.005  # who came within this time came together, as far as clocks can tell


class Admission:
    """A bounded number of searches in flight, and a bounded queue before them.

    A search that finds the queue full is refused at once; one that cannot be answered within
    the deadline is given up. The queue has two parts: a line at the door, of requests for which
    nothing was done yet, and those behind it that found no place when they came to `enter`: what
    does not wait at the door, such as a picture. Places go by the time of arrival, wherever one
    waits. Belongs to one event loop.
    """

    def __init__(self, in_flight: int, queued: int, deadline: float) -> None:
        self._capacity = in_flight
        self._queued = queued
        self._deadline = deadline
        self._active = 0
        # Who came first, comes first; the numbers tell apart who came at one time.
        self._waiting: list[tuple[float, int, asyncio.Future[None]]] = []
        self._numbers = count()
        self._line: deque[tuple[float, Callable[[], None]]] = deque()
        self._calling = self._looking = False  # whether `_call` and `_look` are scheduled
        self._coming = 0  # let in at the door, and not at `enter` yet
        self._mean_seconds = 0.0

    @property
    def in_flight(self) -> int:
        """Count the searches that are worked on."""
        return self._active

    @property
    def waiting(self) -> int:
        """Count the searches that wait for their turn."""
        return len(self._waiting) + len(self._line)

    @property
    def has_line(self) -> bool:
        """Whether a search that came to the door now would wait there.

        It would where there is no place for it yet, and still room in the queue.
        """
        may_go_on = not self.waiting and self._coming < self._free()
        return not may_go_on and self._has_room(self._coming)

    @property
    def full(self) -> ServiceError | None:
        """What refuses a search that comes to the door now; None where there is room for it."""
        return None if self._has_room(self._coming) else _told(self._retry_after())

    def stand_in_line(self, turn: Callable[[], None]) -> None:
        """Let a search wait at the door; its `turn` is called when there is a place.

        Or when it has stood there for so long that it is to be refused.
        """
        self._line.append((perf_counter(), turn))
        self._look_later()

    def leave_line(self, turn: Callable[[], None]) -> None:
        """Forget one who stands in line."""
        self._line = deque(one for one in self._line if one[1] != turn)

    def knock(self, *, called: bool = False) -> ServiceError | None:
        """Return the error that refuses a search which comes to the door; None lets it in.

        One that was `called` from the line takes the place it was called for, even where others
        still stand in line.

        A search that is let in holds its place only from `enter` on, when the loop comes to its
        task. Until then it counts as coming, so that those who knock in the same moment are not
        all let in for one free place.
        """
        its_own = called and self._coming < self._free()
        if not its_own and (error := self.full) is not None:
            return error
        if not self._coming:
            asyncio.get_running_loop().call_soon(self._all_came)
        self._coming += 1
        return None

    @asynccontextmanager
    async def enter(self, stages: Stages) -> AsyncIterator[None]:
        """Hold a place while the block runs.

        Raises:
            ServiceError: `busy` when the queue is full or the turn did not come before the
                deadline, `late` when the deadline passed during the work.
        """
        admitted = False
        came = perf_counter()
        arrived = came - stages.waited
        try:
            async with asyncio.timeout(self._deadline - stages.waited):
                had_to_wait = await self._acquire(arrived) or stages.waited > 0
                start = perf_counter()
                stages.add("queue", start - came)
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

    async def _acquire(self, arrived: float) -> bool:
        """Return when there is a place, and whether it had to be waited for."""
        if self._free() and self._first_came() >= arrived - _AT_ONCE_SECONDS:
            self._active += 1
            return False
        if not self._has_room(0):
            raise self._busy()
        turn = asyncio.get_running_loop().create_future()
        place = (arrived, next(self._numbers), turn)
        insort(self._waiting, place)
        self._call_soon()
        try:
            await turn
        except asyncio.CancelledError:
            if turn.done() and not turn.cancelled():
                self._release()  # the turn came in the same instant: hand it on
            elif place in self._waiting:
                self._waiting.remove(place)
            raise
        return True

    def _release(self) -> None:
        self._active -= 1
        self._call_soon()

    def _call_soon(self) -> None:
        if not self._calling and self.waiting and self._free():
            # Not from here: who is called begins a task, which would be in this one's context.
            self._calling = True
            asyncio.get_running_loop().call_soon(self._call, context=Context())

    def _call(self) -> None:
        """Let as many go on of those who wait as there are places, the first to come first."""
        self._calling = False
        while self.waiting and self._coming < self._free():
            if self._waiting and self._waiting[0][0] <= self._first_came():
                turn = self._waiting.pop(0)[2]
                if not turn.done():
                    self._active += 1
                    turn.set_result(None)
            else:
                self._line.popleft()[1]()

    def _first_came(self) -> float:
        """Return when the first of those who wait came; infinity where nobody does."""
        at_door = self._line[0][0] if self._line else math.inf
        return min(at_door, self._waiting[0][0] if self._waiting else math.inf)

    def _look_later(self) -> None:
        if self._line and not self._looking:
            self._looking = True
            asyncio.get_running_loop().call_later(_LOOK_SECONDS, self._look, context=Context())

    def _look(self) -> None:
        self._looking = False
        late = perf_counter() - _SAFE * self._deadline
        while self._line and self._line[0][0] < late:
            self._line.popleft()[1]()
        self._call()
        self._look_later()

    def _all_came(self) -> None:
        self._coming = 0

    def _free(self) -> int:
        return self._capacity - self._active

    def _has_room(self, coming: int) -> bool:
        ahead = self.waiting + coming - self._free()
        if ahead < 0:
            return True
        late = self._expected_seconds(ahead) > _SAFE * self._deadline
        return not late and ahead < self._queued

    def _expected_seconds(self, ahead: int) -> float:
        # Its turn comes when those before it had theirs, and then it takes its own time.
        return self._mean_seconds * ((ahead + 1) / self._capacity + 1)

    def _retry_after(self) -> int:
        return max(1, math.ceil(self._expected_seconds(self.waiting)))

    def _busy(self) -> ServiceError:
        return _busy(self._retry_after())


def _busy(retry_after: int) -> ServiceError:
    return ServiceError(
        "busy",
        "the service has as many searches as it can take: try again shortly",
        retry_after=retry_after,
    )


# For those at the door, to whom it is told and never raised, thousands of times in a second.
_told = lru_cache(maxsize=16)(_busy)
