"""The model of the collection, its images, and an application that is calibrated."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from hasse.models.calibration import Calibration, Calibrations
from hasse.models.checkpoints import checkpoint
from hasse.models.embedding_model import EmbeddingModel, Points
from hasse.service.app import create_app
from hasse.service.settings import Settings
from tests.service.client import Client
from tests.service.collection import IMAGES, make_collection, picture


@pytest.fixture(scope="package")
def model(collection: Path) -> EmbeddingModel:
    return checkpoint.load(collection.parent / "model").model


@pytest.fixture(scope="package")
def images(model: EmbeddingModel) -> Points:
    return model.encode_images([picture(at) for at in range(IMAGES)])


@pytest.fixture(scope="package")
def calibrated(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Client]:
    """An application whose model knows what its violations mean."""
    index = make_collection(tmp_path_factory.mktemp("calibrated"))
    known = Calibrations(
        Calibration((0.0, 1.0), (1.0, 0.0), 0.25, 10, 5),
        Calibration((0.0, 1.0), (0.8, 0.2), 2.0, 10, 5),
    )
    checkpoint.write_calibration(index.parent / "model", known)
    with Client(create_app(Settings(library=index, device="cpu"))) as client:
        yield client
