"""Captions written for all pictures of an index that have none, in a file of their own."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterator
from pathlib import Path

from index.store import Index
from index.types import ImageRow
from models.captioning import DRAWS
from models.captioning.writing import Writer
from models.errors import HasseError

_BLOCK = 256  # pictures whose points are read at one time


class DescriptionError(HasseError):
    """A file of written captions that cannot be continued; the message says why and what to do."""


def describe_index(
    index: Index,
    writer: Writer,
    out: Path,
    *,
    draws: int = DRAWS,
    report: Callable[[int, int], None] = lambda done, total: None,
) -> int:
    """Append the first caption written for each picture without captions, one JSON object a line.

    Pictures that the file has already are left out, so a call goes on where an earlier one was
    stopped. Every line says which captioner wrote it. Nothing in the index changes.

    Returns:
        How many captions were written.

    Raises:
        DescriptionError: the file has lines of another kind, or of another captioner.
    """
    author = f"{writer.encoder.name} {writer.captioner.fingerprint[:12]}"
    known = _described(out, author)
    images, captions = index.catalog.all_rows()
    spoken = {caption.image_id for caption in captions}
    left = [image for image in images if image.id not in spoken and image.id not in known]
    done = 0
    with out.open("a", encoding="utf-8") as file:
        for start in range(0, len(left), _BLOCK):
            block = left[start : start + _BLOCK]
            points = index.points("image", [image.id for image in block])
            names = _names(index, block)
            for image in block:
                if image.id not in points:  # removed meanwhile
                    continue
                best = writer.describe(points[image.id], draws)[0]
                row = {
                    "image_id": image.id,
                    "file_name": names[image.id],
                    "caption": best.text,
                    "violation": best.violation,
                    "probability": best.probability,
                    "in_training": best.in_training,
                    "written_by": author,
                }
                file.write(json.dumps(row, ensure_ascii=False) + "\n")
                done += 1
                report(start + done, len(left))
            file.flush()
    return done


def _names(index: Index, images: list[ImageRow]) -> dict[int, str]:
    """Return the path of each image below the folder that is followed, or its file name."""
    paths = index.catalog.paths_of([image.id for image in images])
    found = {image.id: image.file_name for image in images}
    for image_id, rows in paths.items():
        for row in rows[:1]:
            if row.folder:
                found[image_id] = os.path.relpath(row.path, row.folder)
    return found


def _described(out: Path, author: str) -> set[int]:
    """Return the images that a file has captions of."""
    return set(_read(out, author)) if out.exists() else set()


def _read(out: Path, author: str) -> Iterator[int]:
    for number, line in enumerate(out.read_text(encoding="utf-8").splitlines(), start=1):
        try:
            row = json.loads(line)
            image_id, wrote = int(row["image_id"]), row["written_by"]
        except (ValueError, KeyError, TypeError):
            raise DescriptionError(
                f"{out}, line {number}, is no caption written by 'hasse index describe': name "
                f"another --out"
            ) from None
        if wrote != author:
            raise DescriptionError(
                f"{out} has captions written by {wrote}, not by {author}: name another --out, or "
                f"delete it"
            )
        yield image_id
