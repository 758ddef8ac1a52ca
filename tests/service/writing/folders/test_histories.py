from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

# The number of histories, and the first one's seed.
HISTORIES = [(5, 7), pytest.param(20, 100, marks=pytest.mark.slow)]


@pytest.mark.parametrize(("count", "seed"), HISTORIES)
def test_sync_after_any_history_of_a_folder_equals_the_model(
    count: int, seed: int, tmp_path: Path
) -> None:
    program = "tests.service.writing.folders.histories"
    done = subprocess.run(
        [sys.executable, "-m", program, tmp_path, str(seed), str(count)],
        capture_output=True,
        text=True,
        check=False,
        cwd=Path(__file__).parents[4],
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout.startswith(f"{count} histories, ")
