"""Extract features of pictures with a frozen network, once, so that a training takes seconds.

With ten crops, features are averaged over the crops after the network's last ReLU, as in the paper.
"""

from __future__ import annotations

import copy
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TypeAlias

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from hasse.lab.encoders.backbone import Backbone
from hasse.lab.encoders.pooling import pool_regions
from hasse.lab.features.feature_store import (
    Appender,
    FeaturesError,
    FeatureStore,
    Maker,
    open_appender,
)
from hasse.models.datasets import Dataset, Image
from hasse.models.images.decoding import open_picture, picture_stamp
from hasse.models.images.limits import DEFAULT_LIMITS, PictureLimits
from hasse.models.images.preprocessing import Pixels, Preprocessing
from hasse.service.writing.prefetch import decode_ahead

COMMIT_IMAGES, COMMIT_SECONDS = 1024, 30.0


class ExtractionStopped(Exception):
    """The caller stopped the extraction; everything done so far is on disk."""


@dataclass(frozen=True, slots=True)
class BatchFeatures:
    """Images with their features (B, C, F), and unreadable images with a message each.

    With features of regions, these are (B, C, REGIONS, F).
    """

    images: list[Image]
    features: NDArray[np.float32]
    skipped: list[tuple[Image, str]]


Batches: TypeAlias = Callable[[Sequence[Image], int], Iterator[BatchFeatures]]


@dataclass(frozen=True, slots=True)
class ExtractionOptions:
    """Which features to extract, and how.

    Attributes:
        views: number of random crops of each picture, whose features training uses too.
        regions: whether to extract features of nine regions of each picture (one crop) and view.
        device: torch's name of the network's device.
        batch_size: crops in a batch of the network.
        workers: threads that decode; None: one for each core.
        limits: of pictures.
    """

    views: int = 0
    regions: bool = False
    device: str | torch.device = "cpu"
    batch_size: int = 32
    workers: int | None = None
    limits: PictureLimits = DEFAULT_LIMITS


class Extractor:
    """Computes features of pictures with a frozen network.

    Raises:
        BackboneError: the network takes no pictures of this size, or has no regions.
    """

    def __init__(
        self, backbone: Backbone, preprocessing: Preprocessing, options: ExtractionOptions
    ) -> None:
        network = copy.deepcopy(backbone).keep_grid() if options.regions else backbone
        self._network = network.for_inference()
        self._network.to(options.device).require_side(preprocessing.crop)
        self._preprocessing, self._options = preprocessing, options

    def batches(self, images: Sequence[Image], size: int) -> Iterator[BatchFeatures]:
        """Yield the features of images in order, `size` pictures at a time."""
        crops, options = self._preprocessing.crops, self._options
        device = torch.device(options.device)
        for batch in decode_ahead(images, self._crops, size, options.workers):
            features = np.empty((0, 0, 0), np.float32)
            if batch.items:
                rows = _run_network(self._network, batch.results, options.batch_size, device)
                of_crops, of_views = np.split(rows, [crops], axis=1)
                features = np.concatenate([of_crops.mean(1, keepdims=True), of_views], axis=1)
            skipped = [
                (image, f"{image.subject}: {error}: skipped") for image, error in batch.unusable
            ]
            yield BatchFeatures(batch.items, features, skipped)

    def _crops(self, image: Image) -> Pixels:
        """Return the crops of a picture, then its random views: (crops + views, 3, H, W)."""
        options, preprocessing = self._options, self._preprocessing
        if not options.views:
            picture = open_picture(image.path, options.limits, preprocessing.resize)
            return preprocessing.apply(picture)
        # A view has about 0.6 of a side, and is scaled up to `crop`.
        picture = open_picture(image.path, options.limits, 2 * preprocessing.resize)
        draw = np.random.default_rng(image.id % 2**63)  # an image always has the same views
        views = [preprocessing.random_view(picture, draw)[None] for _ in range(options.views)]
        return np.concatenate([preprocessing.apply(picture), *views])


_DEFAULT = ExtractionOptions()


