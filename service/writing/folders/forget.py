"""Stops following a folder, and removes the images whose files all lie in it."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from pathlib import PurePath

from hasse.index.segments.change import Change
from hasse.index.store import Index
from hasse.index.types import FolderRow, PathRow


def forget(index: Index, folder: FolderRow) -> int:
    """Forget a folder; return the number of removed images.

    All is one generation. The folder may be added again.

    Raises:
        HasseIndexError: there is no room, or another process is writing.
    """
    with index.writing() as writer:
        change = forgotten(index, folder)
        writer.change(change)
    index.announce()
    return len(change.removed_images)


def forgotten(index: Index, folder: FolderRow) -> Change:
    """Return the change that forgets a folder, and the disks that are mounted within it.

    An image keeps its files in other folders. Folders within it that were added by their own name
    stay, with their pictures.
    """
    locations = index.catalog.locations(index.folder)
    staying = list(_added_by_name(locations.folders.values(), folder))

    def remaining(row: PathRow) -> PathRow | None:
        if not _is_in(row.path, folder):
            return row
        named = next((each for each in staying if _is_in(row.path, each)), None)
        return None if named is None else row._replace(folder=named.name)

    ids = {row.image_id for row in index.catalog.all_paths() if _is_in(row.path, folder)}
    before = index.catalog.paths_of(ids)
    after = {id_: [row for row in map(remaining, rows) if row] for id_, rows in before.items()}
    changed = {id_: rows for id_, rows in after.items() if rows and rows != before[id_]}
    images = []
    for id_, image in index.catalog.images(list(changed)).items():
        if _is_in(image.path, folder):
            file = next((row for row in changed[id_] if row.path == image.path), changed[id_][0])
            path, name = PurePath(file.path), image.file_name
            if path.is_absolute():  # not the library's own, which is named by its bytes
                is_in_folder = bool(file.folder) and path.is_relative_to(file.folder)
                name = path.relative_to(file.folder).as_posix() if is_in_folder else path.name
            images.append(image._replace(file_name=name, path=file.path))
    folders = [
        row._replace(device=None, exclude=(), follow_links=False)
        for row in locations.folders.values()
        if row.name == folder.name or (_is_in(row.name, folder) and row not in staying)
    ]
    removed = [id_ for id_, rows in after.items() if not rows]
    return Change(rows=images, paths=changed, removed_images=removed, folders=folders)


def _added_by_name(rows: Iterable[FolderRow], folder: FolderRow) -> Iterator[FolderRow]:
    """Yield the followed folders within one that were added too, the outermost first.

    Others are disks that are mounted there.
    """
    for row in sorted(rows, key=lambda row: row.name):
        is_followed = row.device is not None and _is_in(row.name, folder)
        if is_followed and (row.device == folder.device or not os.path.ismount(row.path)):
            yield row


def _is_in(path: str, folder: FolderRow) -> bool:
    return path.startswith(f"{folder.name.rstrip('/')}/")
