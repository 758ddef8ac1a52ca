"""Pictures that an index keeps itself: those that came by the service and lie nowhere else.

    INDEX/pictures/3f/3f9a...c2.jpg    named by the SHA-256 of the contents

A picture is on the disk before the catalog names it. So a kill leaves at most a picture that no
image has, which a later start removes.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path

import sqlalchemy as sql

from index import durable
from index.catalog import IMAGES, Catalog
from index.errors import REMEDY, disk_full_named

PICTURES = "pictures"

# A picture without an image may be one whose image is about to be committed by another process.
_FORGOTTEN_SECONDS = 3600.0


def keep(folder: Path, picture: bytes, sha256: str, suffix: str) -> str:
    """Write a picture durably; return its path relative to `folder`, that of the index.

    Raises:
        DiskFullError: no room; nothing is left of it.
    """
    path = folder / PICTURES / sha256[:2] / f"{sha256}{suffix}"
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
    return str(path.relative_to(folder))


def drop(folder: Path, path: str) -> None:
    """Remove a picture that no image has any more; those that lie elsewhere are left alone."""
    if Path(path).parts[:1] == (PICTURES,):
        durable.remove(folder / path)


def sweep(folder: Path, catalog: Catalog) -> list[Path]:
    """Remove the kept pictures that no image has, except those just written; return them."""
    named = {folder / path for path, _ in _kept(catalog)}
    before = time.time() - _FORGOTTEN_SECONDS
    orphans = [
        path
        for path in (folder / PICTURES).glob("*/*")
        if path not in named and path.stat().st_mtime < before
    ]
    for orphan in orphans:
        durable.remove(orphan)
    return orphans


def faults(folder: Path, catalog: Catalog) -> Iterator[str]:
    """Yield a sentence for each kept picture that is missing or not what was written."""
    for name, sha256 in _kept(catalog):
        path = folder / name
        if not path.is_file():
            yield f"{path} is missing: {REMEDY}"
        elif durable.sha256(path) != sha256:
            yield f"{path} was changed since it was written: {REMEDY}"


def _kept(catalog: Catalog) -> list[tuple[str, str]]:
    hashed = sql.select(IMAGES.c.path, IMAGES.c.sha256).where(IMAGES.c.sha256 != "")
    with catalog.reading() as connection:
        return [(row.path, row.sha256) for row in connection.execute(hashed)]
