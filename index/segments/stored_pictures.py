"""Pictures that an index keeps itself: those that came by the service and lie nowhere else.

    INDEX/pictures/3f/3f9a...c2.jpg    named by the SHA-256 of the contents
    INDEX/pictures.lock                held by the one process that keeps or removes some

A picture is on the disk before the catalog names it. So a kill leaves at most a picture that no
image has, which a later start removes.
"""

from __future__ import annotations

import re
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from index import durable
from index.catalog.catalog import Catalog
from index.errors import REMEDY, disk_full_named
from index.types import ImageRow

PICTURES = "pictures"
LOCK = "pictures.lock"

# Below `PICTURES`, whole or not. What else lies there is somebody's own, as where the index was
# made in a folder that had pictures.
_OURS = re.compile(r"([0-9a-f]{2})/\1[0-9a-f]{62}(\.[a-z]+)*")

# A picture without an image may be one whose image is about to be committed by another process.
_FORGOTTEN_SECONDS = 3600.0


def path_of(sha256: str, suffix: str) -> str:
    """Return the path of a picture relative to the folder of the index."""
    return f"{PICTURES}/{sha256[:2]}/{sha256}{suffix}"


def is_kept(image: ImageRow) -> bool:
    """Tell whether the picture of an image is the index's own."""
    return image.path == path_of(image.sha256, Path(image.path).suffix)


@contextmanager
def alone(folder: Path, patience: float) -> Iterator[None]:
    """Be the one process that keeps and removes pictures, until the catalog says so too.

    Else one that removes a picture which no image has could take it from another whose image is
    about to be committed. Others are waited for `patience` seconds.

    Raises:
        IndexLockedError, ReadOnlyIndexError, DiskFullError: nothing was changed.
    """
    with disk_full_named(folder), durable.locked(folder / LOCK, patience):
        yield


def keep(folder: Path, picture: bytes, sha256: str, suffix: str) -> str:
    """Write a picture durably; return its path relative to `folder`, that of the index.

    Raises:
        DiskFullError: no room; nothing is left of it.
    """
    relative = path_of(sha256, suffix)
    path = folder / relative
    with disk_full_named(folder):
        for place in (path.parent.parent, path.parent):
            if not place.is_dir():
                place.mkdir(exist_ok=True)
                durable.sync_folder(place.parent)
        try:
            durable.write_file(path, picture)
        except OSError:
            durable.remove(path.with_name(path.name + ".partial"))
            raise
    return relative


def sweep(folder: Path, catalog: Catalog) -> list[Path]:
    """Remove the kept pictures that no image has, except those just written; return them."""
    named = {folder / image.path for image in _kept(catalog)}
    before = time.time() - _FORGOTTEN_SECONDS
    pictures = folder / PICTURES
    orphans = [
        path
        for path in pictures.glob("*/*")
        if _OURS.fullmatch(path.relative_to(pictures).as_posix())
        and path not in named
        and path.stat().st_mtime < before
    ]
    for orphan in orphans:
        durable.remove(orphan)
    return orphans


def faults(folder: Path, catalog: Catalog) -> list[str]:
    """Return a sentence for each kept picture that is missing or not what was written."""
    found = {
        image: fault
        for image in _kept(catalog)
        if (fault := _fault(folder / image.path, image.sha256)) is not None
    }
    # The picture of an image that was removed meanwhile has gone after it.
    there = set(_kept(catalog)) if found else set()
    return [fault for image, fault in found.items() if image in there]


def _fault(path: Path, sha256: str) -> str | None:
    try:
        if durable.sha256(path) == sha256:
            return None
    except OSError:
        if path.is_file():
            raise
        return f"{path} is missing: {REMEDY}"
    return f"{path} was changed since it was written: {REMEDY}"


def _kept(catalog: Catalog) -> list[ImageRow]:
    return [image for image in catalog.images_below(PICTURES) if is_kept(image)]
