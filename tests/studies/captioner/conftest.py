"""The tiny model, and a captioner that writes for it."""

from __future__ import annotations

from pathlib import Path

import pytest

from hasse.models.checkpoints import checkpoint
from hasse.models.checkpoints.checkpoint import Checkpoint
from hasse.studies.captioner.writing import Writer
from tests.studies.captioner.tiny_captioner import make_captioner
from tests.tiny import tiny_checkpoint


@pytest.fixture(scope="package")
def encoder(tmp_path_factory: pytest.TempPathFactory) -> Checkpoint:
    return checkpoint.load(tiny_checkpoint(tmp_path_factory.mktemp("tiny")))


@pytest.fixture(scope="package")
def folder(encoder: Checkpoint) -> Path:
    return encoder.folder / "captioner"


@pytest.fixture(scope="package")
def writer(encoder: Checkpoint, folder: Path) -> Writer:
    return Writer(encoder, make_captioner(encoder, folder))
