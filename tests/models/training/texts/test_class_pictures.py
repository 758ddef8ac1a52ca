"""Features of pictures of classes lie nearer to their class, and have its names."""

from __future__ import annotations

import numpy as np
import torch
from torch.nn.functional import normalize

from models.encoders.regions import REGIONS
from models.tasks.abstraction.classes import PictureClass
from models.training.texts.class_pictures import ClassPictures

CLASSES = (
    PictureClass(("a dog", "an animal"), (0, 1)),
    PictureClass(("a cat", "an animal"), (0, 1)),
    PictureClass(("a car",), (0,)),
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
