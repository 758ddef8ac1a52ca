"""Programs of the tests that kill processes, each run in a process of its own."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any


def outcomes_of(program: str, folder: Path, *options: int | str) -> list[dict[str, Any]]:
    """Run a module of this package on a folder; return the outcomes that it prints, a line each."""
    done = subprocess.run(
        [sys.executable, "-m", program, folder, *map(str, options)],
        capture_output=True,
        text=True,
        check=False,
        cwd=Path(__file__).parents[1],
    )
    assert done.returncode == 0, done.stderr
    return [json.loads(line) for line in done.stdout.splitlines()]
