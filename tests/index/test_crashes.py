from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.postgresql import new_database
from tests.programs import outcomes_of

# Attempts of each kind, with their seed; `python -m tests.index.crashes` does any number.
WORKS = ["change", "compact", "build", "reencode", "describe"]
ATTEMPTS = [(2, 1), pytest.param((4, 0), marks=pytest.mark.slow)]


@pytest.fixture(scope="module", params=ATTEMPTS, ids=lambda attempts: f"{attempts[0]}-each")
def outcomes(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> list[dict[str, Any]]:
    attempts, seed = request.param
    folder = tmp_path_factory.mktemp("crashes")
    found = outcomes_of("tests.index.crashes", folder, seed, attempts)
    assert len(found) == attempts * 10
    return found


@pytest.mark.parametrize("work", WORKS)
def test_kill_at_any_write_leaves_the_old_generation_or_the_new_one(
    work: str, outcomes: list[dict[str, Any]]
) -> None:
    mine = [line for line in outcomes if (line["work"], line["way"]) == (work, "kill")]
    assert mine
    for outcome in mine:
        assert outcome["fault"] is None, outcome["fault"]
        assert outcome["killed"]


@pytest.mark.parametrize("work", WORKS)
def test_full_disk_at_any_write_is_reported_and_changes_nothing(
    work: str, outcomes: list[dict[str, Any]]
) -> None:
    mine = [line for line in outcomes if (line["work"], line["way"]) == (work, "full")]
    assert mine
    for outcome in mine:
        assert outcome["fault"] is None, outcome["fault"]
        assert not outcome["killed"]


@pytest.mark.slow
def test_postgresql_kill_at_any_write_leaves_one_generation_or_the_other(
    tmp_path: Path,
) -> None:
    with new_database():  # or skip
        pass
    outcomes = outcomes_of("tests.index.crashes", tmp_path, 0, 2, "postgresql")
    assert [line["work"] for line in outcomes] == [work for work in WORKS for _ in range(2)]
    for outcome in outcomes:
        assert outcome["fault"] is None, outcome["fault"]
        assert outcome["killed"]
