from __future__ import annotations

from tests.service.cli.conftest import home

__all__ = ["home"]
