"""Stops following a folder, and removes the images whose files all lie in it."""

from __future__ import annotations

from pathlib import PurePath

from hasse.index.segments.change import Change
from hasse.index.store import Index
from hasse.index.types import FolderRow


def forget(index: Index, folder: FolderRow) -> int:
    """Forget a folder and the folders within it; return the number of removed images.

    All is one generation. An image keeps its files in other folders. The folder may be added again.

    Raises:
        HasseIndexError: there is no room, or another process is writing.
    """
    with index.writing() as writer:
        ids = {row.image_id for row in index.catalog.all_paths() if _is_in(row.path, folder)}
        remaining = {
            id_: [row for row in rows if not _is_in(row.path, folder)]
            for id_, rows in index.catalog.paths_of(ids).items()
        }
        removed = [id_ for id_, rows in remaining.items() if not rows]
        changed = {id_: rows for id_, rows in remaining.items() if rows}
        images = [
            image._replace(path=changed[id_][0].path, file_name=PurePath(changed[id_][0].path).name)
            for id_, image in index.catalog.images(list(changed)).items()
            if _is_in(image.path, folder)
        ]
        folders = [
            row._replace(device=None, exclude=(), follow_links=False)
            for row in index.locations.folders.values()
            if row.name == folder.name or _is_in(row.name, folder)
        ]
        writer.change(Change(rows=images, paths=changed, removed_images=removed, folders=folders))
    index.announce()
    return len(removed)


def _is_in(path: str, folder: FolderRow) -> bool:
    return path.startswith(f"{folder.name.rstrip('/')}/")
