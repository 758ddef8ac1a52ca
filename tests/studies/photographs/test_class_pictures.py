"""Features of pictures of classes lie nearer to their class, and have its names."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch
from torch.nn.functional import normalize

from hasse.lab.features.feature_store import Maker, open_appender
from hasse.models.datasets import Dataset, DatasetError, Image
from hasse.models.encoders.regions import REGIONS
from hasse.models.images.preprocessing import Preprocessing
from hasse.studies.photographs.chains import Chain
from hasse.studies.photographs.class_pictures import ClassFeatures, ClassPictures
from hasse.studies.photographs.classes import PictureClass

CLASSES = (
    PictureClass("01440764", ("a dog", "an animal"), (0, 1)),
    PictureClass("02123045", ("a cat", "an animal"), (0, 1)),
    PictureClass("04285008", ("a car",), (0,)),
)


def test_draw_makes_pictures_that_the_classifier_takes_for_their_class() -> None:
    generator = torch.Generator().manual_seed(0)
    weights = torch.randn(len(CLASSES), 1000, generator=generator)
    features = torch.rand(24, REGIONS, 1000, generator=generator)
    pictures = ClassPictures(CLASSES, weights)
    made, texts, holds = pictures.draw(features, np.random.default_rng(0))
    assert made.shape == features.shape
    assert made.min() >= 0
    assert holds.shape == (24, 24)
    assert holds.diagonal().all()
    directions = normalize(weights - weights.mean(0), dim=-1)
    seen = (normalize(made.mean(1), dim=-1) @ directions.T).argmax(1)
    for row, text in enumerate(texts):
        assert pictures.texts[text] in CLASSES[int(seen[row])].texts
    animal = pictures.texts.index("an animal")
    dogs = np.flatnonzero(seen.numpy() == 0)
    cars = np.flatnonzero(seen.numpy() == 2)
    columns = np.flatnonzero(texts == animal)
    assert holds[np.ix_(dogs, columns)].all()
    assert not holds[np.ix_(cars, columns)].any()


def test_draw_adds_as_many_real_pictures() -> None:
    draw = np.random.default_rng(0)
    rows = draw.random((3, REGIONS, 1000), dtype=np.float32)
    images = tuple(Image(at, "", Path("unread.jpg")) for at in range(3))
    real = ClassFeatures(Dataset("three", images), rows, np.array([2, 2, 0]))
    pictures = ClassPictures(CLASSES, torch.from_numpy(draw.random((3, 1000), np.float32)), real)
    made, texts, holds = pictures.draw(torch.rand(8, REGIONS, 1000), draw)
    assert made.shape == (16, REGIONS, 1000)
    assert holds.shape == (16, 16)
    assert holds.diagonal().all()
    for picture, text in zip(made[8:].numpy(), texts[8:], strict=True):
        (row,) = np.flatnonzero((rows == picture).all((1, 2)))
        assert pictures.texts[text] in CLASSES[real.classes[row]].texts


def test_class_features_are_of_pictures_named_by_their_class(tmp_path: Path) -> None:
    names = ("n04285008_sports_car.jpg", "n01440764_1.jpg", "beach.jpg")
    images = tuple(Image(at, name, tmp_path / name) for at, name in enumerate(names))
    made = Maker("network", "weights", 1, Preprocessing(), regions=True)
    with open_appender(tmp_path / "features", made) as writer:
        values = np.arange(3 * REGIONS, dtype=np.float16).reshape(3, 1, REGIONS, 1)
        writer.add(images, [1, 1, 1], values)
        writer.commit()
    found = ClassFeatures.read(tmp_path / "features", Dataset("three", images), CLASSES)
    assert found.classes.tolist() == [2, 0]
    assert found.rows[:, 0, 0].tolist() == [0, REGIONS]
    assert found.chains(CLASSES) == [
        Chain(0, ("a car",), ("car",)),
        Chain(1, ("an animal", "a dog"), ("animal", "dog")),
    ]
    with pytest.raises(DatasetError, match="named by its class"):
        ClassFeatures.read(tmp_path / "features", Dataset("one", images[2:]), CLASSES)
