from __future__ import annotations

from pathlib import Path

import numpy as np
import PIL.Image
import pytest

from benchmarks.search import source
from hasse.models.datasets import Caption, Dataset, Image, save
from tests.tiny import DIMENSION, tiny_checkpoint, tiny_model

TEXTS = ["a dog runs", "the cat in the park", "a red child"]


def dataset(folder: Path, splits: list[str]) -> Path:
    """One picture and three captions for each split named."""
    images = []
    for at, split in enumerate(splits, start=1):
        path = folder / f"{at}.png"
        path.parent.mkdir(parents=True, exist_ok=True)
        PIL.Image.new("RGB", (40, 40), (30 * at, 10, 90)).save(path)
        captions = tuple(Caption(10 * at + n, at, text) for n, text in enumerate(TEXTS))
        images.append(Image(at, path.name, path, split, captions=captions))
    save(Dataset("sample", tuple(images)), folder)
    return folder


def test_the_test_split_asks_and_the_others_are_stored(tmp_path: Path) -> None:
    folder = dataset(tmp_path / "data", ["train", "test", "val", "train"])
    made = source.encode(tiny_checkpoint(tmp_path / "model"), folder, most=100)
    assert made.name == "tiny over sample"
    assert made.images.shape == (3, DIMENSION)
    assert made.captions.shape == (9, DIMENSION)
    assert made.asking("image").shape == (3, DIMENSION)
    with PIL.Image.open(folder / "2.png") as picture:
        (point,) = tiny_model().encode_images([picture])
    assert np.allclose(made.asking("caption"), point[None], atol=1e-5)


def test_what_was_encoded_is_read_again_as_it_was(tmp_path: Path) -> None:
    folder = dataset(tmp_path / "data", ["train", "val"])
    made = source.encode(tiny_checkpoint(tmp_path / "model"), folder, most=2)
    made.save(tmp_path / "points")
    again = source.load(tmp_path / "points")
    for kind in ("image", "caption"):
        assert np.array_equal(again.stored(kind), made.stored(kind))
        assert np.array_equal(again.asking(kind), made.asking(kind))
    assert len(made.captions) == 2


def test_points_that_do_not_fit_together_are_refused(tmp_path: Path) -> None:
    folder = dataset(tmp_path / "data", ["train", "val"])
    source.encode(tiny_checkpoint(tmp_path / "model"), folder, most=2).save(tmp_path / "p")
    np.save(tmp_path / "p" / "captions.npy", np.ones((2, DIMENSION + 1), np.float32))
    with pytest.raises(source.SourceError, match="different dimensions: encode them again"):
        source.load(tmp_path / "p")


def test_a_model_or_a_dataset_that_cannot_be_measured_is_named(tmp_path: Path) -> None:
    one = dataset(tmp_path / "one", ["test"])
    with pytest.raises(source.SourceError, match="no test or validation split beside another"):
        source.encode(tiny_checkpoint(tmp_path / "model"), one, most=9)
    cosine = tiny_checkpoint(tmp_path / "cosine", score="cosine")
    with pytest.raises(source.SourceError, match="ranks by cosine: name a checkpoint of the score"):
        source.encode(cosine, one, most=9)
