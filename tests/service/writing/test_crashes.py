from __future__ import annotations

from typing import Any

import pytest

from tests.programs import outcomes_of

# Attempts of each kind, with their seed; `python -m tests.service.writing.crashes` does any.
ATTEMPTS = [(2, 1), pytest.param((8, 0), marks=pytest.mark.slow)]


@pytest.fixture(scope="module", params=ATTEMPTS, ids=lambda attempts: f"{attempts[0]}-each")
def outcomes(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> list[dict[str, Any]]:
    attempts, seed = request.param
    folder = tmp_path_factory.mktemp("crashes")
    return outcomes_of("tests.service.writing.crashes", folder, seed, attempts)


@pytest.mark.parametrize(("work", "way"), [("sync", "kill"), ("sync", "full"), ("watch", "kill")])
def test_sync_stopped_at_a_write_ends_the_next_time_as_if_undisturbed(
    work: str, way: str, outcomes: list[dict[str, Any]]
) -> None:
    mine = [line for line in outcomes if (line["work"], line["way"]) == (work, way)]
    assert mine
    for outcome in mine:
        assert outcome["fault"] is None, outcome["fault"]
        # A watch takes changes together as they come, so the last write points may be missing.
        assert outcome["killed"] is (way == "kill") or work == "watch"
