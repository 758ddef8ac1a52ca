"""Pictures of noise, and how features of them are refused."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from PIL import Image as Pillow

from hasse.lab.features.extraction import extract
from hasse.lab.features.feature_store import FeaturesError
from hasse.models.datasets import Dataset, Image
from hasse.models.images.preprocessing import Preprocessing

SMALL = Preprocessing(resize=36, crop=32)


def pictures(folder: Path, count: int, first_id: int = 1) -> Dataset:
    """Draw that many pictures, all different, with ids that are in no order."""
    folder.mkdir(parents=True, exist_ok=True)
    images = []
    for at in range(count):
        path = folder / f"{at:03d}.png"
        pixels = np.random.default_rng(at).integers(0, 256, (40, 50, 3), dtype=np.uint8)
        Pillow.fromarray(pixels).save(path)
        images.append(Image(first_id + at * 7 % 101, path.name, path, "train"))
    return Dataset("noise", tuple(images))


def content(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in folder.iterdir()}


def refusal(*args: object, **options: object) -> str:
    with pytest.raises(FeaturesError) as caught:
        extract(*args, **options)  # type: ignore[arg-type]
    assert "\n" not in str(caught.value)
    return str(caught.value)


def overwrite(image: Image, seed: int) -> None:
    pixels = np.random.default_rng(seed).integers(0, 256, (60, 50, 3), dtype=np.uint8)
    Pillow.fromarray(pixels).save(image.path)
