"""Pictures that an index stores itself, because they were uploaded to the service.

    INDEX/pictures/3f/3f9a...c2.jpg    named by the SHA-256 of the contents

Hold the lock of the index while you store or remove pictures and change the catalog. Otherwise a
process could remove a picture just before another process commits its image. A picture is on the
disk before the catalog names it, so a kill leaves at most a picture without an image, which a later
start removes.
"""

from __future__ import annotations

import re
import time
from pathlib import Path

from hasse.index import durable
from hasse.index.catalog.catalog import Catalog
from hasse.index.errors import DamagedIndexError, disk_full_reported
from hasse.index.types import ImageRow

PICTURES = "pictures"

# Paths below `PICTURES` that this module makes. Other files there are not ours: the index may have
# been made in a folder of pictures.
_OURS = re.compile(r"([0-9a-f]{2})/\1[0-9a-f]{62}(\.[a-z]+)*")

# A newer picture without an image may belong to a change that is about to be committed.
_ORPHAN_SECONDS = 3600.0


def picture_path(sha256: str, suffix: str) -> str:
    """Return the path of a stored picture relative to the folder of the index."""
    return f"{PICTURES}/{sha256[:2]}/{sha256}{suffix}"


def is_stored(image: ImageRow) -> bool:
    """Return whether the index stores the picture of an image itself."""
    return image.path == picture_path(image.sha256, Path(image.path).suffix)


def store(folder: Path, picture: bytes, sha256: str, suffix: str) -> str:
    """Write a picture durably; return its path relative to `folder`, the folder of the index.

    Raises:
        DiskFullError: no room; the partial file is removed.
    """
    relative = picture_path(sha256, suffix)
    path = folder / relative
    with disk_full_reported(folder):
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
    """Remove stored pictures without an image, except recent ones; return their paths."""
    used = {folder / image.path for image in stored_images(catalog)}
    before = time.time() - _ORPHAN_SECONDS
    pictures = folder / PICTURES
    orphans = [
        path
        for path in pictures.glob("*/*")
        if _OURS.fullmatch(path.relative_to(pictures).as_posix())
        and path not in used
        and path.stat().st_mtime < before
    ]
    for orphan in orphans:
        durable.remove(orphan)
    return orphans


def faults(folder: Path, catalog: Catalog) -> list[str]:
    """Return a sentence for each stored picture that is missing or was changed."""
    faults_by_image = {
        image: fault
        for image in stored_images(catalog)
        if (fault := _fault(folder / image.path, image.sha256)) is not None
    }
    # An image that was removed meanwhile may have lost its picture.
    present = set(stored_images(catalog)) if faults_by_image else set()
    return [fault for image, fault in faults_by_image.items() if image in present]


def _fault(path: Path, sha256: str) -> str | None:
    try:
        if durable.sha256(path) == sha256:
            return None
    except OSError:
        if path.is_file():
            raise
        return str(DamagedIndexError(f"{path} is missing"))
    return str(DamagedIndexError(f"{path} was changed since it was written"))


def stored_images(catalog: Catalog) -> list[ImageRow]:
    """Return the images whose pictures the index stores itself."""
    return [image for image in catalog.images_below(PICTURES) if is_stored(image)]
