"""One collection and one running application for all tests that change neither."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from hasse.service.app import create_app
from hasse.service.settings import Settings
from tests.service.client import Client
from tests.service.collection import make_collection


@pytest.fixture(scope="session")
def collection(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of an index over twelve pictures."""
    return make_collection(tmp_path_factory.mktemp("collection"))


@pytest.fixture(scope="session")
def settings(collection: Path) -> Settings:
    """The usual settings, over that collection, on the CPU, with time for a busy machine."""
    return Settings(library=collection, device="cpu", deadline_seconds=60)


@pytest.fixture(scope="session")
def client(settings: Settings) -> Iterator[Client]:
    """A running application."""
    with Client(create_app(settings)) as client:
        yield client
