"""The model of the collection, its images, and an application that is calibrated."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from hasse.lab.checkpoints import learned_model
from hasse.lab.checkpoints.learned_model import order_embedding_of
from hasse.lab.encoders.order_embedding import OrderEmbedding
from hasse.models.calibration import Calibration, Calibrations
from hasse.models.embedding_model import Points
from hasse.service.app import create_app
from hasse.service.settings import Settings
from tests.service.client import Client
from tests.service.collection import IMAGES, make_collection, picture
from tests.tiny import tiny_model


@pytest.fixture(scope="package")
def model(collection: Path) -> OrderEmbedding:
    return order_embedding_of(learned_model.load(collection.parent / "model"))


@pytest.fixture(scope="package")
def images(model: OrderEmbedding) -> Points:
    return model.encode_images([picture(at) for at in range(IMAGES)])


@pytest.fixture(scope="package")
def calibrated(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Client]:
    """An application whose model knows what its violations mean."""
    index = make_collection(tmp_path_factory.mktemp("calibrated"))
    known = Calibrations(
        Calibration((0.0, 1.0), (1.0, 0.0), 0.25, 10, 5),
        Calibration((0.0, 1.0), (0.8, 0.2), 2.0, 10, 5),
    )
    learned_model.save(index.parent / "model", tiny_model(), "tiny", {}, known)
    with Client(create_app(Settings(library=index, device="cpu"))) as client:
        yield client
