"""How many of our files one caption passes from POST to answer."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from benchmarks.path import Call, files, moves

ROOT = Path(__file__).parents[2]


def test_files_and_moves_count_files_and_changes_of_file() -> None:
    calls = [Call("a.py", "f"), Call("a.py", "g"), Call("b.py", "h"), Call("a.py", "f")]
    assert (files(calls), moves(calls)) == (2, 2)
    assert (files([]), moves([])) == (0, 0)


@pytest.mark.slow
def test_path_of_a_caption_is_as_short_as_promised() -> None:
    done = subprocess.run(
        [sys.executable, "-m", "benchmarks.path"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
        timeout=600,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert "caption: files" in done.stdout
    assert "BROKEN" not in done.stdout
