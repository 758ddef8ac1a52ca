"""How many of our files a search and an upload pass from POST to answer."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from benchmarks.path import LIMITS, Call, files, moves

ROOT = Path(__file__).parents[2]


def test_files_and_moves_of_calls_count_files_and_changes_of_file() -> None:
    calls = [Call("a.py", "f"), Call("a.py", "g"), Call("b.py", "h"), Call("a.py", "f")]
    assert (files(calls), moves(calls)) == (2, 2)
    assert (files([]), moves([])) == (0, 0)


@pytest.mark.slow
def test_paths_of_a_search_and_an_upload_stay_within_their_limits() -> None:
    done = subprocess.run(
        [sys.executable, "-m", "benchmarks.path"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
        timeout=600,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert all(f"{name}: files" in done.stdout for name in LIMITS)
    assert "BROKEN" not in done.stdout
