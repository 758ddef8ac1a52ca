"""An application that takes writes."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from hasse.service.app import create_app
from hasse.service.settings import Settings
from tests.service.client import Client
from tests.service.collection import make_collection


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return make_collection(tmp_path)


@pytest.fixture
def writable(folder: Path) -> Iterator[Client]:
    settings = Settings(library=folder, device="cpu", open_writes=True, compact_seconds=0)
    with Client(create_app(settings)) as client:
        yield client
