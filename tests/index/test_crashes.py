from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

ATTEMPTS = 6  # of each work and way; `python -m tests.index.crashes` does any number


@pytest.fixture(scope="module")
def outcomes(tmp_path_factory: pytest.TempPathFactory) -> list[dict[str, Any]]:
    folder = tmp_path_factory.mktemp("crashes")
    done = subprocess.run(
        [sys.executable, "-m", "tests.index.crashes", folder, "0", str(ATTEMPTS)],
        capture_output=True,
        text=True,
        check=False,
        cwd=Path(__file__).parents[2],
    )
    assert done.returncode == 0, done.stderr
    return [json.loads(line) for line in done.stdout.splitlines()]


@pytest.mark.parametrize("work", ["change", "compact", "build", "reencode"])
def test_a_kill_at_any_write_leaves_the_old_generation_or_the_new_one(
    work: str, outcomes: list[dict[str, Any]]
) -> None:
    mine = [line for line in outcomes if (line["work"], line["way"]) == (work, "kill")]
    assert len(mine) == ATTEMPTS
    for outcome in mine:
        assert outcome["fault"] is None, outcome["fault"]
        assert outcome["killed"]


@pytest.mark.parametrize("work", ["change", "compact", "build", "reencode"])
def test_a_full_disk_at_any_write_is_said_and_changes_nothing(
    work: str, outcomes: list[dict[str, Any]]
) -> None:
    mine = [line for line in outcomes if (line["work"], line["way"]) == (work, "full")]
    assert len(mine) == ATTEMPTS
    for outcome in mine:
        assert outcome["fault"] is None, outcome["fault"]
        assert not outcome["killed"]
