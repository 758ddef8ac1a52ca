from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest


def outcomes(folder: Path, work: str, how: str, count: int) -> list[dict[str, Any]]:
    # A step that shares no factor with most totals spreads few attempts over all write points.
    done = subprocess.run(
        [sys.executable, "-m", "tests.index.crashes", folder, work, "5", "37", str(count), how],
        capture_output=True,
        text=True,
        check=False,
        cwd=Path(__file__).parents[2],
    )
    assert done.returncode == 0, done.stderr
    first, *rest = [json.loads(line) for line in done.stdout.splitlines()]
    assert first["points"] > 40
    assert len(rest) == count
    return rest


@pytest.mark.parametrize("work", ["change", "build"])
def test_a_kill_at_any_write_leaves_the_old_generation_or_the_new_one(
    work: str, tmp_path: Path
) -> None:
    for outcome in outcomes(tmp_path, work, "kill", 10):
        assert outcome["fault"] is None, outcome["fault"]
        assert outcome["killed"]


@pytest.mark.parametrize("work", ["change", "build"])
def test_a_full_disk_at_any_write_is_said_and_changes_nothing(work: str, tmp_path: Path) -> None:
    for outcome in outcomes(tmp_path, work, "full", 8):
        assert outcome["fault"] is None, outcome["fault"]
