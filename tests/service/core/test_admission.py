"""Admission: so many at one time, so many waiting, an error beyond, and nobody forgotten."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

import pytest

from hasse.service.core.admission import Admission
from hasse.service.errors import ServiceError
from hasse.service.settings import Settings
from hasse.service.telemetry.stages import Stages


class Clock:
    """A time that stands still until it is moved."""

    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


class Searches:
    """Searches that go on until they are told to end."""

    def __init__(self, admission: Admission) -> None:
        self.admission = admission
        self.running: list[int] = []
        self.ends: dict[int, asyncio.Event] = {}
        self.on_end: Callable[[], object] = lambda: None

    def start(self, name: int, cost: int = 1) -> asyncio.Task[None]:
        self.ends[name] = asyncio.Event()
        return asyncio.create_task(self._search(name, cost))

    def end_all(self) -> None:
        for event in self.ends.values():
            event.set()

    async def one_takes(self, seconds: float, clock: Clock) -> None:
        """Let a search take so long, which raises the mean by a tenth of it."""
        search = self.start(0)
        await settled()
        clock.now += seconds
        self.ends[0].set()
        await search

    async def _search(self, name: int, cost: int) -> None:
        async with self.admission.enter(Stages(), cost):
            self.running.append(name)
            try:
                await self.ends[name].wait()
            finally:
                self.running.remove(name)
        self.on_end()


def run(main: Callable[[], Awaitable[None]]) -> None:
    async def bounded() -> None:
        async with asyncio.timeout(30):
            await main()

    asyncio.run(bounded())


async def settled() -> None:
    for _ in range(5):
        await asyncio.sleep(0)


async def cancel(tasks: list[asyncio.Task[None]]) -> None:
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)


def test_refusal_of_heads_that_come_together_lets_in_only_what_will_find_room() -> None:
    async def main() -> None:
        searches = Searches(Admission(2, queued=1, deadline=5))
        let_in = [searches.admission.refusal() is None for _ in range(6)]
        assert let_in == [True, True, True, False, False, False]
        tasks = [searches.start(at) for at in range(3)]
        await settled()
        assert (searches.admission.in_flight, searches.admission.waiting) == (2, 1)
        error = searches.admission.refusal()
        assert error is not None
        assert error.reason == "busy"
        searches.end_all()
        await asyncio.gather(*tasks)

    run(main)


def test_refusal_of_a_head_that_never_enters_takes_no_place() -> None:
    async def main() -> None:
        admission = Admission(1, queued=0, deadline=5)
        assert admission.refusal() is None
        assert admission.refusal() is not None
        await settled()
        assert admission.refusal() is None

    run(main)


def test_enter_with_a_full_queue_is_busy_at_once() -> None:
    async def main() -> None:
        searches = Searches(Admission(2, queued=1, deadline=5))
        tasks = [searches.start(at) for at in range(4)]
        await settled()
        assert searches.running == [0, 1]
        assert (searches.admission.in_flight, searches.admission.waiting) == (2, 1)
        with pytest.raises(ServiceError) as refusal:
            await tasks[3]
        assert refusal.value.reason == "busy"
        assert refusal.value.retry_after is not None
        assert refusal.value.retry_after >= 1
        searches.end_all()
        await asyncio.gather(*tasks[:3])
        assert (searches.admission.in_flight, searches.admission.waiting) == (0, 0)

    run(main)


def test_enter_takes_turns_in_the_order_of_arrival() -> None:
    async def main() -> None:
        searches = Searches(Admission(1, queued=9, deadline=5))
        tasks = [searches.start(at) for at in range(4)]
        for at in range(4):
            await settled()
            assert searches.running == [at]
            searches.ends[at].set()
        await asyncio.gather(*tasks)

    run(main)


def test_enter_as_a_place_gets_free_does_not_pass_those_that_wait() -> None:
    async def main() -> None:
        searches = Searches(Admission(1, queued=9, deadline=5))
        tasks = [searches.start(0), searches.start(1)]
        await settled()
        searches.on_end = lambda: tasks.append(searches.start(2))
        searches.ends[0].set()
        await settled()
        searches.on_end = lambda: None
        assert searches.running == [1]
        searches.ends[1].set()
        await settled()
        assert searches.running == [2]
        searches.end_all()
        await asyncio.gather(*tasks)

    run(main)


def test_enter_past_the_deadline_is_busy_for_one_that_waits_and_late_for_one_that_runs() -> None:
    async def main() -> None:
        searches = Searches(Admission(1, queued=9, deadline=0.05))
        running, waiting = searches.start(0), searches.start(1)
        with pytest.raises(ServiceError) as refusal:
            await waiting
        assert refusal.value.reason == "busy"
        with pytest.raises(ServiceError) as refusal:
            await running
        assert refusal.value.reason == "late"
        await settled()
        assert (searches.admission.in_flight, searches.admission.waiting) == (0, 0)

    run(main)


@pytest.mark.parametrize("left", [0, 1, 2])
def test_enter_cancelled_gives_its_place_to_the_next(left: int) -> None:
    async def main() -> None:
        searches = Searches(Admission(1, queued=9, deadline=5))
        tasks = [searches.start(at) for at in range(3)]
        await settled()
        tasks[left].cancel()
        for at in range(3):
            if at != left:
                await settled()
                assert searches.running == [at]
                searches.ends[at].set()
        results = await asyncio.gather(*tasks, return_exceptions=True)
        assert isinstance(results[left], asyncio.CancelledError)
        assert (searches.admission.in_flight, searches.admission.waiting) == (0, 0)

    run(main)


def test_enter_cancelled_as_its_turn_comes_hands_the_turn_on() -> None:
    async def main() -> None:
        searches = Searches(Admission(1, queued=9, deadline=5))
        tasks = [searches.start(at) for at in range(3)]
        await settled()
        # In the step in which 0 hands its place to 1, before 1 runs.
        searches.on_end = tasks[1].cancel
        searches.ends[0].set()
        await settled()
        assert tasks[1].cancelled()
        assert searches.running == [2]
        searches.ends[2].set()
        await tasks[2]
        assert (searches.admission.in_flight, searches.admission.waiting) == (0, 0)

    run(main)


def test_enter_cancelled_in_the_queue_leaves_room_in_it() -> None:
    async def main() -> None:
        searches = Searches(Admission(1, queued=1, deadline=60))
        first, leaving = searches.start(0), searches.start(1)
        await settled()
        await cancel([leaving])
        assert searches.admission.waiting == 0
        second = searches.start(2)
        searches.end_all()
        await asyncio.gather(first, second)

    run(main)


def test_enter_whose_block_raises_frees_the_place() -> None:
    async def main() -> None:
        admission = Admission(1, queued=0, deadline=5)
        for _ in range(3):
            with pytest.raises(KeyError):
                async with admission.enter(Stages()):
                    raise KeyError
        assert admission.in_flight == 0

    run(main)


def test_enter_behind_so_many_that_it_would_be_late_is_busy_at_once() -> None:
    async def main() -> None:
        clock = Clock()
        searches = Searches(Admission(1, queued=1000, deadline=11, clock=clock))
        await searches.one_takes(1.0, clock)  # the mean is a tenth of a second
        tasks = [searches.start(at) for at in range(1, 201)]
        await settled()
        refused = [task.exception() for task in tasks if task.done()]
        assert 100 < len(refused) < 199
        assert all(isinstance(one, ServiceError) and one.reason == "busy" for one in refused)
        await cancel(tasks)

    run(main)


def test_enter_with_several_places_lets_more_wait_and_says_when_to_come_back() -> None:
    async def main() -> None:
        clock = Clock()
        searches = Searches(Admission(10, queued=1000, deadline=11, clock=clock))
        await searches.one_takes(10.0, clock)  # the mean is a second
        tasks = [searches.start(at) for at in range(1, 101)]
        await settled()
        refused = [task.exception() for task in tasks if task.done()]
        assert 80 < len(tasks) - len(refused) < 95  # ten at a time, so nine seconds are enough
        for error in refused:
            assert isinstance(error, ServiceError)
            assert error.retry_after in (9, 10)
        await cancel(tasks)

    run(main)


def test_enter_whose_turn_comes_too_late_for_an_answer_is_busy() -> None:
    async def main() -> None:
        clock = Clock()
        searches = Searches(Admission(1, queued=9, deadline=11, clock=clock))
        for at in range(2):  # each takes its time, so that the mean is some seconds
            tasks = [searches.start(10 * at), searches.start(10 * at + 1)]
            await settled()
            clock.now += 40.0 if at == 0 else 8.0
            searches.end_all()
            results = await asyncio.gather(*tasks, return_exceptions=True)
        assert results[0] is None
        assert isinstance(results[1], ServiceError)
        assert results[1].reason == "busy"
        assert (searches.admission.in_flight, searches.admission.waiting) == (0, 0)

    run(main)


def test_enter_that_waits_counts_its_wait_as_queue() -> None:
    async def main() -> None:
        clock = Clock()
        admission = Admission(1, queued=1, deadline=60, clock=clock)
        first = Searches(admission)
        running = first.start(0)
        await settled()
        stages = Stages()

        async def waits() -> None:
            async with admission.enter(stages):
                pass

        waiting = asyncio.create_task(waits())
        await settled()
        clock.now += 3.0
        first.end_all()
        await asyncio.gather(running, waiting)
        assert stages.seconds["queue"] == 3.0

    run(main)


def test_costly_searches_leave_places_to_others() -> None:
    async def main() -> None:
        searches = Searches(Admission.of(Settings(in_flight=8, queued=20)))
        costly = [searches.start(at, cost=16_000) for at in range(10)]
        await settled()
        assert len(searches.running) == 2
        plain = [searches.start(at) for at in range(10, 16)]
        await settled()
        assert searches.running[2:] == list(range(10, 16))
        assert (searches.admission.in_flight, searches.admission.waiting) == (8, 8)
        searches.end_all()
        await asyncio.gather(*costly, *plain)
        assert (searches.admission.in_flight, searches.admission.waiting) == (0, 0)

    run(main)


def test_costly_searches_beyond_their_queue_are_busy_at_once() -> None:
    async def main() -> None:
        searches = Searches(Admission.of(Settings(queued=3)))
        tasks = [searches.start(at, cost=16_000) for at in range(10)]
        await settled()
        refused = [task.exception() for task in tasks if task.done()]
        assert len(refused) == 5
        assert all(isinstance(one, ServiceError) and one.reason == "busy" for one in refused)
        await cancel(tasks)

    run(main)


def test_costly_search_past_its_deadline_gives_both_places_back() -> None:
    async def main() -> None:
        searches = Searches(Admission.of(Settings(deadline_seconds=0.05)))
        with pytest.raises(ServiceError) as refusal:
            await searches.start(0, cost=16_000)
        assert refusal.value.reason == "late"
        await settled()
        assert (searches.admission.in_flight, searches.admission.waiting) == (0, 0)

    run(main)
