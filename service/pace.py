"""For how long clients that ask again too soon are left waiting, and who calls them then."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from heapq import heappop, heappush
from itertools import count

_LOOK_SECONDS = 0.01  # between two looks at whose turn has come


class Pace:
    """Spreads what comes too soon over time: so many a second, none put off for too long."""

    def __init__(self, per_second: float) -> None:
        self._interval = 1 / per_second
        self._next = 0.0

    def wait(self, now: float, longest: float) -> float:
        """Return for how long a client that asks now should not be heard, in seconds."""
        self._next = max(now, self._next + self._interval)
        wait = min(self._next - now, longest)
        self._next = now + wait
        return wait


class Turns:
    """Calls that wait for their time behind one timer, since each timer has a cost."""

    def __init__(self) -> None:
        self._waiting: list[tuple[float, int, Callable[[], None]]] = []
        self._numbers = count()

    def wait(self, loop: asyncio.AbstractEventLoop, until: float, turn: Callable[[], None]) -> None:
        """Call `turn` at a time of the loop, or a moment later."""
        if not self._waiting:
            loop.call_later(_LOOK_SECONDS, self._look, loop)
        heappush(self._waiting, (until, next(self._numbers), turn))

    def _look(self, loop: asyncio.AbstractEventLoop) -> None:
        now = loop.time()
        while self._waiting and self._waiting[0][0] <= now:
            heappop(self._waiting)[2]()
        if self._waiting:
            loop.call_later(_LOOK_SECONDS, self._look, loop)
