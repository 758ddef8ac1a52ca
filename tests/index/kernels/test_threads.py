from __future__ import annotations

import threading

import pytest

from hasse.index.kernels.threads import Workers


def test_map_returns_results_in_the_order_of_the_items(workers: Workers) -> None:
    assert workers.map(lambda n: n * n, range(50)) == [n * n for n in range(50)]
    assert workers.map(str, [7]) == ["7"]
    assert workers.map(str, []) == []


def test_map_shares_the_items_among_threads(workers: Workers) -> None:
    together = threading.Barrier(2, timeout=60)
    seen = workers.map(lambda _: (together.wait(), threading.get_ident())[1], range(2))
    assert threading.get_ident() in seen, "the calling thread works too"
    assert len(set(seen)) == 2


@pytest.mark.parametrize("wrong", [0, 7])
def test_map_raises_the_failure_of_any_item(wrong: int, workers: Workers) -> None:
    with pytest.raises(ZeroDivisionError):
        workers.map(lambda n: 1 // (n - wrong), range(8))
    assert workers.map(str, range(3)) == ["0", "1", "2"], "the pool still works"


def test_map_raises_the_failure_of_another_thread(workers: Workers) -> None:
    together, asking = threading.Barrier(2, timeout=60), threading.get_ident()

    def work(_: int) -> None:
        together.wait()
        if threading.get_ident() != asking:
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        workers.map(work, range(2))


def test_map_does_not_wait_for_threads_that_are_busy() -> None:
    workers, release = Workers(2), threading.Event()
    busy = threading.Barrier(5, timeout=60)  # two callers, their threads, and this test

    def stuck(_: int) -> None:
        busy.wait()
        release.wait(60)

    askers = [threading.Thread(target=workers.map, args=(stuck, range(2))) for _ in range(2)]
    for asker in askers:
        asker.start()
    while busy.n_waiting < 4:
        pass
    try:
        assert workers.map(str, range(9)) == [str(n) for n in range(9)]
    finally:
        busy.wait()
        release.set()
        for asker in askers:
            asker.join()
        workers.close()
