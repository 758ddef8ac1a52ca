from __future__ import annotations

import subprocess
import sys
from pathlib import Path


def test_sync_after_any_history_of_a_folder_equals_the_model(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "tests.service.writing.folders.histories", tmp_path, "7", "24"],
        capture_output=True,
        text=True,
        check=False,
        cwd=Path(__file__).parents[4],
    )
    assert (done.returncode, done.stdout) == (0, ""), done.stderr
