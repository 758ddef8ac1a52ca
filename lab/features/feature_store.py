"""Features of pictures on disk, durable after each commit.

A folder of four files:

    features.f16     rows of float16: F of the picture, then F of each view; with regions,
                     REGIONS times F of each
    images.i64       for each row the image's id and a hash of its file name
    stamps.i64       for each row `picture_stamp` of its picture
    manifest.json    the number of rows, and what made them

Rows reach the disk before the manifest counts them. Rows beyond its count are left by an
interrupted run, and the next run overwrites them. If an image has several rows, because its picture
changed, the last one counts.
"""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from hasse.models.datasets import Image
from hasse.models.encoders.names import full_name
from hasse.models.encoders.regions import REGIONS
from hasse.models.errors import HasseError
from hasse.models.files import lock_folder, write_at, write_atomically
from hasse.models.images.preprocessing import Preprocessing

MANIFEST, FEATURES, IMAGES, STAMPS = "manifest.json", "features.f16", "images.i64", "stamps.i64"
FORMAT = 2


class FeaturesError(HasseError):
    """Features cannot be made or used; the message has the reason and the remedy."""


@dataclass(frozen=True, slots=True)
class Maker:
    """What made features: everything that they depend on, except the pictures.

    Attributes:
        backbone: the name of the network in `hasse.lab.encoders.registry`.
        weights: `Backbone.fingerprint()`.
        dimension: F.
        preprocessing: of pictures.
        views: number of random crops of each picture with features.
        regions: whether nine regions of the picture, and of each view, have features.
    """

    backbone: str
    weights: str
    dimension: int
    preprocessing: Preprocessing
    views: int = 0
    regions: bool = False

    @property
    def row_shape(self) -> tuple[int, ...]:
        """The shape of one picture's features: (1 + views, F), or (1 + views, REGIONS, F)."""
        return (1 + self.views, *([REGIONS] if self.regions else []), self.dimension)

    @property
    def row_bytes(self) -> int:
        """Bytes of the features of one picture and its views."""
        return math.prod(self.row_shape) * 2


@dataclass(frozen=True)
class FeatureStore:
    """The features of images on disk, in n rows; the last row of an image counts.

    Attributes:
        maker: the network and the preprocessing that made them.
        image_ids: (n,) int64.
        stamps: (n,) int64, `picture_stamp` of the pictures.
        rows: (n, *maker.row_shape) float16, mapped from disk: the picture, then its views.
        skipped: by image id, why there are no features of its picture.
    """

    folder: Path
    maker: Maker
    image_ids: NDArray[np.int64]
    name_hashes: NDArray[np.int64]
    stamps: NDArray[np.int64]
    rows: NDArray[np.float16]
    skipped: Mapping[int, str]

    def views(self, *, regions: bool = False) -> NDArray[np.float16]:
        """Return the features of pictures and views: (n, 1 + views, F), or (.., REGIONS, F).

        Raises:
            FeaturesError: there are no features of regions.
        """
        if regions and not self.maker.regions:
            raise FeaturesError(
                f"the features in {self.folder} are of whole pictures, and this model needs those "
                f"of regions: make features with 'hasse lab features --regions', or leave "
                f"--features out"
            )
        # The whole picture is the first region.
        return self.rows[:, :, 0] if self.maker.regions and not regions else self.rows

    @cached_property
    def _by_id(self) -> NDArray[np.intp]:
        return np.argsort(self.image_ids, kind="stable")

    def __len__(self) -> int:
        return len(set(self.image_ids.tolist()))

    @classmethod
    def open(cls, folder: Path) -> Self:
        """Open the features that `extract` wrote, finished or not.

        Raises:
            FeaturesError: there are no features, or files contradict each other.
        """
        manifest = _read_manifest(folder)
        if manifest is None:
            raise FeaturesError(
                f"there are no features in {folder}: make them with "
                f"'hasse lab features ... --out {folder}'"
            )
        rows, maker = manifest.rows, manifest.maker
        if rows == 0:
            raise FeaturesError(f"the features in {folder} are of no image yet: make them again")
        expected = {FEATURES: rows * maker.row_bytes, IMAGES: rows * 16, STAMPS: rows * 8}
        require_files(folder, expected)
        images = np.fromfile(folder / IMAGES, dtype="<i8", count=2 * rows).reshape(rows, 2)
        stamps = np.fromfile(folder / STAMPS, dtype="<i8", count=rows)
        mapped = np.memmap(folder / FEATURES, dtype="<f2", mode="r", shape=(rows, *maker.row_shape))
        return cls(folder, maker, images[:, 0], images[:, 1], stamps, mapped, manifest.skipped)

    def require_names(self, images: Iterable[Image]) -> None:
        """Refuse images if features with their id have another file name.

        Raises:
            FeaturesError: the features are of another dataset with the same ids.
        """
        stored = dict(zip(self.image_ids.tolist(), self.name_hashes.tolist(), strict=True))
        for image in images:
            if image.id in stored and stored[image.id] != name_hash(image):
                raise FeaturesError(
                    f"the features in {self.folder} are of another dataset, in which image "
                    f"{image.id} is not {image.file_name}: name another folder, or delete that one"
                )

    def select(
        self, image_ids: Sequence[int] | NDArray[np.int64], *, regions: bool = False
    ) -> NDArray[np.float32]:
        """Return the features of images, in the order of `image_ids`, as float32.

        (B,) ids -> (B, F), or (B, REGIONS, F) of regions.

        Raises:
            FeaturesError: features of an image or of regions are missing, or not finite.
        """
        stored = self.views(regions=regions)[:, 0]
        ids = np.asarray(image_ids, dtype=np.int64)
        ends = np.searchsorted(self.image_ids, ids, side="right", sorter=self._by_id)
        rows = self._by_id[ends - 1]
        missing = ids[self.image_ids[rows] != ids]
        if len(missing):
            raise FeaturesError(
                f"images without features in {self.folder}: {len(missing):,}, the first has the "
                f"id {missing[0]}; run 'hasse lab features' on this dataset again"
            )
        features = stored[rows].astype(np.float32)
        # No violation compares as smaller than NaN, so a metric would call NaN perfect.
        bad_ids = ids[~np.isfinite(features).reshape(len(features), -1).all(1)]
        if len(bad_ids):
            raise FeaturesError(
                f"images whose features in {self.folder} are not finite numbers: "
                f"{len(bad_ids):,}, the first has the id {bad_ids[0]}; restore the folder, or "
                f"delete it and run 'hasse lab features' again"
            )
        return features


