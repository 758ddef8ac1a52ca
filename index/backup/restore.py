"""Restores a backup to a new library."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from contextlib import closing
from pathlib import Path

from hasse.index import durable
from hasse.index.backup.contents import Opener, Progress, copy_checked, open_backup
from hasse.index.backup.manifest import Manifest
from hasse.index.catalog import mutations
from hasse.index.catalog.catalog import Catalog
from hasse.index.catalog.database import CATALOG, CATALOG_URL, catalog_url
from hasse.index.catalog.transfer import copy_rows
from hasse.index.creation import index_exists, open_catalog
from hasse.index.errors import BackupError, IndexExistsError, disk_full_reported
from hasse.index.segments.segment import SEGMENTS_FOLDER
from hasse.index.segments.stored_pictures import PICTURES
from hasse.index.types import FolderRow


def restore(
    place: Path,
    folder: Path,
    moved: Mapping[str, str],
    progress: Progress = lambda done, total: None,
) -> Manifest:
    """Make an index from a backup, in a folder that does not exist or holds only `catalog.url`.

    `moved` are the new paths of folders of pictures, by their old paths; folders below them move
    too. Every file is compared with its checksum while it is copied; `progress` is called with the
    bytes so far, and all of them. The index appears only when it is complete.

    Raises:
        BackupError: there is no backup, it is damaged or cut short, or has no folder in `moved`.
        IndexExistsError: the folder or the database is in use.
        FormatVersionError: a newer version wrote the catalog.
        DiskFullError: there is no room.
    """
    _require_free(folder)
    partial = folder.with_name(f".{folder.name}.restoring")
    durable.remove(partial)
    with open_backup(place) as (manifest, open_), disk_full_reported(folder):
        try:
            durable.make_folder(partial)
            durable.make_folder(partial / SEGMENTS_FOLDER)
            _copy(place, manifest, open_, partial, progress)
            durable.move(partial / manifest.catalog, partial / CATALOG)
            with closing(open_catalog(partial)) as catalog:
                catalog.state()
                catalog.enable_write_ahead_log()
                _move_folders(catalog, partial, moved)
            durable.settle([partial, *(path for path in partial.rglob("*") if path.is_dir())])
            if (folder / CATALOG_URL).is_file():
                _into_server(partial, folder)
            else:
                durable.rename(partial, folder)
        finally:
            durable.remove(partial)
    return manifest


def _require_free(folder: Path) -> None:
    other_files = (
        [path for path in folder.iterdir() if path.name != CATALOG_URL] if folder.exists() else []
    )
    if other_files:
        raise IndexExistsError(
            f"{folder} is not empty: move it away, or restore to another --library"
        )
    if (folder / CATALOG_URL).is_file():
        with closing(Catalog(catalog_url(folder))) as catalog:
            if catalog.exists():
                raise index_exists(folder)


def _copy(place: Path, manifest: Manifest, open_: Opener, folder: Path, progress: Progress) -> None:
    done = 0
    for name, record in manifest.files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        try:
            with open_(name) as source, path.open("wb") as target:
                is_intact = copy_checked(source, target) == (record.bytes, record.sha256)
        except FileNotFoundError:
            is_intact = False
        if not is_intact:
            raise BackupError(
                f"{name} in {place} is missing or was changed since the backup: use another one"
            )
        done += record.bytes
        progress(done, manifest.size)


def _move_folders(catalog: Catalog, folder: Path, moved: Mapping[str, str]) -> None:
    rows = list(catalog.locations(folder).folders.values())
    for old in moved:
        if not any(_is_in(row.path, old) for row in rows):
            folders = ", ".join(sorted(row.path for row in rows)) or "none"
            raise BackupError(f"the backup has no folder {old}: name one of its own ({folders})")
    with catalog.writing() as connection:
        mutations.remember_folders(connection, _moved_rows(rows, folder, moved))


def _moved_rows(
    rows: list[FolderRow], folder: Path, moved: Mapping[str, str]
) -> Iterator[FolderRow]:
    for row in rows:
        for old, new in moved.items():
            if _is_in(row.path, old):
                path = Path(new + row.path[len(old) :])
                device = row.device
                if device is not None and path.is_dir():
                    device = path.stat().st_dev
                beside = os.path.relpath(path, folder)
                yield row._replace(path=str(path), beside=beside, device=device)
                break


def _is_in(path: str, folder: str) -> bool:
    return path == folder or path.startswith(f"{folder.rstrip('/')}/")


def _into_server(partial: Path, folder: Path) -> None:
    """Fill the database at `catalog.url` and move the files, in one transaction."""
    with (
        closing(open_catalog(partial)) as source,
        closing(Catalog(catalog_url(folder))) as target,
        source.reading() as source_connection,
        target.creating() as target_connection,
    ):
        copy_rows(source_connection, target_connection)
        for name in (SEGMENTS_FOLDER, PICTURES):
            if (partial / name).exists():
                durable.rename(partial / name, folder / name)
