from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

# Attempts of each kind, with their seed; `python -m tests.service.writing.crashes` does any.
ATTEMPTS = [(2, 1), pytest.param((8, 0), marks=pytest.mark.slow)]


@pytest.fixture(scope="module", params=ATTEMPTS, ids=lambda attempts: f"{attempts[0]}-each")
def outcomes(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> list[dict[str, Any]]:
    attempts, seed = request.param
    folder = tmp_path_factory.mktemp("crashes")
    done = subprocess.run(
        [sys.executable, "-m", "tests.service.writing.crashes", folder, str(seed), str(attempts)],
        capture_output=True,
        text=True,
        check=False,
        cwd=Path(__file__).parents[3],
    )
    assert done.returncode == 0, done.stderr
    return [json.loads(line) for line in done.stdout.splitlines()]


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
