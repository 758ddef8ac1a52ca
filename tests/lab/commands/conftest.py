from __future__ import annotations

from tests.service.cli.conftest import home, no_own_library

__all__ = ["home", "no_own_library"]
