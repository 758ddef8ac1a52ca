"""Admission: bounds the searches in flight and those that wait, and refuses the rest."""

from __future__ import annotations

import asyncio
import math
from collections import deque
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from time import perf_counter

from hasse.service.core.stages import Stages
from hasse.service.errors import ServiceError
from hasse.service.settings import Settings

# Weight of the newest search in the running mean of how long one takes.
_WEIGHT = 0.1
# A search that would probably take more than this share of the deadline is refused.
_SAFE = 0.8

# Cost (hits, times their parts) beyond which a search is costly: making its answer takes longer
# than the event loop may be held up.
PLAIN_COST = 250
_MADE_TOGETHER = 2  # Python makes one answer at a time; another is searched for meanwhile


class Admission:
    """A bounded number of searches in flight, and a bounded queue before them.

    A search that finds the queue full is refused at once; one that cannot be answered within the
    deadline is cancelled. Costly ones have a queue of their own before that, and few of them are in
    flight, so that others are answered meanwhile. Belongs to one event loop.

    Args:
        capacity: maximum number of searches in flight.
        queued: maximum number of searches that wait.
        deadline: seconds from a search's arrival within which it is answered.
        clock: returns the time in seconds.
        costly: the queue of costly searches; without it they are like others.
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
        self._arriving = 0  # let in by `refusal` in this turn of the loop
        self._mean_seconds = 0.0

    @classmethod
    def of(cls, settings: Settings) -> Admission:
        """Return the admission of searches that settings describe."""
        return cls(
            settings.in_flight,
            settings.queued,
            settings.deadline_seconds,
            costly=cls.one_by_one(settings),
        )

    @classmethod
    def one_by_one(cls, settings: Settings) -> Admission:
        """Return the admission of what Python makes one by one, whatever the number of threads."""
        return cls(_MADE_TOGETHER, settings.queued, settings.deadline_seconds)

    def resize(self, queued: int, deadline: float, capacity: int | None = None) -> None:
        """Take other limits; whoever has a place, or waits for one, keeps it."""
        self._queued, self._deadline = queued, deadline
        self._capacity = capacity or self._capacity
        if self._costly is not None:
            self._costly.resize(queued, deadline)
        while self.in_flight < self._capacity and self._waiting:
            self.in_flight += 1
            self._release()

    @property
    def waiting(self) -> int:
        """Count the searches that wait for their turn."""
        return len(self._waiting) + (self._costly.waiting if self._costly else 0)

    def refusal(self) -> ServiceError | None:
        """Return the error for a search whose head has come, or None to let it in.

        It enters only when the loop runs its task. Until then it counts as arriving, so that not
        all that come in one turn of the loop are let in for the same free place.
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
            cost: number of hits that are made, times their parts.

        Raises:
            ServiceError: `busy` when the queue is full or the turn did not come before the
                deadline, `late` when the deadline passed during the work.
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
                        raise self._busy()  # it would be given up before its answer
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
        """Return when there is a place, and whether it had to be waited for."""
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
                self._release()  # the turn came in the same instant: hand it on
            elif turn in self._waiting:
                self._waiting.remove(turn)
            raise
        return True

    def _release(self) -> None:
        """Give the place to the first that waits and still wants it."""
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
        return ahead < self._queued and self._expected_seconds(ahead) <= _SAFE * self._deadline

    def _expected_seconds(self, ahead: int) -> float:
        # Its turn comes when those ahead had theirs, and then it takes its own time.
        return self._mean_seconds * ((ahead + 1) / self._capacity + 1)

    def _retry_after(self) -> int:
        return max(1, math.ceil(self._expected_seconds(len(self._waiting))))

    def _busy(self) -> ServiceError:
        return ServiceError(
            "busy",
            "the service has as many searches as it can take: try again shortly",
            retry_after=self._retry_after(),
        )