def extract(
    dataset: Dataset,
    backbone: Backbone,
    preprocessing: Preprocessing,
    folder: Path,
    options: ExtractionOptions = _DEFAULT,
    *,
    progress: Callable[[int, int], None] = lambda done, total: None,
    stop: Callable[[], bool] = lambda: False,
    skipped: Callable[[str], None] = lambda line: None,
    changed: Callable[[str], None] = lambda line: None,
    commit_images: int = COMMIT_IMAGES,
    commit_seconds: float = COMMIT_SECONDS,
    clock: Callable[[], float] = time.monotonic,
    batches: Batches | None = None,
) -> FeatureStore:
    """Extract the features of all images that have none in `folder` yet, and open them all.

    A killed run resumes and ends in the same bytes. Images that are new in the dataset are
    appended. Unreadable pictures are left out, and tried again by the next run. A picture whose
    size or time of change differs is read again; if that fails, its old features stay.

    Args:
        stop: called after each batch; when it returns true, the extraction stops.
        skipped: called with one line for each unreadable image.
        changed: called with one line if changed pictures are read again.
        commit_images, commit_seconds: images and time between commits, whichever comes first. A
            commit waits for the disk. A kill loses the features since the last commit.
        clock: returns the time in seconds.
        batches: yields the features of images in batches; None extracts them in this process.

    Raises:
        FeaturesError: the features in `folder` are of another network, preprocessing or dataset;
            features are not finite; no picture is readable; the disk or the device's memory is
            full.
        FolderLockedError: another process has locked the folder.
        BackboneError: the network takes no pictures of this size, or has no regions.
        ExtractionStopped: `stop` returned true.
    """
    maker = Maker(
        backbone.name,
        backbone.fingerprint(),
        backbone.feature_dimension,
        preprocessing,
        options.views,
        options.regions,
    )
    if batches is None:
        batches = Extractor(backbone, preprocessing, options).batches
    pictures_per_batch = max(1, options.batch_size // (preprocessing.crops + options.views))
    with open_appender(folder, maker) as writer:
        stamps = {image.id: picture_stamp(image.path) for image in dataset.images}
        todo = _remaining(dataset, stamps, writer, changed)
        done = len(dataset) - len(todo)
        committed_at, uncommitted = clock(), 0
        try:
            for batch in batches(todo, pictures_per_batch):
                for image, line in batch.skipped:
                    writer.skipped[image.id] = line
                    skipped(line)
                for image in batch.images:
                    writer.skipped.pop(image.id, None)
                if batch.images:
                    stamps_here = [stamps[image.id] for image in batch.images]
                    rounded = _to_float16(batch.features, batch.images, maker)
                    writer.add(batch.images, stamps_here, rounded)
                done += len(batch.images) + len(batch.skipped)
                uncommitted += len(batch.images) + len(batch.skipped)
                progress(done, len(dataset))
                if uncommitted >= commit_images or clock() - committed_at > commit_seconds:
                    writer.commit()
                    committed_at, uncommitted = clock(), 0
                if stop() and done < len(dataset):
                    raise ExtractionStopped(
                        f"{done:,} of {len(dataset):,} pictures are done and kept in {folder}"
                    )
        finally:
            writer.commit()  # also on Ctrl-C: the features were expensive
        if writer.rows == 0:
            reason = next(iter(writer.skipped.values()), "it has no images")
            raise FeaturesError(
                f"no picture of '{dataset.name}' could be read ({reason}): "
                f"are the pictures where the dataset says?"
            )
    return FeatureStore.open(folder)


def _remaining(
    dataset: Dataset,
    stamps: Mapping[int, int],
    writer: Appender,
    changed: Callable[[str], None],
) -> list[Image]:
    """List the images that need features: new ones in order, then those skipped before."""
    stored: dict[int, int] = {}
    if writer.rows > 0:
        store = FeatureStore.open(writer.folder)
        store.require_names(dataset.images)
        stored = dict(zip(store.image_ids.tolist(), store.stamps.tolist(), strict=True))
    if stored and stored.keys().isdisjoint(stamps):
        raise FeaturesError(
            f"the features in {writer.folder} are of another dataset, which shares no image with "
            f"'{dataset.name}': name another --out, or delete that folder"
        )
    # The features of a missing picture (stamp 0) stay.
    other = {i for i, stamp in stamps.items() if i in stored and stamp not in (0, stored[i])}
    if other:
        changed(f"pictures that changed since their features were made: {len(other):,}, read again")
    missing = [image for image in dataset.images if image.id not in stored or image.id in other]
    # The sort is stable, so batches are the same as without an interruption.
    return sorted(missing, key=lambda image: image.id in writer.skipped)


@torch.inference_mode()
def _run_network(
    network: Backbone, pixels: list[Pixels], batch_size: int, device: torch.device
) -> NDArray[np.float32]:
    """Run the network on `batch_size` crops at a time: B x (C, 3, H, W) -> (B, C, F).

    A network that keeps its grid gives (B, C, REGIONS, F).
    """
    crops = torch.from_numpy(np.concatenate(pixels))  # (B * C, 3, H, W)

    def run(part: Tensor) -> Tensor:
        features: Tensor = network(part.to(device))
        return (pool_regions(features) if network.grid else features).float().cpu()

    try:
        rows = torch.cat([run(part) for part in torch.split(crops, batch_size)])
    except torch.OutOfMemoryError as error:
        raise FeaturesError(
            f"{device} has not enough memory for {batch_size} crops at a time: lower "
            f"--batch-size; what is done is kept, and the same command goes on from it"
        ) from error
    features: NDArray[np.float32] = rows.reshape(len(pixels), -1, *rows.shape[1:]).numpy()
    return features


def _to_float16(
    features: NDArray[np.float32], images: Sequence[Image], maker: Maker
) -> NDArray[np.float16]:
    with np.errstate(over="ignore"):
        rounded = features.astype(np.float16)
    bad = np.flatnonzero(~np.isfinite(rounded).reshape(len(images), -1).all(1))
    if len(bad):
        image = images[bad[0]]
        value = "not numbers" if np.isnan(features[bad[0]]).any() else "beyond 65,504"
        raise FeaturesError(
            f"{maker.backbone} gives {image.subject} features that are "
            f"{value}: its weights are damaged or do not fit this preprocessing; name others "
            f"with --weights"
        )
    return rounded
