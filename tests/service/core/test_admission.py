"""Admission: so many at one time, so many waiting, nobody beyond, nobody forgotten."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from time import perf_counter

import pytest

from service.core.admission import Admission
from service.core.stages import Stages
from service.errors import ServiceError


class Clock:
    """The time of admission, which stands still until it is moved."""

    now = 0.0


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    stopped = Clock()
    monkeypatch.setattr("service.core.admission.perf_counter", lambda: stopped.now)
    return stopped


class Guests:
    """Searches that stay until they are told to go."""

    def __init__(self, admission: Admission) -> None:
        self.admission = admission
        self.inside: list[int] = []
        self.doors: dict[int, asyncio.Event] = {}
        self.on_leaving: Callable[[], object] = lambda: None

    def come(self, name: int, waited: float = 0.0) -> asyncio.Task[None]:
        self.doors[name] = asyncio.Event()
        return asyncio.create_task(self._visit(name, waited))

    async def one_takes(self, seconds: float, clock: Clock) -> None:
        """Let a search take so long, by which admission knows what they take."""
        visit = self.come(0)
        await settled()
        clock.now += seconds
        self.doors[0].set()
        await visit

    async def _visit(self, name: int, waited: float) -> None:
        async with self.admission.enter(Stages(waited)):
            self.inside.append(name)
            try:
                await self.doors[name].wait()
            finally:
                self.inside.remove(name)
        self.on_leaving()


async def settled() -> None:
    for _ in range(5):
        await asyncio.sleep(0)


def test_no_more_are_let_in_at_the_door_together_than_will_find_a_place() -> None:
    async def main() -> None:
        guests = Guests(Admission(in_flight=2, queued=1, deadline=5))
        let_in = [guests.admission.knock() is None for _ in range(6)]
        assert let_in == [True, True, True, False, False, False]
        tasks = [guests.come(at) for at in range(3)]
        await settled()
        assert (guests.admission.in_flight, guests.admission.waiting) == (2, 1)
        assert guests.admission.knock() is not None
        for door in guests.doors.values():
            door.set()
        await asyncio.gather(*tasks)

    asyncio.run(main())


def test_who_is_let_in_and_does_not_enter_keeps_nobody_out() -> None:
    async def main() -> None:
        admission = Admission(in_flight=1, queued=0, deadline=5)
        assert admission.knock() is None
        assert admission.knock() is not None
        await settled()
        assert admission.knock() is None

    asyncio.run(main())


def test_those_in_line_are_called_in_order_as_places_come_free() -> None:
    async def main() -> None:
        guests = Guests(Admission(in_flight=2, queued=3, deadline=5))
        admission = guests.admission
        called: list[int] = []
        tasks: dict[int, asyncio.Task[None]] = {}

        def turn(name: int) -> Callable[[], None]:
            def come() -> None:
                called.append(name)
                assert admission.knock(called=name > 1) is None
                tasks[name] = guests.come(name)

            return come

        def has_line() -> bool:
            return admission.has_line

        for name in (0, 1):
            assert not has_line()  # there is a place
            turn(name)()
            await settled()
        for name in (2, 3, 4):
            assert has_line()
            admission.stand_in_line(turn(name))
        assert not has_line()  # and no room in it
        assert (admission.in_flight, admission.waiting) == (2, 3)
        assert admission.knock() is not None
        guests.doors[0].set()
        await settled()
        assert (called, guests.inside) == ([0, 1, 2], [1, 2])
        assert has_line()
        admission.stand_in_line(turn(6))  # behind those who stand there
        guests.doors[1].set()
        guests.doors[2].set()
        await settled()
        assert guests.inside == [3, 4]
        guests.doors[3].set()
        guests.doors[4].set()
        await settled()
        assert guests.inside == [6]
        guests.doors[6].set()
        await asyncio.gather(*tasks.values())
        assert (admission.in_flight, admission.waiting) == (0, 0)

    asyncio.run(main())


def test_places_go_by_arrival_whether_one_waits_at_the_door_or_behind_it() -> None:
    async def main() -> None:
        guests = Guests(Admission(in_flight=1, queued=9, deadline=5))
        admission = guests.admission
        tasks = [guests.come(0)]

        def stand_in_line(name: int) -> None:
            assert admission.has_line
            came = perf_counter()

            def turn() -> None:
                assert admission.knock(called=True) is None
                tasks.append(guests.come(name, perf_counter() - came))

            admission.stand_in_line(turn)

        await settled()
        for name in range(1, 7):
            if name % 2:
                stand_in_line(name)
            else:
                tasks.append(guests.come(name))
            await asyncio.sleep(0.01)
        for name in range(7):
            assert guests.inside == [name]
            guests.doors[name].set()
            await settled()
        await asyncio.gather(*tasks)
        assert (admission.in_flight, admission.waiting) == (0, 0)

    asyncio.run(main())


def test_who_comes_as_a_place_gets_free_does_not_go_by_those_who_wait() -> None:
    async def main() -> None:
        guests = Guests(Admission(in_flight=1, queued=9, deadline=5))
        admission = guests.admission
        tasks = [guests.come(0)]
        await settled()
        called: list[int] = []
        admission.stand_in_line(lambda: called.append(1))
        await asyncio.sleep(0.01)
        guests.on_leaving = lambda: tasks.append(guests.come(2))
        guests.doors[0].set()
        await settled()
        guests.on_leaving = lambda: None
        assert (called, guests.inside) == ([1], [2])  # the first did not come in
        guests.doors[2].set()
        await asyncio.gather(*tasks)

    asyncio.run(main())


def test_a_line_has_an_end_also_while_places_are_free() -> None:
    async def main() -> None:
        guests = Guests(Admission(in_flight=2, queued=3, deadline=5))
        admission = guests.admission
        tasks = [guests.come(name) for name in (0, 1)]
        await settled()
        called: list[int] = []

        def come(name: int) -> None:
            called.append(name)
            assert admission.knock(called=True) is None
            tasks.append(guests.come(name))

        def line_up(names: range) -> list[int]:
            took = []
            for name in names:
                if admission.has_line:
                    admission.stand_in_line(lambda name=name: come(name))  # type: ignore[misc]
                    took.append(name)
            return took

        assert line_up(range(2, 9)) == [2, 3, 4]
        # Two leave in the same moment, and who comes in it finds their places free, and a line.
        came: list[list[int]] = []
        refused: list[bool] = []

        def on_leaving() -> None:
            came.append(line_up(range(10 * len(came) + 10, 10 * len(came) + 19)))
            refused.append(admission.knock() is not None)

        guests.on_leaving = on_leaving
        guests.doors[0].set()
        guests.doors[1].set()
        await settled()
        assert came == [[10], [20]]  # as many as will find room when the others have gone on
        assert refused == [True, True]  # and none goes by those who stand there
        assert called == [2, 3]
        assert (admission.in_flight, admission.waiting) == (2, 3)
        guests.on_leaving = lambda: None
        for name in (2, 3, 4, 10, 20):
            guests.doors[name].set()
            await settled()
        await asyncio.gather(*tasks)
        assert called == [2, 3, 4, 10, 20]

    asyncio.run(main())


def test_who_is_called_has_a_place_though_those_behind_would_wait_too_long() -> None:
    async def main() -> None:
        guests = Guests(Admission(in_flight=1, queued=50, deadline=0.5))
        admission = guests.admission
        first = guests.come(0)
        await settled()
        answers: list[object] = []
        admission.stand_in_line(lambda: answers.append(admission.knock(called=True)))
        for _ in range(45):
            admission.stand_in_line(lambda: None)
        await asyncio.sleep(0.12)  # so long a search takes: those behind would wait too long
        guests.doors[0].set()
        await first
        await settled()
        assert answers == [None]

    asyncio.run(main())


def test_who_leaves_the_line_is_not_called() -> None:
    async def main() -> None:
        guests = Guests(Admission(in_flight=1, queued=9, deadline=5))
        inside = guests.come(0)
        await settled()
        called: list[int] = []
        turns = [lambda name=name: called.append(name) for name in range(3)]
        for turn in turns:
            guests.admission.stand_in_line(turn)
        guests.admission.leave_line(turns[1])
        assert guests.admission.waiting == 2
        guests.doors[0].set()
        await inside
        await settled()
        assert called == [0, 2]  # neither took the place that was free

    asyncio.run(main())


def test_who_stands_in_line_is_called_even_if_no_place_is_left_by_anybody() -> None:
    async def main() -> None:
        admission = Admission(in_flight=1, queued=9, deadline=0.3)
        called = asyncio.Event()
        assert admission.knock() is None  # the one place, which is given up without a word
        assert admission.has_line
        admission.stand_in_line(called.set)
        async with asyncio.timeout(5):
            await called.wait()
        guests = Guests(admission)
        inside = guests.come(0)
        await settled()
        with pytest.raises(ServiceError) as refusal:
            async with admission.enter(Stages(waited=0.3)):
                pass
        assert refusal.value.reason == "busy"
        guests.doors[0].set()
        await inside

    asyncio.run(main())


def test_beyond_the_queue_the_answer_is_busy_at_once() -> None:
    async def main() -> None:
        guests = Guests(Admission(in_flight=2, queued=1, deadline=5))
        tasks = [guests.come(at) for at in range(4)]
        await settled()
        assert guests.inside == [0, 1]
        assert (guests.admission.in_flight, guests.admission.waiting) == (2, 1)
        with pytest.raises(ServiceError) as refusal:
            await tasks[3]
        assert refusal.value.reason == "busy"
        assert refusal.value.retry_after is not None
        assert refusal.value.retry_after >= 1
        for door in guests.doors.values():
            door.set()
        await asyncio.gather(*tasks[:3])
        assert (guests.admission.in_flight, guests.admission.waiting) == (0, 0)

    asyncio.run(main())


def test_turns_come_in_the_order_of_arrival() -> None:
    async def main() -> None:
        guests = Guests(Admission(in_flight=1, queued=9, deadline=5))
        tasks = [guests.come(at) for at in range(4)]
        for at in range(4):
            await settled()
            assert guests.inside == [at]
            guests.doors[at].set()
        await asyncio.gather(*tasks)

    asyncio.run(main())


def test_who_waits_past_the_deadline_is_told_the_service_is_busy() -> None:
    async def main() -> None:
        guests = Guests(Admission(in_flight=1, queued=9, deadline=0.05))
        inside, waiting = guests.come(0), guests.come(1)
        with pytest.raises(ServiceError) as refusal:
            await waiting
        assert refusal.value.reason == "busy"
        with pytest.raises(ServiceError) as refusal:
            await inside
        assert refusal.value.reason == "late"
        await settled()
        assert (guests.admission.in_flight, guests.admission.waiting) == (0, 0)

    asyncio.run(main())


@pytest.mark.parametrize("who", [0, 1, 2])
def test_a_client_that_leaves_gives_its_place_to_the_next(who: int) -> None:
    async def main() -> None:
        guests = Guests(Admission(in_flight=1, queued=9, deadline=5))
        tasks = [guests.come(at) for at in range(3)]
        await settled()
        tasks[who].cancel()
        for at in range(3):
            if at != who:
                await settled()
                assert guests.inside == [at]
                guests.doors[at].set()
        results = await asyncio.gather(*tasks, return_exceptions=True)
        assert isinstance(results[who], asyncio.CancelledError)
        assert (guests.admission.in_flight, guests.admission.waiting) == (0, 0)

    asyncio.run(main())


def test_a_turn_that_comes_as_its_client_leaves_is_handed_on() -> None:
    async def main() -> None:
        guests = Guests(Admission(in_flight=1, queued=9, deadline=5))
        tasks = [guests.come(at) for at in range(3)]
        await settled()
        # In the step in which 0 hands its place to 1, before 1 runs.
        guests.on_leaving = tasks[1].cancel
        guests.doors[0].set()
        await settled()
        assert tasks[1].cancelled()
        assert guests.inside == [2]
        guests.doors[2].set()
        await tasks[2]
        assert (guests.admission.in_flight, guests.admission.waiting) == (0, 0)

    asyncio.run(main())


def test_an_error_inside_frees_the_place() -> None:
    async def main() -> None:
        admission = Admission(in_flight=1, queued=0, deadline=5)
        for _ in range(3):
            with pytest.raises(KeyError):
                async with admission.enter(Stages()):
                    raise KeyError
        assert admission.in_flight == 0

    asyncio.run(main())


def test_a_wait_that_would_outlast_the_deadline_is_not_begun() -> None:
    async def main() -> None:
        admission = Admission(in_flight=1, queued=1000, deadline=0.5)
        for _ in range(10):
            async with admission.enter(Stages()):
                await asyncio.sleep(0.02)
        guests = Guests(admission)
        tasks = [guests.come(at) for at in range(200)]
        await settled()
        refused = [task for task in tasks if task.done()]
        assert 100 < len(refused) < 199
        assert all(task.exception().reason == "busy" for task in refused)  # type: ignore[union-attr]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    asyncio.run(main())


def test_a_turn_that_comes_too_late_for_an_answer_is_not_begun(
    clock: Clock,
) -> None:
    async def main() -> None:
        guests = Guests(Admission(in_flight=1, queued=9, deadline=11))
        for at in range(2):  # each takes its time, so the mean is known to be some seconds
            tasks = [guests.come(10 * at), guests.come(10 * at + 1)]
            await settled()
            clock.now += 40.0 if at == 0 else 8.0
            guests.doors[10 * at].set()
            guests.doors[10 * at + 1].set()
            results = await asyncio.gather(*tasks, return_exceptions=True)
        assert results[0] is None
        assert isinstance(results[1], ServiceError)
        assert results[1].reason == "busy"
        assert (guests.admission.in_flight, guests.admission.waiting) == (0, 0)

    asyncio.run(main())


def test_who_came_from_the_line_too_late_for_an_answer_is_not_begun(
    clock: Clock,
) -> None:
    async def main() -> None:
        guests = Guests(Admission(in_flight=1, queued=9, deadline=11))
        await guests.one_takes(40.0, clock)  # so the mean is known to be some seconds
        stages = Stages(waited=10.0)
        with pytest.raises(ServiceError) as refused:
            async with guests.admission.enter(stages):
                pytest.fail("it was begun")
        assert refused.value.reason == "busy"
        assert stages.seconds["queue"] == 10.0  # and what it stood in line counts once
        assert guests.admission.in_flight == 0

    asyncio.run(main())


def test_who_is_called_from_the_line_for_no_place_and_has_no_time_left_is_refused(
    clock: Clock,
) -> None:
    async def main() -> None:
        guests = Guests(Admission(in_flight=1, queued=9, deadline=9))
        await guests.one_takes(40.0, clock)  # so those who come now would wait too long
        second = guests.come(1)
        await settled()
        refusal = guests.admission.knock(called=True)
        assert refusal is not None
        assert refusal.reason == "busy"
        guests.doors[1].set()
        await second

    asyncio.run(main())


def test_who_waited_at_the_door_goes_by_its_arrival_there() -> None:
    async def main() -> None:
        guests = Guests(Admission(in_flight=1, queued=9, deadline=60))
        tasks = [guests.come(0)]
        await settled()
        tasks += [guests.come(1), guests.come(2, waited=5.0)]
        await settled()
        for name in (0, 2, 1):
            assert guests.inside == [name]
            guests.doors[name].set()
            await settled()
        await asyncio.gather(*tasks)

    asyncio.run(main())


def test_who_left_the_queue_leaves_room_in_it() -> None:
    async def main() -> None:
        guests = Guests(Admission(in_flight=1, queued=1, deadline=60))
        first, leaving = guests.come(0), guests.come(1)
        await settled()
        leaving.cancel()
        await asyncio.gather(leaving, return_exceptions=True)
        assert guests.admission.waiting == 0
        second = guests.come(2)
        for door in guests.doors.values():
            door.set()
        await asyncio.gather(first, second)

    asyncio.run(main())


def test_a_place_that_nobody_left_is_found_for_who_stands_in_line_and_not_before() -> None:
    async def main() -> None:
        admission = Admission(in_flight=1, queued=9, deadline=60)
        inside = Guests(admission).come(0)
        await settled()
        called = asyncio.Event()
        admission.stand_in_line(called.set)
        await asyncio.sleep(0.15)  # in which it is looked for one
        assert not called.is_set()
        inside.cancel()
        await asyncio.gather(inside, return_exceptions=True)

        called.clear()
        admission = Admission(in_flight=1, queued=9, deadline=60)
        assert admission.knock() is None  # the one place, which is given up without a word
        admission.stand_in_line(called.set)
        async with asyncio.timeout(5):
            await called.wait()

    asyncio.run(main())


def test_the_more_places_there_are_the_more_may_wait_and_when_to_come_back_is_told(
    clock: Clock,
) -> None:
    async def main() -> None:
        guests = Guests(Admission(in_flight=10, queued=1000, deadline=11))
        await guests.one_takes(10.0, clock)  # so a search is known to take a second
        tasks = [guests.come(at) for at in range(1, 101)]
        await settled()
        refused = [task.exception() for task in tasks if task.done()]
        assert 80 < len(tasks) - len(refused) < 95  # ten at a time, so that nine seconds are enough
        for error in refused:
            assert isinstance(error, ServiceError)
            assert error.retry_after is not None
            assert error.retry_after in (9, 10)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    asyncio.run(main())
