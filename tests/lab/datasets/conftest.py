from __future__ import annotations

from tests.models.datasets.conftest import draw

__all__ = ["draw"]
