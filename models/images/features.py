"""Features: what a frozen network sees in each picture, computed once and kept.

Training on features instead of pictures makes an epoch take seconds. With ten crops, features are
averaged over the crops, after the network's last ReLU, as the paper does.
"""

from __future__ import annotations

import copy
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from models.datasets import Dataset, Image
from models.encoders.backbone import Backbone
from models.encoders.regions import pool_regions
from models.images.feature_store import Appender, FeaturesError, FeatureStore, Maker, appending
from models.images.prefetch import Decoded, decoded
from models.images.preprocessing import PictureError, Preprocessing, picture_stamp

__all__ = ["ExtractionStopped", "FeatureStore", "FeaturesError", "extract"]

# Whichever comes first. A commit waits for the disk, so it should be rare; a kill loses what
# was done since.
COMMIT_IMAGES = 1024
COMMIT_SECONDS = 30.0


class ExtractionStopped(Exception):
    """Extraction was asked to stop; everything done so far is on disk."""


def extract(
    dataset: Dataset,
    backbone: Backbone,
    preprocessing: Preprocessing,
    folder: Path,
    *,
    device: str | torch.device = "cpu",
    views: int = 0,
    regions: bool = False,
    batch_size: int = 32,
    workers: int | None = None,
    progress: Callable[[int, int], None] | None = None,
    stop: Callable[[], bool] | None = None,
    skipped: Callable[[str], None] | None = None,
    changed: Callable[[str], None] | None = None,
) -> FeatureStore:
    """Compute the features of all images that have none in `folder` yet, and open them.

    A run that was killed goes on where it was and ends in the same bytes. Images that are new in
    the dataset are appended; pictures that cannot be read are left out and tried again by the
    next run. Pictures of another size or time of change than when they were read are read again;
    until then, and where that fails, their old features stay.

    `views` random cuts of each picture get features of their own, for training to vary what it
    reads; with `regions`, nine regions of each picture (of one crop) and view do too. `batch_size`
    is how many crops the network takes at a time, `workers` how many threads decode (by default
    one a core); `skipped` is told one line of each image left out, `changed` one line of all that
    are read again, and one of those of which it is not known.

    Raises:
        FeaturesError: what is in `folder` was made with another network, preprocessing or
            dataset; features are not finite; nothing could be read; the disk or the device's
            memory is full.
        FolderLockedError: another process writes to the folder.
        BackboneError: the network takes no pictures of this size, or has no regions.
        ExtractionStopped: `stop`, asked after each batch, said so.
    """
    maker = Maker(
        backbone.name,
        backbone.fingerprint(),
        backbone.feature_dimension,
        preprocessing,
        views,
        regions,
    )
    seeing = copy.deepcopy(backbone).keep_grid() if regions else backbone
    network = seeing.for_inference().to(device)
    network.require_side(preprocessing.crop)
    pictures_per_batch = max(1, batch_size // (preprocessing.crops + views))
    with appending(folder, maker) as writer:
        stamps = {image.id: picture_stamp(image.path) for image in dataset.images}
        todo = _remaining(dataset, stamps, writer, changed)
        done = len(dataset) - len(todo)
        committed_at, since = time.monotonic(), 0
        try:
            for batch in decoded(todo, preprocessing, pictures_per_batch, workers, views):
                images, pixels = _readable(batch, writer, skipped)
                if images:
                    seen = _seen(network, pixels, batch_size, torch.device(device))
                    features = _whole_and_views(seen, preprocessing.crops)
                    seen_stamps = [stamps[image.id] for image in images]
                    writer.add(images, seen_stamps, _finite(features, images, maker))
                done += len(batch)
                since += len(batch)
                if progress is not None:
                    progress(done, len(dataset))
                if since >= COMMIT_IMAGES or time.monotonic() - committed_at > COMMIT_SECONDS:
                    writer.commit()
                    committed_at, since = time.monotonic(), 0
                if stop is not None and stop() and done < len(dataset):
                    raise ExtractionStopped(
                        f"{done:,} of {len(dataset):,} pictures are done and kept in {folder}"
                    )
        finally:
            # What the network has done is worth keeping whatever ends the loop, Ctrl-C included.
            writer.commit()
        if writer.rows == 0:
            why = next(iter(writer.skipped.values()), "it has no images")
            raise FeaturesError(
                f"no picture of '{dataset.name}' could be read ({why}): "
                f"are the pictures where the dataset says?"
            )
    return FeatureStore.open(folder)


def _remaining(
    dataset: Dataset,
    stamps: Mapping[int, int],
    writer: Appender,
    changed: Callable[[str], None] | None,
) -> list[Image]:
    """List the images without features of their picture: in order, then those skipped before."""
    folder = writer.folder
    stored: dict[int, int] = {}
    if writer.rows > 0:
        store = FeatureStore.open(folder)
        store.require_names(dataset.images)
        stored = dict(zip(store.image_ids.tolist(), store.stamps.tolist(), strict=True))
    # Of a picture that is gone the features stay.
    here = [image_id for image_id, stamp in stamps.items() if stamp and image_id in stored]
    others = {image_id for image_id in here if stored[image_id] not in (0, stamps[image_id])}
    unknown = sum(stored[image_id] == 0 for image_id in here)
    if others and changed is not None:
        changed(
            f"pictures that are not those of their features any more: {len(others):,}, read again"
        )
    if unknown and changed is not None:
        changed(
            f"{folder} does not say whether {unknown:,} of the pictures have changed since, as it "
            f"was begun by an older version: delete it and make the features again if they have"
        )
    missing = [image for image in dataset.images if image.id not in stored or image.id in others]
    if stored and stored.keys().isdisjoint(stamps):
        raise FeaturesError(
            f"the features in {folder} are of another dataset, which shares no image with "
            f"'{dataset.name}': name another --out, or delete that folder"
        )
    # Stable: batches of the rest are then the same as without the interruption.
    return sorted(missing, key=lambda image: image.id in writer.skipped)


def _readable(
    batch: list[Decoded], writer: Appender, skipped: Callable[[str], None] | None
) -> tuple[list[Image], list[Tensor]]:
    images: list[Image] = []
    pixels: list[Tensor] = []
    for image, future in batch:
        try:
            pixels.append(future.result())
            images.append(image)
            writer.skipped.pop(image.id, None)
        except PictureError as error:
            line = f"image {image.id} ({image.file_name}): {error}: skipped"
            writer.skipped[image.id] = line
            if skipped is not None:
                skipped(line)
    return images, pixels


@torch.inference_mode()
def _seen(
    network: Backbone, pixels: list[Tensor], batch_size: int, device: torch.device
) -> NDArray[np.float32]:
    """Run the network, over a bounded number at a time: B x (C, 3, H, W) -> (B, C, F).

    Where it keeps its grid, -> (B, C, REGIONS, F).
    """
    crops = torch.cat(pixels)  # (B * C, 3, H, W)

    def look(some: Tensor) -> Tensor:
        seen: Tensor = network(some.to(device))
        return (pool_regions(seen) if network.grid else seen).float().cpu()

    try:
        rows = torch.cat([look(some) for some in torch.split(crops, batch_size)])
    except torch.OutOfMemoryError as error:
        raise FeaturesError(
            f"{device} has not enough memory for {batch_size} crops at a time: lower "
            f"--batch-size; what is done is kept, and the same command goes on from it"
        ) from error
    seen: NDArray[np.float32] = rows.reshape(len(pixels), -1, *rows.shape[1:]).numpy()
    return seen


def _whole_and_views(seen: NDArray[np.float32], crops: int) -> NDArray[np.float32]:
    """Average the crops, and leave the views: (B, crops + views, ..) -> (B, 1 + views, ..)."""
    return np.concatenate([seen[:, :crops].mean(1, keepdims=True), seen[:, crops:]], axis=1)


def _finite(
    features: NDArray[np.float32], images: Sequence[Image], maker: Maker
) -> NDArray[np.float16]:
    with np.errstate(over="ignore"):
        rounded = features.astype(np.float16)
    bad = np.flatnonzero(~np.isfinite(rounded).reshape(len(images), -1).all(1))
    if len(bad):
        image = images[bad[0]]
        value = "not numbers" if np.isnan(features[bad[0]]).any() else "beyond 65,504"
        raise FeaturesError(
            f"{maker.backbone} gives image {image.id} ({image.file_name}) features that are "
            f"{value}: its weights are damaged or do not fit this preprocessing; name others "
            f"with --weights"
        )
    return rounded
