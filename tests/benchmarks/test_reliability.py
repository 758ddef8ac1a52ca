"""Each measurement of reliability, so short that it shows only that it works and finds no fault."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from benchmarks.reliability import (
    attack,
    fuzz,
    hostile,
    overload,
    rotation,
    soak,
    stop,
    swaps,
    throughput,
)
from benchmarks.reliability.collection import captions, collection
from benchmarks.reliability.connection import Reply, search
from benchmarks.reliability.load import Tally, closed_loop, run, until_normal
from benchmarks.reliability.served import Served, served
from hasse.service.errors import REASONS
from hasse.service.settings import Settings

ASKED = captions(4)
REQUESTS = [search(caption) for caption in ASKED]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("reliability")


@pytest.fixture(scope="module")
def service(folder: Path) -> Iterator[Served]:
    with served(collection(folder, swaps.ROWS), in_flight=4, queued=4) as service:
        yield service


def tally(statuses: dict[int, int], seconds: float) -> Tally:
    """Return a second's answers, each of which took so long."""
    found = Tally(seconds=1.0)
    for status in Counter(statuses).elements():
        found.add(status, seconds)
    return found


def test_what_a_service_takes_for_itself_is_what_its_stages_leave() -> None:
    head = b"HTTP/1.1 200 OK\r\nserver-timing: queue;dur=1.00, encode;dur=2.00, metadata;dur=9.00"
    assert throughput.overhead([Reply(200, head, b"", 0.010)]) == pytest.approx(0.007)


@pytest.mark.slow
def test_what_a_service_used_is_what_all_its_processes_used(service: Served, folder: Path) -> None:
    assert run(throughput.answered(service, REQUESTS, 0.5)) > 0
    with served(collection(folder, swaps.ROWS), processes=2) as several:
        begun = several.cpu_seconds()
        assert run(throughput.answered(several, REQUESTS, 1.0)) > 0
        asked = several.cpu_seconds() - begun
    assert begun > 1  # their start alone, of which the process that keeps them has little
    assert asked > 0.1


def test_the_lines_of_an_overload_name_each_broken_promise() -> None:
    broken = overload.Turn(tally({200: 1, 503: 1}, 0.1), peak=2.0)
    answers, goodput, late, _ = overload.lines("4 x the rate", [broken], 5.0, overload.SHARE)
    assert (answers.kept, goodput.kept, late.kept) == (False, False, True)


def test_the_goodput_of_an_overload_is_the_median_of_its_turns_each_by_its_own_peak() -> None:
    turns = [
        overload.Turn(tally({200: accepted, 429: 30}, 0.1), peak)
        for accepted, peak in ((5, 10.0), (19, 20.0), (8, 8.0))
    ]
    answers, goodput, _, _ = overload.lines("4 x the rate", turns, 5.0, overload.SHARE)
    assert answers.measured == "32 x 200, 90 x 429"
    assert goodput.measured == "95% of the peak (50% to 100%), 11/s"
    assert goodput.kept


def test_the_line_of_an_attack_names_what_others_met() -> None:
    many = attack.Attack("searches", 3, attack.asks(b""))
    seen = attack.Seen([0.01, 0.02], Counter({200: 2}), Counter({200: 3, 429: 1}), 0.3, 1, 3, 2)
    kept = attack.line(many, seen, 5.0)
    assert kept.kept
    assert kept.what == "3 x searches"
    assert kept.measured == (
        "/livez 20 ms; /readyz 2 x 200; searches 3 x 200, 1 x 429, 0.30 s; 1, 3, 2 MB"
    )
    for worse in (
        replace(seen, livez=[0.01, 2.0]),
        replace(seen, readyz=Counter({200: 1, 503: 1})),
        replace(seen, searches=Counter({0: 1})),
        replace(seen, slowest_search=9.0),
        replace(seen, after=500.0),
    ):
        assert not attack.line(many, worse, 5.0).kept


