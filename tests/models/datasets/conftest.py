from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from PIL import Image

Draw = Callable[..., Path]


@pytest.fixture
def draw(tmp_path: Path) -> Draw:
    """Return a function that puts small pictures, named below tmp_path, on the disk."""

    def make(*names: str, size: tuple[int, int] = (8, 6)) -> Path:
        for name in names:
            path = tmp_path / name
            path.parent.mkdir(parents=True, exist_ok=True)
            Image.new("RGB", size, (200, 30, 40)).save(path)
        return tmp_path

    return make
