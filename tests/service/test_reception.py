"""Reception: searches need a place, and nothing else does."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace
from typing import Any

import pytest

from service.core.admission import Admission
from service.core.stages import Stages
from service.reception import Reception
from service.runtime.readiness import Phase, Readiness
from service.settings import Settings

ASK = b"POST /search/images?a=b HTTP/1.1\r\n"
DRAW = b"GET /images/7/diagram HTTP/1.1\r\n"


def reception(admission: Admission | None) -> Reception:
    readiness = Readiness(Settings())
    engine: Any = None if admission is None else SimpleNamespace(admission=admission)
    readiness.engine = engine
    return Reception(readiness)


def refused(reception: Reception, line: bytes, *, called: bool = False) -> str | None:
    """Return the route for which a request is refused, if it is."""
    method, target, _ = line.split(b" ")
    found = reception.refusal(method, target, called=called)
    assert found is None or found.error.reason == "busy"
    return None if found is None else found.route


def test_who_comes_while_the_model_is_being_loaded_is_let_in_to_be_told_so() -> None:
    loading = reception(None)
    assert refused(loading, ASK) is None
    assert not loading.stands_in_line(ASK, lambda: None)
    loading.leaves_line(lambda: None)


def test_only_searches_are_refused_and_by_their_routes() -> None:
    async def main() -> None:
        full = reception(Admission(in_flight=1, queued=0, deadline=5))
        assert refused(full, ASK) is None  # which takes the one place
        assert refused(full, ASK) == "/search/images"
        assert refused(full, DRAW) == "/images/{image_id}/diagram"
        for other in (b"GET /search/images HTTP/1.1", b"POST /images H", b"GET /images/7 H"):
            assert refused(full, other) is None

    asyncio.run(main())


def test_searches_stand_in_line_where_there_is_one_until_they_leave() -> None:
    async def main() -> None:
        admission = Admission(in_flight=1, queued=1, deadline=5)
        house = reception(admission)
        turns: list[str] = []

        def turn() -> None:
            turns.append("called")

        assert not house.stands_in_line(ASK, turn)  # there is a place
        async with admission.enter(Stages()):
            for other in (b"POST /images H", b"GET /search/images H", ASK[:15], b"", b"\r\n"):
                assert not house.stands_in_line(other, turn)
            assert house.stands_in_line(ASK, turn)
            assert not house.stands_in_line(DRAW, turn)  # the line is full
            house.leaves_line(turn)
            assert admission.waiting == 0
            assert house.stands_in_line(DRAW, turn)
        await asyncio.sleep(0.01)
        assert turns == ["called"]

    asyncio.run(main())


def test_who_was_called_has_its_place_though_others_stand_in_line() -> None:
    async def main() -> None:
        admission = Admission(in_flight=1, queued=1, deadline=5)
        house = reception(admission)
        async with admission.enter(Stages()):
            assert house.stands_in_line(ASK, lambda: None)
        house.stands_in_line(ASK, lambda: None)
        assert refused(house, ASK) == "/search/images"
        assert refused(house, ASK, called=True) is None

    asyncio.run(main())


@pytest.mark.parametrize("phase", Phase)
def test_an_answer_is_the_last_of_its_connection_once_the_service_stops(phase: Phase) -> None:
    readiness = Readiness(Settings())
    readiness.phase = phase
    assert Reception(readiness).is_stopping() is (phase is Phase.STOPPING)
