"""Admission: bounds the searches in flight and in the queue, and refuses the rest."""

from __future__ import annotations

import asyncio
import math
from collections import deque
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from time import perf_counter

from hasse.service.errors import ServiceError
from hasse.service.settings import Settings
from hasse.service.telemetry.stages import Stages

# Weight of the newest search in the running mean of durations.
_WEIGHT = 0.1
# Refuse a search whose expected duration exceeds this share of the deadline.
_SHARE = 0.8

# A search of a larger cost (hits times parts) is costly: building its answer would block the event
# loop for too long.
PLAIN_COST = 250
_COSTLY_CAPACITY = 2  # Python builds one answer at a time; the next is searched for meanwhile


class Admission:
    """A bounded number of searches in flight, and a bounded queue before them.

    A search is refused at once if the queue is full, and cancelled at the deadline. Costly searches
    first pass a queue of their own, which lets few of them in at a time, so that others are
    answered meanwhile. Belongs to one event loop.

    Args:
        capacity: maximum number of searches in flight.
        queued: maximum number of searches that wait.
        deadline: maximum seconds from the arrival of a search to its answer.
        clock: returns the time in seconds.
        costly: the queue of costly searches; None treats all searches alike.
    """

    def __init__(
        self,
        capacity: int,
        queued: int,
        deadline: float,
        clock: Callable[[], float] = perf_counter,
        costly: Admission | None = None,
    ) -> None:
        self.in_flight = 0
        self._capacity = capacity
        self._queued = queued
        self._deadline = deadline
        self._clock = clock
        self._costly = costly
        self._waiting: deque[asyncio.Future[None]] = deque()
        self._arriving = 0  # admitted by `refusal` in this turn of the event loop
        self._mean_seconds = 0.0

    @classmethod
    def of(cls, settings: Settings) -> Admission:
        """Return the admission of searches with the limits of the settings."""
        return cls(
            settings.in_flight,
            settings.queued,
            settings.deadline_seconds,
            costly=cls.one_by_one(settings),
        )

    @classmethod
    def one_by_one(cls, settings: Settings) -> Admission:
        """Return the admission of work that Python does one by one, in any number of threads."""
        return cls(_COSTLY_CAPACITY, settings.queued, settings.deadline_seconds)

    def resize(self, queued: int, deadline: float, capacity: int | None = None) -> None:
        """Change the limits; searches in flight and in the queue stay there."""
        self._queued, self._deadline = queued, deadline
        self._capacity = capacity or self._capacity
        if self._costly is not None:
            self._costly.resize(queued, deadline)
        while self.in_flight < self._capacity and self._waiting:
            self.in_flight += 1
            self._release()

    @property
    def waiting(self) -> int:
        """Number of waiting searches."""
        return len(self._waiting) + (self._costly.waiting if self._costly else 0)

    def refusal(self) -> ServiceError | None:
        """Return the error for a search whose request head has arrived, or None to admit it.

        The search enters only when the event loop runs its task. Until then it counts as arriving,
        so that searches of one turn of the loop are not all admitted for the same free place.
        """
        if not self._has_room(self._arriving):
            return self._busy()
        if not self._arriving:
            asyncio.get_running_loop().call_soon(self._forget_arriving)
        self._arriving += 1
        return None

    @asynccontextmanager
    async def enter(self, stages: Stages, cost: int = 1) -> AsyncIterator[None]:
        """Hold a place while the block runs.

        Args:
            stages: counts the wait as `queue`.
            cost: number of hits times number of parts.

        Raises:
            ServiceError: `busy` if the queue is full or the deadline passes in the queue; `late` if
                the deadline passes during the work.
        """
        if self._costly is not None and cost > PLAIN_COST:
            async with self._costly.enter(stages), self.enter(stages):
                yield
            return
        admitted = False
        arrived = self._clock()
        try:
            async with asyncio.timeout(self._deadline):
                has_waited = await self._acquire()
                start = self._clock()
                if has_waited:
                    stages.wait("admission", arrived, start)
                try:
                    if has_waited and start - arrived + self._mean_seconds > self._deadline:
                        raise self._busy()  # it would miss the deadline
                    admitted = True
                    yield
                finally:
                    if admitted:
                        took = self._clock() - start
                        self._mean_seconds += _WEIGHT * (took - self._mean_seconds)
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
        """Wait for a place; return whether there was a wait."""
        if self.in_flight < self._capacity and not self._waiting:
            self.in_flight += 1
            return False
        if not self._has_room():
            raise self._busy()
        turn = asyncio.get_running_loop().create_future()
        self._waiting.append(turn)
        try:
            await turn
        except asyncio.CancelledError:
            if turn.done() and not turn.cancelled():
                self._release()  # the place was assigned in the same instant: pass it on
            elif turn in self._waiting:
                self._waiting.remove(turn)
            raise
        return True

    def _release(self) -> None:
        """Give the place to the first search in the queue that is not cancelled."""
        while self._waiting and self.in_flight <= self._capacity:
            turn = self._waiting.popleft()
            if not turn.done():
                turn.set_result(None)
                return
        self.in_flight -= 1

    def _forget_arriving(self) -> None:
        self._arriving = 0

    def _has_room(self, arriving: int = 0) -> bool:
        ahead = len(self._waiting) + arriving - (self._capacity - self.in_flight)
        if ahead < 0:
            return True
        return ahead < self._queued and self._expected_seconds(ahead) <= _SHARE * self._deadline

    def _expected_seconds(self, ahead: int) -> float:
        # First the searches ahead take their time, then it takes its own.
        return self._mean_seconds * ((ahead + 1) / self._capacity + 1)

    def _retry_after(self) -> int:
        return max(1, math.ceil(self._expected_seconds(len(self._waiting))))

    def _busy(self) -> ServiceError:
        return ServiceError(
            "busy",
            "the service has as many searches as it can take: try again shortly",
            retry_after=self._retry_after(),
        )
