"""A model that also learns from texts knows words that no caption has."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch

from hasse.lab.checkpoints import learned_model
from hasse.lab.checkpoints.learned_model import order_embedding_of
from hasse.lab.features.feature_store import FeaturesError
from hasse.lab.pipelines.dataset_encoding import EncodedDataset
from hasse.lab.training.config import TrainingConfig
from hasse.lab.training.inputs import FeatureInput, TrainingInputs, dataset_points
from hasse.lab.training.run import TrainingStopped
from hasse.lab.training.trainer import RetrievalTraining
from hasse.models.checkpoints.checkpoint import Checkpoint
from hasse.models.datasets import Dataset
from hasse.models.encoders.regions import REGIONS
from hasse.models.score import penalties_between
from hasse.studies.photographs.chain_calibration import calibrate_model
from hasse.studies.photographs.chains import Chain
from hasse.studies.photographs.class_pictures import ClassFeatures
from hasse.studies.photographs.classes import PictureClass
from hasse.studies.photographs.lesson import TextLesson, TextOptions, TextSources
from tests.lab.training.colours import COLOURS, CONFIG, collection, stop_after, weights
from tests.studies.photographs.sentences import features_of

DATASET = collection(24)
OTHERS = ("a scarlet picture", "a crimson picture", "an emerald picture", "scarlet", "emerald")
LEARNS = replace(
    CONFIG,
    model=replace(
        CONFIG.model, backbone="torchvision/mobilenet_v2", ensemble=2, image_pooling="regions"
    ),
    epochs=30,
    batch_size=12,
    loss="contrastive",
    validate_every=15,
)
OPTIONS = TextOptions(other_texts=16, class_pictures=6)


def images() -> FeatureInput:
    """Each colour is a direction of the features of most regions."""
    draw = np.random.default_rng(0)
    rows = draw.random((len(DATASET), REGIONS, 1280), dtype=np.float32)
    for row in range(len(rows)):
        rows[row, 2:, row % 3] += 20
    return FeatureInput(np.array([image.id for image in DATASET.images]), rows)


@pytest.fixture
def sources(tmp_path: Path) -> TextSources:
    chains = [
        Chain(image.id, (next(c for c in COLOURS if c in image.captions[0].text), "the caption"))
        for image in DATASET.images
    ]
    captions = [caption.text for caption in DATASET.captions]
    found = features_of([*captions, *COLOURS, *OTHERS], tmp_path / "texts")
    classes = [PictureClass("0", (colour,), (0,)) for colour in COLOURS]
    return TextSources(found, chains, classes, torch.eye(len(COLOURS), 1280))


def train(
    folder: Path,
    sources: TextSources,
    stop: Callable[[], bool] | None = None,
    *,
    config: TrainingConfig = LEARNS,
) -> Checkpoint:
    data = DATASET, images()
    lessons = [TextLesson(sources, OPTIONS)]
    return RetrievalTraining(config, folder, TrainingInputs(data, data), lessons).train(stop=stop)


def test_training_with_texts_understands_words_without_pictures(
    tmp_path: Path, sources: TextSources
) -> None:
    trained = train(tmp_path / "model", sources)
    assert trained.vocabulary.knows("scarlet")
    assert [row["epoch"] for row in trained.metrics["history"]] == [15, 30]
    points = trained.model.encode_features(images().features)
    texts = trained.model.encode_captions(["a scarlet picture", "an emerald picture"])
    nearest = penalties_between("order", points, texts).argmin(0)
    assert [row % 3 for row in nearest] == [0, 1], "red and green"


def test_model_is_calibrated_on_class_pictures_too(tmp_path: Path, sources: TextSources) -> None:
    of_classes = Dataset("classes", tuple(replace(image, captions=()) for image in DATASET.images))
    classes = np.arange(len(DATASET)) % 3
    real = ClassFeatures(of_classes, images().features, classes)
    short = replace(LEARNS, epochs=1, validate_every=1)
    sources = replace(sources, class_features=real)
    trained = train(tmp_path / "model", sources, config=short)
    encoded = EncodedDataset(
        DATASET, *dataset_points(order_embedding_of(trained), DATASET, images())
    )
    alone, both = (
        calibrate_model(trained, encoded, sources.chains, of, sources.classes)
        for of in (None, real)
    )
    assert both.true == alone.true + len(DATASET), "a name of each picture's class"
    stored = learned_model.load(tmp_path / "model")
    assert stored.calibration.image == both
    assert stored.fingerprint == trained.fingerprint


def test_training_with_texts_stopped_and_resumed_ends_with_the_same_weights(
    tmp_path: Path, sources: TextSources
) -> None:
    short = replace(LEARNS, epochs=4, validate_every=2)
    train(tmp_path / "whole", sources, config=short)
    with pytest.raises(TrainingStopped):
        train(tmp_path / "stopped", sources, stop_after(3), config=short)
    train(tmp_path / "stopped", sources, config=short)
    assert weights(tmp_path / "stopped") == weights(tmp_path / "whole")


def test_training_with_texts_names_a_caption_without_features(
    tmp_path: Path, sources: TextSources
) -> None:
    other = replace(sources, features=features_of(["a dog"], tmp_path / "others"))
    with pytest.raises(FeaturesError, match="captions without features"):
        train(tmp_path / "model", other)