@pytest.mark.slow
def test_attacks_end_and_leave_the_service_alive(
    service: Served, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(attack, "REST_SECONDS", 0.0)
    for each in attack.attacks():
        seen = attack.seen_by_others(service, replace(each, clients=min(each.clients, 4)), 0.6)
        assert 200 in seen.readyz, each.name
        assert set(seen.searches) <= {200, 429}, each.name


@pytest.mark.slow
def test_a_crowd_gets_answers_and_refusals_and_nothing_else(service: Served) -> None:
    host, port = service.host, service.port
    tally = run(closed_loop(host, port, REQUESTS, 40, 60.0, count=400))
    assert tally.statuses.total() == 400
    assert set(tally.statuses) == {200, 429}
    assert tally.resets == 0
    assert run(until_normal(host, port, REQUESTS[0], 60.0)) < 60


@pytest.mark.slow
def test_requests_of_every_kind_leave_nothing_behind(service: Served) -> None:
    tally, settled, ended = soak.soak(service, soak.requests(ASKED), 400, lambda done: None)
    assert tally.statuses.total() == 400
    assert not tally.resets
    assert {status for status in tally.statuses if status >= 500} == set()
    assert tally.statuses[200] > 0
    assert ended.threads <= settled.threads + soak.CLIENTS  # pools start threads when needed
    assert ended.descriptors <= settled.descriptors + soak.CLIENTS


@pytest.mark.slow
def test_the_hostile_corpus_is_answered_or_refused_by_name_in_bounded_memory(
    service: Served,
) -> None:
    requests = hostile.corpus()
    assert len(requests) >= 60
    before = service.usage()
    said = hostile.send(service, requests)
    assert said.keys() == requests.keys()
    assert not {what for what in said.values() if what in REASONS and REASONS[what].status >= 500}
    assert service.usage().peak_megabytes - before.megabytes < hostile.bound(Settings())


@pytest.mark.slow
def test_bytes_changed_at_random_are_read_or_refused_by_name(tmp_path: Path) -> None:
    outcomes, findings = fuzz.fuzz(float("inf"), 0, tmp_path, iter(range(90)))
    assert not findings, findings[0]
    assert all(counts.total() == 30 for counts in outcomes.values())


@pytest.mark.slow
def test_a_service_that_is_stopped_at_work_answers_and_ends_with_0(service: Served) -> None:
    ending = stop.stop(service, REQUESTS)
    assert ending.resets == 0
    assert ending.statuses.total() >= stop.CLIENTS
    assert ending.exit_status == 0


def test_the_count_of_a_rotation_names_each_broken_promise_and_nothing_before_a_second() -> None:
    asked = [("stays", 1.0, 401), ("odd", 10.4, 401), ("even", 10.5, 200), ("even", 11.5, 401)]
    seen = rotation.Rotations([rotation.Asked(*one) for one in asked], [10.0])
    assert (seen.refused, seen.served, seen.delay) == (1, 0, 0.5)
    late = [rotation.Asked("even", 11.5, 200), rotation.Asked("odd", 11.2, 401)]
    seen = rotation.Rotations(late, [10.0])
    assert (seen.refused, seen.served, seen.delay) == (1, 1, 1.5)


@pytest.mark.slow
def test_keys_rotated_under_load_refuse_no_good_key_and_serve_no_removed_one(folder: Path) -> None:
    file = folder / "keys"
    rotation.write_keys(file, 1)
    with served(collection(folder, swaps.ROWS), keys_file=file) as service:
        seen = rotation.rotate(service, file, 2)
    assert len(seen.asked) > len(seen.signals) * rotation.CLIENTS_EACH
    assert (seen.refused, seen.served) == (0, 0)


@pytest.mark.slow
def test_each_answer_is_of_one_generation_while_they_change(folder: Path) -> None:
    watch = swaps.swap(folder, 12)
    assert len(watch.held) == 13
    assert max(watch.seen) == max(watch.held)
    assert watch.mixed() == 0
