"""The inputs of a training: cached features of images, or pixels when the backbone learns too."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Protocol

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from hasse.lab.encoders.order_embedding import OrderEmbedding
from hasse.lab.features.pixel_store import PixelCache
from hasse.lab.pixels import normalise_pixels
from hasse.models.datasets import Dataset, DatasetError
from hasse.models.embedding_model import Points

if TYPE_CHECKING:
    from hasse.models.checkpoints.checkpoint import Checkpoint

Rows = NDArray[np.int64]


class ImageInput(Protocol):
    """Images in a fixed order that a model can turn into points.

    Attributes:
        image_ids: (n,), ids of the images.
        learns_backbone: whether the points depend on the backbone's weights.
    """

    @property
    def image_ids(self) -> NDArray[np.int64]: ...

    @property
    def learns_backbone(self) -> bool: ...

    def read(self, rows: Rows, augment: np.random.Generator | None = None) -> Tensor:
        """Read images, on the CPU: (B,) -> (B, ...). `augment` draws random crops or views."""
        ...

    def points(self, model: OrderEmbedding, batch: Tensor) -> Tensor:
        """Return the points of images that were read, on the model's device: (B, ...) -> (B, N).

        A model without an image encoder returns (B, 0); it learns from lessons alone.
        """
        ...


@dataclass(frozen=True, slots=True)
class FeatureInput:
    """Features of a frozen backbone.

    Attributes:
        features: (n, F) of any float type, or (n, REGIONS, F).
        views: (n, 1 + views, ..), the picture and random crops; training draws one of them.
    """

    image_ids: NDArray[np.int64]
    features: NDArray[np.floating]
    views: NDArray[np.floating] | None = None
    learns_backbone: bool = False

    def read(self, rows: Rows, augment: np.random.Generator | None = None) -> Tensor:
        """Return features (B, ..); `augment` draws between the picture and its views."""
        if augment is None or self.views is None:
            features = self.features[rows]
        else:
            features = self.views[rows, augment.integers(self.views.shape[1], size=len(rows))]
        return torch.from_numpy(np.asarray(features, dtype=np.float32))

    def points(self, model: OrderEmbedding, batch: Tensor) -> Tensor:
        """Project features."""
        return model.feature_points(batch)


@dataclass(frozen=True, slots=True)
class PixelInput:
    """Pictures, cropped at random and mirrored in training, cropped at the centre otherwise.

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
        """Crop pictures: (B,) -> (B, crop, crop, 3) uint8."""
        crop = self.cache.preprocessing.crop
        spare = self.cache.preprocessing.resize - crop
        if augment is None:
            offsets = np.full((len(rows), 2), spare // 2)
            mirrored = np.zeros(len(rows), dtype=np.bool_)
        else:
            offsets = augment.integers(0, spare + 1, size=(len(rows), 2))
            mirrored = augment.random(len(rows)) < 0.5
        out = np.empty((len(rows), crop, crop, 3), dtype=np.uint8)
        for at, (row, (top, left), mirror) in enumerate(zip(rows, offsets, mirrored, strict=True)):
            picture = self.cache.pixels[row, top : top + crop, left : left + crop]
            out[at] = picture[:, ::-1] if mirror else picture
        return torch.from_numpy(out)

    def points(self, model: OrderEmbedding, batch: Tensor) -> Tensor:
        """Normalise and encode pictures: (B, crop, crop, 3) -> (B, N)."""
        preprocessing = self.cache.preprocessing
        pixels = normalise_pixels(batch, preprocessing.mean, preprocessing.std)
        with torch.autocast(model.device.type, torch.bfloat16, enabled=self.bfloat16):
            features = model.images.features(pixels[:, None])
        return model.feature_points(features.float())


@dataclass(frozen=True, slots=True)
class TrainingInputs:
    """The data of a training, and its first weights.

    Attributes:
        training: captioned images, and their features or pixels.
        validation: the same, to choose the best epoch.
        backbone_weights: weights of the backbone, its first ones where it learns. None: random.
        start: a model of the same shape and vocabulary. Training starts from its weights.
    """

    training: tuple[Dataset, ImageInput]
    validation: tuple[Dataset, ImageInput]
    backbone_weights: dict[str, Tensor] | None = None
    start: Checkpoint | None = None

    @property
    def datasets(self) -> tuple[Dataset, Dataset]:
        """The datasets of training and validation."""
        return self.training[0], self.validation[0]


def usable_dataset(dataset: Dataset, images: ImageInput) -> Dataset:
    """Return the dataset without images that have no caption or are not among `images`.

    Raises:
        DatasetError: no image is left.
    """
    readable = set(images.image_ids.tolist())
    usable = tuple(image for image in dataset.images if image.captions and image.id in readable)
    if not usable:
        splits = ", ".join(split for split in dataset.splits() if split)
        where = f" in the split {splits}" if splits else ""
        raise DatasetError(
            f"no image of the dataset '{dataset.name}'{where} has a caption and can be learned "
            f"from: import captions with the pictures, or run 'hasse lab features' on this dataset"
        )
    return replace(dataset, images=usable)


def rows_of(dataset: Dataset, images: ImageInput) -> Rows:
    """Return the rows of a dataset's images in `images`: (n,).

    Raises:
        DatasetError: `images` lacks one of them.
    """
    # Where an image has several rows, the last one counts, as in `FeatureStore`.
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
