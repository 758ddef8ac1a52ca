"""Whether Ray is there, for tests of a cluster.

Without it they are skipped, or fail where HASSE_REQUIRE_RAY is 1, as in `.ci/run`.
"""

from __future__ import annotations

import os
from importlib.util import find_spec

import pytest

from hasse.models.errors import pip_install

REQUIRED = os.environ.get("HASSE_REQUIRE_RAY") == "1"


def require_ray() -> None:
    """Skip or fail the test where Ray is not installed."""
    if find_spec("ray") is None:
        reason = f"Ray is not installed: {pip_install('cluster')}"
        (pytest.fail if REQUIRED else pytest.skip)(reason)
