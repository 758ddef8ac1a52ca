from __future__ import annotations

from typing import Any

import pytest

from tests.programs import outcomes_of

pytestmark = pytest.mark.slow
ATTEMPTS = 5  # of each kind; `python -m tests.service.crashes` does any number


@pytest.fixture(scope="module")
def outcomes(tmp_path_factory: pytest.TempPathFactory) -> list[dict[str, Any]]:
    folder = tmp_path_factory.mktemp("crashes")
    found = outcomes_of("tests.service.crashes", folder, 0, ATTEMPTS)
    assert len(found) == ATTEMPTS * 2
    return found


def test_service_killed_at_a_write_loses_nothing_it_acknowledged(
    outcomes: list[dict[str, Any]],
) -> None:
    mine = [line for line in outcomes if line["way"] == "kill"]
    assert mine
    for outcome in mine:
        assert outcome["fault"] is None, outcome["fault"]
        assert outcome["killed"]


def test_service_with_a_full_disk_says_so_and_serves_on(outcomes: list[dict[str, Any]]) -> None:
    mine = [line for line in outcomes if line["way"] == "full"]
    assert mine
    for outcome in mine:
        assert outcome["fault"] is None, outcome["fault"]
        assert not outcome["killed"]
