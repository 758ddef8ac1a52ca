"""Start a module in two processes, as torchrun does."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[1]


def torchrun(module: str, *arguments: object) -> subprocess.CompletedProcess[str]:
    """Return what two processes of a module printed, when both have ended well."""
    command = ("-m", "torch.distributed.run", "--standalone", "--nproc-per-node", 2, "-m", module)
    done = subprocess.run(
        [sys.executable, *map(str, (*command, *arguments))],
        cwd=ROOT,
        env={**os.environ, "OMP_NUM_THREADS": "1"},
        capture_output=True,
        text=True,
        timeout=240,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done
