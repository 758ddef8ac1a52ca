"""Features of pictures on disk, durable as far as they are finished.

A folder of four files:

    features.f16     rows of float16, one after the other: F of the picture, F of each view; with
                     regions, REGIONS times F of each
    images.i64       for each row the image's id and a hash of its file name
    stamps.i64       for each row `picture_stamp` of its picture
    manifest.json    how many rows there are, and what made them

Rows reach the disk before the manifest counts them. Rows beyond its count are of an interrupted
run, and the next one overwrites them. Of several rows of an image the last one counts: its picture
has changed.
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
    """Features that cannot be made or used; the message says why and what to do."""


@dataclass(frozen=True, slots=True)
class Maker:
    """What features depend on beside the picture.

    Attributes:
        backbone: the name of the network, as of `hasse.models.encoders.registry`.
        weights: `Backbone.fingerprint()`.
        dimension: F.
        preprocessing: how pictures are read.
        views: random cuts of each picture that have features of their own.
        regions: whether nine regions of the picture, and of each view, have them too.
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
        """Bytes of one picture's features, those of its views included."""
        return math.prod(self.row_shape) * 2


@dataclass(frozen=True)
class FeatureStore:
    """The features of images, on disk, in n rows of which the last of an image counts.

    Attributes:
        maker: the network and the preprocessing that made them.
        image_ids: (n,) int64.
        stamps: (n,) int64, `picture_stamp` of the pictures that were read.
        rows: (n, *maker.row_shape) float16, mapped from disk: of the picture, then of its views.
        skipped: by image id, why its picture gave no features.
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
            FeaturesError: regions have none.
        """
        if regions and not self.maker.regions:
            raise FeaturesError(
                f"the features in {self.folder} are of whole pictures, and this model needs those "
                f"of regions: make features with 'hasse lab features --regions', or leave "
                f"--features out"
            )
        # The whole comes before its regions.
        return self.rows[:, :, 0] if self.maker.regions and not regions else self.rows

    @cached_property
    def _by_id(self) -> NDArray[np.intp]:
        return np.argsort(self.image_ids, kind="stable")

    def __len__(self) -> int:
        return len(set(self.image_ids.tolist()))

    @classmethod
    def open(cls, folder: Path) -> Self:
        """Open what `extract` wrote, finished or not.

        Raises:
            FeaturesError: there are no features, or the files do not agree.
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
        """Refuse images whose id has features of another file name.

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
            FeaturesError: an image has none, or they are not finite; it is named. Or regions have
                none.
        """
        features = self.views(regions=regions)[:, 0]
        wanted = np.asarray(image_ids, dtype=np.int64)
        found = np.searchsorted(self.image_ids, wanted, side="right", sorter=self._by_id)
        rows = self._by_id[found - 1]
        missing = wanted[self.image_ids[rows] != wanted]
        if len(missing):
            raise FeaturesError(
                f"images without features in {self.folder}: {len(missing):,}, the first has the "
                f"id {missing[0]}; run 'hasse lab features' on this dataset again"
            )
        chosen = features[rows].astype(np.float32)
        # A violation of NaN compares as no worse than any, and would be measured as perfect.
        spoiled = wanted[~np.isfinite(chosen).reshape(len(chosen), -1).all(1)]
        if len(spoiled):
            raise FeaturesError(
                f"images whose features in {self.folder} are not finite numbers: "
                f"{len(spoiled):,}, the first has the id {spoiled[0]}; restore the folder, or "
                f"delete it and run 'hasse lab features' again"
            )
        return chosen


def require_files(folder: Path, sizes: Mapping[str, int]) -> None:
    """Refuse a folder without these files, or with less in them (FeaturesError)."""
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
    """The one writer of a folder of features."""

    def __init__(self, folder: Path, manifest: _Manifest) -> None:
        self.folder = folder
        self._manifest = manifest
        self.skipped = dict(manifest.skipped)
        self._pending: list[tuple[Sequence[Image], Sequence[int], NDArray[np.float16]]] = []

    @property
    def rows(self) -> int:
        """How many rows are durable."""
        return self._manifest.rows

    def add(
        self, images: Sequence[Image], stamps: Sequence[int], features: NDArray[np.float16]
    ) -> None:
        """Take rows for the next `commit`: B images, B stamps, (B, *row_shape) features.

        The stamps were taken before the pictures were read, so that no later change is missed.
        """
        self._pending.append((images, stamps, features))

    def commit(self) -> None:
        """Make the added rows durable."""
        rows, row_bytes = self.rows, self._manifest.maker.row_bytes
        images = [(image.id, name_hash(image)) for some, *_ in self._pending for image in some]
        stamps = [stamp for _, some, _ in self._pending for stamp in some]
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
        # In one statement: Ctrl-C between two would make the next commit write these rows again.
        self._manifest, self._pending = manifest, []


@contextmanager
def appending(folder: Path, maker: Maker) -> Iterator[Appender]:
    """Open a folder for adding features, locked against other processes.

    Raises:
        FeaturesError: its features were made otherwise.
        FolderLockedError: another process holds it.
    """
    with lock_folder(folder):
        manifest = _read_manifest(folder)
        if manifest is None:
            manifest = _Manifest(maker, 0, {})
        _require_same(manifest.maker, maker, folder)
        yield Appender(folder, manifest)


def name_hash(image: Image) -> int:
    """Return 63 bits of an image's file name: two collections often share their ids."""
    digest = hashlib.sha256(image.file_name.encode()).digest()
    return int.from_bytes(digest[:8], "little") >> 1


def _require_same(stored: Maker, wanted: Maker, folder: Path) -> None:
    differing: Mapping[str, tuple[object, object]] = {
        "the network": (stored.backbone, wanted.backbone),
        "its weights (fingerprint)": (stored.weights[:12], wanted.weights[:12]),
        "the preprocessing": (stored.preprocessing, wanted.preprocessing),
        "the number of views": (stored.views, wanted.views),
        "whether regions have features (--regions)": (stored.regions, wanted.regions),
    }
    for what, (there, here) in differing.items():
        if there != here:
            raise FeaturesError(
                f"the features in {folder} were made otherwise: {what} was {there} and is now "
                f"{here}; name another --out, or delete that folder"
            )
