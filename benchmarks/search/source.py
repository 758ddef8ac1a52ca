"""Where the real points come from: a folder of arrays, or a checkpoint and a dataset."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from hasse.index.types import Kind, Points
from hasse.models.checkpoints.checkpoint import Checkpoint
from hasse.models.checkpoints.checkpoint import load as load_checkpoint
from hasse.models.datasets import Dataset
from hasse.models.datasets import load as load_dataset
from hasse.models.images.decoding import open_picture

ABOUT = "source.json"
_FILES = ("images", "captions", "asking-images", "asking-captions")
MOST = 30_000  # images and captions that are encoded
_DECODED = 256  # pictures in memory at a time


class SourceError(Exception):
    """There are no points to search; the message says what to give."""


@dataclass(frozen=True, slots=True)
class Source:
    """Points of a trained model: those that are stored, and held-out ones that ask."""

    name: str
    images: Points
    captions: Points
    asking_images: Points
    asking_captions: Points

    @property
    def dimension(self) -> int:
        """N."""
        return int(self.images.shape[1])

    def stored(self, kind: Kind) -> Points:
        """The real rows of one kind, (R, N)."""
        return self.images if kind == "image" else self.captions

    def asking(self, kind: Kind) -> Points:
        """The real queries for rows of one kind: captions ask for images, images for captions."""
        return self.asking_captions if kind == "image" else self.asking_images

    def save(self, folder: Path) -> None:
        """Write a folder that `load` reads: encoding takes minutes, reading none."""
        folder.mkdir(parents=True, exist_ok=True)
        arrays = (self.images, self.captions, self.asking_images, self.asking_captions)
        for name, array in zip(_FILES, arrays, strict=True):
            np.save(folder / f"{name}.npy", array)
        (folder / ABOUT).write_text(json.dumps({"name": self.name}), encoding="utf-8")


def load(folder: Path) -> Source:
    """Read the points that `save` wrote.

    Raises:
        SourceError: a file is missing or does not fit the others.
    """
    try:
        name = json.loads((folder / ABOUT).read_text(encoding="utf-8"))["name"]
        arrays = [np.load(folder / f"{file}.npy", allow_pickle=False) for file in _FILES]
        images, captions, asking_images, asking_captions = (
            np.ascontiguousarray(array, dtype=np.float32) for array in arrays
        )
    except (OSError, ValueError, KeyError) as error:
        raise SourceError(
            f"{folder} holds no points ({error}): encode some with --model and --dataset"
        ) from error
    source = Source(str(name), images, captions, asking_images, asking_captions)
    if len({array.shape[1:] for array in arrays}) != 1 or images.ndim != 2:
        raise SourceError(f"the arrays in {folder} have different dimensions: encode them again")
    return source


def encode(checkpoint_folder: Path, dataset_folder: Path, most: int = MOST) -> Source:
    """Encode at most `most` images and captions; one split asks, the others are stored.

    The split that asks is the test split, or, where there is none, the validation split.

    Raises:
        SourceError: the model's score is not a violation, or the dataset has no such split.
    """
    checkpoint = load_checkpoint(checkpoint_folder)
    config = checkpoint.model.config
    if config.score != "order":
        raise SourceError(
            f"{checkpoint_folder} ranks by {config.score}: name a checkpoint of the score order"
        )
    dataset = load_dataset(dataset_folder)
    asking = next((split for split in ("test", "val") if split in dataset.splits()), None)
    stored = [split for split in dataset.splits() if split != asking]
    if asking is None or not stored:
        raise SourceError(
            f"{dataset_folder} has no test or validation split beside another: import a dataset "
            "with splits"
        )
    parts = [_points(checkpoint, dataset.split(split), most) for split in stored]
    asking_images, asking_captions = _points(checkpoint, dataset.split(asking), most)
    return Source(
        f"{checkpoint.name} over {dataset.name}",
        np.concatenate([images for images, _ in parts])[:most],
        np.concatenate([captions for _, captions in parts])[:most],
        asking_images,
        asking_captions,
    )


def _points(checkpoint: Checkpoint, dataset: Dataset, most: int) -> tuple[Points, Points]:
    model, images = checkpoint.model, dataset.images[:most]
    captions = model.encode_captions([caption.text for caption in dataset.captions][:most])
    points = [
        model.encode_images([open_picture(image.path) for image in images[at : at + _DECODED]])
        for at in range(0, len(images), _DECODED)
    ]
    return np.concatenate(points), captions
