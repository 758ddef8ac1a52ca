"""A captioned collection in memory, and its file on disk.

Every importer returns a `Dataset`; training, evaluation and indexing read nothing else. On disk
a dataset is a folder with one `dataset.json` in MS-COCO annotation format: COCO's own fields,
plus `split` and `path` of images and, where the truth is known, `meaning` of both.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from itertools import chain
from pathlib import Path
from typing import Any

from hasse.models.errors import HasseError
from hasse.models.files import write_atomically

FILE_NAME = "dataset.json"


class DatasetError(HasseError):
    """A dataset that cannot be used; the message says what is wrong and what to do."""


@dataclass(frozen=True, slots=True)
class Caption:
    """One sentence about one image. `meaning` is its logical form where that is known."""

    id: int
    image_id: int
    text: str
    meaning: Mapping[str, Any] | None = None


@dataclass(frozen=True, slots=True)
class Image:
    """One picture and its captions. `path` is absolute; `split` is train, val, test or ''.

    `id` is 0 while a picture has none.
    """

    id: int
    file_name: str
    path: Path
    split: str = ""
    width: int | None = None
    height: int | None = None
    captions: tuple[Caption, ...] = ()
    meaning: Mapping[str, Any] | None = None

    @property
    def subject(self) -> str:
        """The name of the image in messages."""
        return f"image {self.id} ({self.file_name})" if self.id else self.file_name


@dataclass(frozen=True, slots=True)
class Dataset:
    """Images in a fixed order, each with its captions."""

    name: str
    images: tuple[Image, ...]

    def __len__(self) -> int:
        return len(self.images)

    @property
    def captions(self) -> Iterator[Caption]:
        """Iterate over all captions, image by image."""
        for image in self.images:
            yield from image.captions

    def splits(self) -> dict[str, int]:
        """Count the images of each split, in order of first appearance."""
        counts: dict[str, int] = {}
        for image in self.images:
            counts[image.split] = counts.get(image.split, 0) + 1
        return counts

    def has_splits(self) -> bool:
        """Return whether any image is in a split with a name."""
        return any(image.split for image in self.images)

    def split(self, name: str) -> Dataset:
        """Return the images of one split.

        Raises:
            DatasetError: no image is in that split; the message lists the splits.
        """
        images = tuple(image for image in self.images if image.split == name)
        if not images:
            unnamed = "no split, named ''"
            counts = ", ".join(f"{split or unnamed}: {n}" for split, n in self.splits().items())
            remedy = f", or import the pictures of '{name}' too" if name else ""
            raise DatasetError(
                f"the dataset '{self.name}' has no images in the split '{name}' ({counts}): "
                f"name one that it has{remedy}"
            )
        return replace(self, images=images)

    def first_captions(self, number: int) -> Dataset:
        """Return all images with no more than their first `number` captions."""
        images = (replace(image, captions=image.captions[:number]) for image in self.images)
        return replace(self, images=tuple(images))


def fingerprint(*datasets: Dataset) -> str:
    """Return a hash of the captions: it tells datasets of the same name and size apart."""
    digest = hashlib.sha256()
    for image in chain.from_iterable(dataset.images for dataset in datasets):
        if image.captions:
            texts = [caption.text for caption in image.captions]
            digest.update(json.dumps([image.id, *texts]).encode())
    return digest.hexdigest()[:12]


def save(dataset: Dataset, folder: Path) -> Path:
    """Write `folder/dataset.json` (whole or not at all) and return its path.

    The paths of pictures below `folder` are relative to it, so that the folder can be moved.
    """
    folder = folder.resolve()
    folder.mkdir(parents=True, exist_ok=True)
    images: list[dict[str, Any]] = []
    annotations: list[dict[str, Any]] = []
    for image in dataset.images:
        row: dict[str, Any] = {"id": image.id, "file_name": image.file_name}
        if image.width is not None and image.height is not None:
            row |= {"width": image.width, "height": image.height}
        is_inside = image.path.is_relative_to(folder)
        row["path"] = str(image.path.relative_to(folder) if is_inside else image.path)
        row["split"] = image.split
        if image.meaning is not None:
            row["meaning"] = image.meaning
        images.append(row)
        for caption in image.captions:
            note: dict[str, Any] = {
                "id": caption.id,
                "image_id": caption.image_id,
                "caption": caption.text,
            }
            if caption.meaning is not None:
                note["meaning"] = caption.meaning
            annotations.append(note)
    document = {
        "info": {"description": dataset.name},
        "images": images,
        "annotations": annotations,
    }
    path = folder / FILE_NAME
    text = json.dumps(document, ensure_ascii=False, separators=(",", ":"))
    write_atomically(path, text.encode())
    return path


def load(folder: Path) -> Dataset:
    """Read a dataset that `save` wrote.

    Raises:
        DatasetError: there is no such file, or `save` did not write it.
    """
    path = folder / FILE_NAME if folder.is_dir() else folder
    if not path.is_file():
        raise DatasetError(
            f"no dataset at {folder}: make one with 'hasse lab data import ... --out {folder}'"
        )
    try:
        document = json.loads(path.read_text(encoding="utf-8"))
        root = path.parent.resolve()
        captions: dict[int, list[Caption]] = {}
        for note in document["annotations"]:
            text = _text(note["caption"])
            caption = Caption(note["id"], note["image_id"], text, note.get("meaning"))
            captions.setdefault(caption.image_id, []).append(caption)
        images = tuple(
            Image(
                id=row["id"],
                file_name=_text(row["file_name"]),
                path=root / _text(row["path"]),
                split=_text(row["split"]),
                width=row.get("width"),
                height=row.get("height"),
                captions=tuple(captions.get(row["id"], ())),
                meaning=row.get("meaning"),
            )
            for row in document["images"]
        )
        return Dataset(_text(document["info"]["description"]), images)
    except (ValueError, KeyError, TypeError) as error:
        raise DatasetError(
            f"{path} is not a dataset of ours ({type(error).__name__}: {error}): import it again"
        ) from error


def _text(value: object) -> str:
    """Return a value that is valid text; raises TypeError, or ValueError for a lone surrogate."""
    if not isinstance(value, str):
        raise TypeError(f"{value!r} is not text")
    value.encode()
    return value
