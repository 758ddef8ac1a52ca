"""What code prints where kernels are compiled for another processor, in a process of its own."""

from __future__ import annotations

import os
import subprocess
import sys


def printed(code: str, features: str | None = None) -> str:
    """Run code on this processor, or as one would that has no more than `features`.

    Raises:
        AssertionError: it failed; the message is what it wrote.
    """
    environment = {**os.environ, "NUMBA_CACHE_DIR": "", "NUMBA_DISABLE_CACHING": "1"}
    if features is not None:
        environment |= {"NUMBA_CPU_NAME": "generic", "NUMBA_CPU_FEATURES": features}
    done = subprocess.run(
        [sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    return done.stdout