def require_files(folder: Path, sizes: Mapping[str, int]) -> None:
    """Refuse a folder without these files, or with shorter ones (FeaturesError)."""
    for name, size in sizes.items():
        path = folder / name
        if not path.is_file() or path.stat().st_size < size:
            raise FeaturesError(
                f"{path} is missing or shorter than {MANIFEST} says: delete {folder} and make the "
                f"features again"
            )


@dataclass(frozen=True, slots=True)
class _Manifest:
    maker: Maker
    rows: int
    skipped: dict[int, str]


def _read_manifest(folder: Path) -> _Manifest | None:
    path = folder / MANIFEST
    if not path.is_file():
        return None
    try:
        content: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
        if content["format"] != FORMAT:
            raise FeaturesError(
                f"{path} has format {content['format']}; this version reads {FORMAT}: "
                f"delete {folder} and make the features again"
            )
        fields = content["maker"] | {"backbone": full_name(content["maker"]["backbone"])}
        maker = Maker(**fields | {"preprocessing": Preprocessing(**fields["preprocessing"])})
        skipped = {int(image_id): str(line) for image_id, line in content["skipped"].items()}
        return _Manifest(maker, int(content["rows"]), skipped)
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise FeaturesError(
            f"{path} cannot be read ({error}): delete {folder} and make the features again"
        ) from error


class Appender:
    """Writes rows to a folder of features; one process at a time."""

    def __init__(self, folder: Path, manifest: _Manifest) -> None:
        self.folder = folder
        self._manifest = manifest
        self.skipped = dict(manifest.skipped)
        self._pending: list[tuple[Sequence[Image], Sequence[int], NDArray[np.float16]]] = []

    @property
    def rows(self) -> int:
        """Number of durable rows."""
        return self._manifest.rows

    def add(
        self, images: Sequence[Image], stamps: Sequence[int], features: NDArray[np.float16]
    ) -> None:
        """Add rows to the next `commit`: B images, B stamps, (B, *row_shape) features.

        Take stamps before reading the pictures, so that no change in between is missed.
        """
        self._pending.append((images, stamps, features))

    def commit(self) -> None:
        """Make the added rows durable."""
        rows, row_bytes = self.rows, self._manifest.maker.row_bytes
        images = [(image.id, name_hash(image)) for batch, *_ in self._pending for image in batch]
        stamps = [stamp for _, batch, _ in self._pending for stamp in batch]
        manifest = replace(self._manifest, rows=rows + len(images), skipped=dict(self.skipped))
        try:
            if images:
                block = np.concatenate([features for *_, features in self._pending])
                write_at(self.folder / FEATURES, rows * row_bytes, block.astype("<f2").tobytes())
                write_at(self.folder / IMAGES, rows * 16, np.array(images, dtype="<i8").tobytes())
                write_at(self.folder / STAMPS, rows * 8, np.array(stamps, dtype="<i8").tobytes())
            document = {"format": FORMAT, **asdict(manifest)}
            write_atomically(self.folder / MANIFEST, json.dumps(document, indent=1).encode())
        except OSError as error:
            raise FeaturesError(
                f"features cannot be written to {self.folder} ({error.strerror}): make room or "
                f"name another --out; what is there is kept, and the same command goes on from it"
            ) from error
        # One statement: after Ctrl-C between two, the next commit would write the rows again.
        self._manifest, self._pending = manifest, []


@contextmanager
def open_appender(folder: Path, maker: Maker) -> Iterator[Appender]:
    """Open a folder of features for appending, locked against other processes.

    Raises:
        FeaturesError: the network or the preprocessing of its features differs.
        FolderLockedError: another process has locked it.
    """
    with lock_folder(folder):
        manifest = _read_manifest(folder)
        if manifest is None:
            manifest = _Manifest(maker, 0, {})
        _require_same(manifest.maker, maker, folder)
        yield Appender(folder, manifest)


def name_hash(image: Image) -> int:
    """Return a hash of 63 bits of an image's file name: different collections may share ids."""
    digest = hashlib.sha256(image.file_name.encode()).digest()
    return int.from_bytes(digest[:8], "little") >> 1


def _require_same(stored: Maker, maker: Maker, folder: Path) -> None:
    properties: Mapping[str, tuple[object, object]] = {
        "the network": (stored.backbone, maker.backbone),
        "its weights (fingerprint)": (stored.weights[:12], maker.weights[:12]),
        "the preprocessing": (stored.preprocessing, maker.preprocessing),
        "the number of views": (stored.views, maker.views),
        "whether regions have features (--regions)": (stored.regions, maker.regions),
    }
    for name, (old, new) in properties.items():
        if old != new:
            raise FeaturesError(
                f"the features in {folder} were made differently: {name} was {old} and is now "
                f"{new}; name another --out, or delete that folder"
            )
