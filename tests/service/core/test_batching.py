"""Batches: items share work and share no failures."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Sequence

import pytest

from hasse.service.core.batching import Batcher, BatchResult, WorkerStoppedError


class Recorder:
    """Doubles numbers; remembers its batches; fails on some of them."""

    def __init__(self, poison: object = None) -> None:
        self.batches: list[tuple[str, list[int]]] = []
        self.poison = poison
        self.gate = threading.Event()
        self.gate.set()
        self.entered = threading.Event()
        self.changed = threading.Condition()

    def run(self, key: str, items: list[int]) -> Sequence[int]:
        self.entered.set()
        assert self.gate.wait(60)
        with self.changed:
            self.batches.append((key, items))
            self.changed.notify_all()
        if self.poison in items:
            raise ValueError(f"cannot take {self.poison}")
        return [2 * item for item in items]

    def batcher(self, size: int = 8) -> Batcher[str, int, int]:
        return Batcher("test", self.run, size=lambda key: size)


async def behind_a_closed_gate(
    recorder: Recorder, batcher: Batcher[str, int, int]
) -> asyncio.Task[BatchResult[int]]:
    """Keep the worker busy with one item, so that those that follow wait together."""
    recorder.gate.clear()
    first = asyncio.create_task(batcher.submit("a", 0))
    await asyncio.to_thread(recorder.entered.wait, 60)
    return first


async def settled() -> None:
    for _ in range(3):
        await asyncio.sleep(0)


def test_items_submitted_during_a_batch_are_the_next_batch() -> None:
    async def main() -> None:
        recorder = Recorder()
        batcher = recorder.batcher(size=3)
        first = await behind_a_closed_gate(recorder, batcher)
        rest = [asyncio.create_task(batcher.submit("a", at)) for at in range(1, 6)]
        await settled()
        assert batcher.waiting == 5
        recorder.gate.set()
        results = [done.result for done in await asyncio.gather(first, *rest)]
        batcher.close()
        assert results == [0, 2, 4, 6, 8, 10]
        assert [items for _, items in recorder.batches] == [[0], [1, 2, 3], [4, 5]]

    asyncio.run(main())


def test_items_with_different_keys_do_not_mix_and_the_oldest_goes_first() -> None:
    async def main() -> None:
        recorder = Recorder()
        batcher = recorder.batcher()
        first = await behind_a_closed_gate(recorder, batcher)
        rest = [
            asyncio.create_task(batcher.submit(key, at)) for at, key in enumerate("bababc", start=1)
        ]
        await settled()
        recorder.gate.set()
        await asyncio.gather(first, *rest)
        batcher.close()
        assert recorder.batches == [("a", [0]), ("b", [1, 3, 5]), ("a", [2, 4]), ("c", [6])]

    asyncio.run(main())


def test_item_at_fault_fails_alone() -> None:
    async def main() -> None:
        recorder = Recorder(poison=2)
        batcher = recorder.batcher()
        first = await behind_a_closed_gate(recorder, batcher)
        rest = [asyncio.create_task(batcher.submit("a", at)) for at in (1, 2, 3)]
        await settled()
        recorder.gate.set()
        results = await asyncio.gather(first, *rest, return_exceptions=True)
        assert [r.result for r in results if isinstance(r, BatchResult)] == [0, 2, 6]
        assert isinstance(results[2], ValueError)
        assert batcher.alive
        assert (await batcher.submit("a", 7)).result == 14
        batcher.close()

    asyncio.run(main())


def test_error_that_is_no_items_fault_fails_the_whole_batch() -> None:
    async def main() -> None:
        runs: list[list[int]] = []

        def run(_lane: str, items: list[int]) -> list[int]:
            runs.append(items)
            raise ConnectionError("the database is away")

        batcher = Batcher("test", run, size=lambda _: 4, batch_errors=(ConnectionError,))
        work = [batcher.submit("a", at) for at in range(4)]
        found = await asyncio.gather(*work, return_exceptions=True)
        assert [type(error) for error in found] == [ConnectionError] * 4
        assert runs == [[0, 1, 2, 3]]
        assert batcher.alive
        batcher.close()

    asyncio.run(main())


def test_run_that_returns_too_few_results_fails_its_items_only() -> None:
    async def main() -> None:
        batcher: Batcher[str, int, int] = Batcher("test", lambda key, items: [], size=lambda _: 4)
        with pytest.raises(ValueError, match="0 results for 1 items"):
            await batcher.submit("a", 1)
        assert batcher.alive
        batcher.close()

    asyncio.run(main())


def test_cancelled_item_is_skipped() -> None:
    async def main() -> None:
        recorder = Recorder()
        batcher = recorder.batcher()
        first = await behind_a_closed_gate(recorder, batcher)
        leaving, staying = (asyncio.create_task(batcher.submit("a", at)) for at in (1, 2))
        await settled()
        leaving.cancel()
        await settled()
        recorder.gate.set()
        await asyncio.gather(first, staying)
        batcher.close()
        assert [items for _, items in recorder.batches] == [[0], [2]]

    asyncio.run(main())


def test_thread_that_dies_fails_all_items_and_reports_it() -> None:
    async def main() -> None:
        deaths: list[str] = []

        def die(key: str, items: list[int]) -> Sequence[int]:
            raise SystemExit("the thread ends")

        batcher: Batcher[str, int, int] = Batcher(
            "test", die, size=lambda _: 1, on_death=lambda: deaths.append("dead")
        )
        results = await asyncio.gather(
            *(batcher.submit("a", at) for at in range(3)), return_exceptions=True
        )
        assert all(isinstance(result, WorkerStoppedError) for result in results)
        with pytest.raises(WorkerStoppedError):
            await batcher.submit("a", 1)
        assert not batcher.alive
        # The callers are freed first, the owner is told next.
        async with asyncio.timeout(60):
            while not deaths:
                await asyncio.sleep(0.01)
        assert deaths == ["dead"]

    asyncio.run(main())


def test_close_finishes_the_running_batch_and_fails_waiting_items() -> None:
    async def main() -> None:
        recorder = Recorder()
        batcher = recorder.batcher()
        first = await behind_a_closed_gate(recorder, batcher)
        waiting = asyncio.create_task(batcher.submit("b", 1))
        await settled()
        closing = asyncio.create_task(asyncio.to_thread(batcher.close, 60))
        while not batcher._closing:
            await asyncio.sleep(0.001)
        recorder.gate.set()
        await closing
        assert (await first).result == 0
        with pytest.raises(WorkerStoppedError):
            await waiting
        with pytest.raises(WorkerStoppedError):
            await batcher.submit("a", 1)

    asyncio.run(main())


def test_busy_seconds_of_a_batch_that_hangs_grows() -> None:
    async def main() -> None:
        recorder = Recorder()
        batcher = recorder.batcher()
        assert batcher.busy_seconds() == 0
        first = await behind_a_closed_gate(recorder, batcher)
        await asyncio.sleep(0.02)
        assert batcher.busy_seconds() >= 0.02
        recorder.gate.set()
        await first
        batcher.close()
        assert batcher.busy_seconds() == 0

    asyncio.run(main())


def test_busy_seconds_is_of_the_batch_that_runs_longest() -> None:
    async def main() -> None:
        recorder = Recorder()
        batcher = Batcher("test", recorder.run, size=lambda key: 1, workers=2)
        first = await behind_a_closed_gate(recorder, batcher)
        await asyncio.sleep(0.1)
        recorder.entered.clear()
        second = asyncio.create_task(batcher.submit("a", 1))
        await asyncio.to_thread(recorder.entered.wait, 60)
        hanging = batcher.busy_seconds()
        recorder.gate.set()
        await asyncio.gather(first, second)
        batcher.close()
        assert hanging >= 0.05

    asyncio.run(main())


def test_result_holds_the_wait_of_its_own_item() -> None:
    async def main() -> None:
        recorder = Recorder()
        batcher = recorder.batcher()
        busy = await behind_a_closed_gate(recorder, batcher)
        first = asyncio.create_task(batcher.submit("a", 1))
        await asyncio.sleep(0.1)
        second = asyncio.create_task(batcher.submit("a", 2))
        await settled()
        recorder.gate.set()
        await busy
        assert (await first).waited >= (await second).waited + 0.05
        batcher.close()

    asyncio.run(main())


def test_loop_closed_meanwhile_ends_no_thread() -> None:
    recorder = Recorder()
    batcher = recorder.batcher()

    async def leave() -> None:
        (await behind_a_closed_gate(recorder, batcher)).cancel()

    async def come() -> None:
        assert (await batcher.submit("a", 1)).result == 2

    asyncio.run(leave())
    recorder.gate.set()
    asyncio.run(come())
    assert batcher.alive
    batcher.close()


def test_items_of_an_ended_loop_do_not_delay_others() -> None:
    batcher = Recorder().batcher()

    loop = asyncio.new_event_loop()
    loop.set_exception_handler(lambda *_: None)  # it would complain about the task
    left = loop.create_task(batcher.submit("a", 1))
    loop.call_soon(loop.stop)  # in this turn, and what came is handed over in the next
    loop.run_forever()
    assert batcher.waiting == 1
    loop.close()
    assert not left.done()

    async def main() -> None:
        assert (await batcher.submit("a", 3)).result == 6
        batcher.close()

    asyncio.run(main())


def test_items_submitted_together_wake_as_many_threads_as_needed() -> None:
    async def main() -> None:
        both = threading.Barrier(2)

        def run(_lane: str, items: list[int]) -> list[int]:
            both.wait(60)  # one thread alone would not get past it
            return items

        batcher: Batcher[str, int, int] = Batcher("test", run, size=lambda _: 1, workers=2)
        found = await asyncio.gather(*(batcher.submit("a", at) for at in range(2)))
        assert [done.result for done in found] == [0, 1]
        batcher.close()

    asyncio.run(main())
