"""A collection and an application that takes writes, new for each test."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from service.app import create_app
from service.settings import Settings
from tests.service.client import Client
from tests.service.collection import make_collection


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return make_collection(tmp_path)


@pytest.fixture
def writable(folder: Path) -> Iterator[Client]:
    with Client(create_app(Settings(index=folder, device="cpu", open_writes=True))) as client:
        yield client
