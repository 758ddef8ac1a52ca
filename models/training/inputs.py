"""The inputs of a training: cached features of images, or pixels when the backbone learns too."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Protocol

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from hasse.models.datasets import Dataset, DatasetError
from hasse.models.embedding_model import Points
from hasse.models.features.pixel_store import PixelCache
from hasse.models.images.preprocessing import normalise_pixels
from hasse.models.model import OrderEmbedding

if TYPE_CHECKING:
    from hasse.models.checkpoints.checkpoint import Checkpoint

Rows = NDArray[np.int64]


class ImageInput(Protocol):
    """Images in a fixed order that a model can turn into points.

    Attributes:
        image_ids: (n,), the ids of the images there are.
        learns_backbone: whether the points depend on the backbone's weights.
    """

    @property
    def image_ids(self) -> NDArray[np.int64]: ...

    @property
    def learns_backbone(self) -> bool: ...

    def read(self, rows: Rows, augment: np.random.Generator | None = None) -> Tensor:
        """Read images, on the CPU: (B,) -> (B, ...). `augment` draws how to vary them."""
        ...

    def points(self, model: OrderEmbedding, batch: Tensor) -> Tensor:
        """Return the points of images that were read, on the model's device: (B, ...) -> (B, N).

        Without coordinates, (B, 0), lessons alone teach and measure the model.
        """
        ...


@dataclass(frozen=True, slots=True)
class FeatureInput:
    """Features of a frozen backbone.

    Attributes:
        features: (n, F) of any float type, or (n, REGIONS, F).
        views: (n, 1 + views, ..), of the picture and of random crops; training draws one of them.
    """

    image_ids: NDArray[np.int64]
    features: NDArray[np.floating]
    views: NDArray[np.floating] | None = None
    learns_backbone: bool = False

    def read(self, rows: Rows, augment: np.random.Generator | None = None) -> Tensor:
        """Return features (B, ..); `augment` draws between the picture and its views."""
        if augment is None or self.views is None:
            chosen = self.features[rows]
        else:
            chosen = self.views[rows, augment.integers(self.views.shape[1], size=len(rows))]
        return torch.from_numpy(np.asarray(chosen, dtype=np.float32))

    def points(self, model: OrderEmbedding, batch: Tensor) -> Tensor:
        """Project features."""
        return model.feature_points(batch)


@dataclass(frozen=True, slots=True)
class PixelInput:
    """Pictures cut at random places and mirrored in training, in the centre otherwise.

    Attributes:
        bfloat16: run the backbone in mixed precision.
    """

    cache: PixelCache
    bfloat16: bool = False
    learns_backbone: bool = True

    @property
    def image_ids(self) -> NDArray[np.int64]:
        """The images of the cache, in its order: (n,)."""
        return self.cache.image_ids

    def read(self, rows: Rows, augment: np.random.Generator | None = None) -> Tensor:
        """Cut pictures: -> (B, crop, crop, 3) uint8."""
        crop = self.cache.preprocessing.crop
        spare = self.cache.preprocessing.resize - crop
        if augment is None:
            offsets = np.full((len(rows), 2), spare // 2)
            mirrored = np.zeros(len(rows), dtype=np.bool_)
        else:
            offsets = augment.integers(0, spare + 1, size=(len(rows), 2))
            mirrored = augment.random(len(rows)) < 0.5
        out = np.empty((len(rows), crop, crop, 3), dtype=np.uint8)
        for at, (row, (top, left), turn) in enumerate(zip(rows, offsets, mirrored, strict=True)):
            cut = self.cache.pixels[row, top : top + crop, left : left + crop]
            out[at] = cut[:, ::-1] if turn else cut
        return torch.from_numpy(out)

    def points(self, model: OrderEmbedding, batch: Tensor) -> Tensor:
        """Normalise and encode pictures."""
        looks = self.cache.preprocessing
        pixels = normalise_pixels(batch, looks.mean, looks.std)
        with torch.autocast(model.device.type, torch.bfloat16, enabled=self.bfloat16):
            features = model.images.features(pixels[:, None])
        return model.feature_points(features.float())


@dataclass(frozen=True, slots=True)
class TrainingInputs:
    """The data of a training, and its first weights.

    Attributes:
        training: captioned images, and what is read of them.
        validation: the same, to choose the best epoch by.
        backbone_weights: first weights of the backbone, or its only ones where it does not learn.
            None: random weights.
        start: a model of the same shape and words, whose weights all others start from.
    """

    training: tuple[Dataset, ImageInput]
    validation: tuple[Dataset, ImageInput]
    backbone_weights: dict[str, Tensor] | None = None
    start: Checkpoint | None = None

    @property
    def datasets(self) -> tuple[Dataset, Dataset]:
        """The images to learn from, and those to choose the best epoch by."""
        return self.training[0], self.validation[0]


def available(dataset: Dataset, images: ImageInput) -> Dataset:
    """Leave out images that have no caption, or that `images` does not have.

    Raises:
        DatasetError: there is no other.
    """
    known = set(images.image_ids.tolist())
    kept = tuple(image for image in dataset.images if image.captions and image.id in known)
    if not kept:
        splits = ", ".join(split for split in dataset.splits() if split)
        where = f" in the split {splits}" if splits else ""
        raise DatasetError(
            f"no image of the dataset '{dataset.name}'{where} has a caption and can be learned "
            f"from: import captions with the pictures, or run 'hasse lab features' on this dataset"
        )
    return replace(dataset, images=kept)


def rows_of(dataset: Dataset, images: ImageInput) -> Rows:
    """Return where a dataset's images are in `images`: (n,).

    Raises:
        DatasetError: `images` lacks one of them.
    """
    # Of several rows of an image the last one counts, as in `FeatureStore`.
    row = {image_id: at for at, image_id in enumerate(images.image_ids.tolist())}
    missing = next((image for image in dataset.images if image.id not in row), None)
    if missing is not None:
        raise DatasetError(f"{missing.subject} has no features: run 'hasse lab features' again")
    return np.array([row[image.id] for image in dataset.images])


def dataset_points(
    model: OrderEmbedding, dataset: Dataset, images: ImageInput, batch_size: int = 256
) -> tuple[Points, Points]:
    """Return the points of a dataset's images and captions: (I, N), (C, N).

    Raises:
        DatasetError: `images` lacks one of the dataset's images.
    """
    rows = rows_of(dataset, images)
    with torch.inference_mode():
        blocks = [
            images.points(
                model, images.read(rows[start : start + batch_size]).to(model.device)
            ).cpu()
            for start in range(0, len(rows), batch_size)
        ]
    texts = [caption.text for caption in dataset.captions]
    return torch.cat(blocks).numpy(), model.encode_captions(texts)
