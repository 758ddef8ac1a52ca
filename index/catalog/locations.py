"""Translates paths between the catalog, the disk, answers and selections.

A path in the catalog begins with the name of a folder (see `FolderRow`). A picture that the index
stores itself has a path relative to the folder of the index.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Self

import sqlalchemy as sql
from sqlalchemy import Column, Connection

from hasse.index.catalog.schema import FOLDER_FACTS, IMAGES, PATHS
from hasse.index.types import FolderRow
from hasse.models.spelling import spellings

_MAX_FOLDERS = 64  # stored for pictures outside followed folders
_SAMPLE = 16  # files by which a moved folder is recognized


class Locations:
    """The folders of an index and their current paths.

    Attributes:
        folders: by name; `path` is the current one.
        roots: the outermost followed folders by name, each with the prefix that answers show before
            its paths: "" for one folder, unique names for several.
    """

    def __init__(
        self,
        index_folder: Path,
        folders: Iterable[FolderRow] = (),
        samples: Mapping[str, Sequence[str]] | None = None,
    ) -> None:
        """Keep the folders; `samples` are relative paths of files, by folders that are missing."""
        self._index = str(index_folder)
        self._samples = samples or {}
        self.folders: Mapping[str, FolderRow] = {row.name: row for row in folders}
        followed = [row for row in self.folders.values() if row.device is not None]
        outer = [row for row in followed if not any(_is_in(row.path, up.path) for up in followed)]
        labels = _labels([row.path for row in outer])
        self.roots = {row.name: label for row, label in zip(outer, labels, strict=True)}
        moved = [row for row in self.folders.values() if row.path != row.name]
        # The longest first: a folder may lie in another.
        self._moved = sorted(moved, key=lambda row: -len(row.name))

    @classmethod
    def read(
        cls, connection: Connection, index_folder: Path, *, find_missing: bool = False
    ) -> Self:
        """Read the folders, and find those that moved together with the index.

        The disk of a folder is read only if the index has moved, or with `find_missing`: a file
        server that does not answer must not block a service.
        """
        rows = connection.execute(sql.select(*FOLDER_FACTS)).all()
        folders, samples = [], {}
        for name, path, beside, device, exclude, links in rows:
            row = FolderRow(name, path, beside, device, tuple(json.loads(exclude)), bool(links))
            near = os.path.normpath(index_folder / beside)
            if near != path or (find_missing and not Path(path).is_dir()):
                samples[name] = _sample_files(connection, name)
                if near != path and _has_any(near, samples[name]):
                    row = row._replace(path=near)
            folders.append(row)
        return cls(index_folder, folders, samples)

    @property
    def followed_folders(self) -> list[Path]:
        """Paths of the outermost followed folders."""
        return [Path(self.folders[name].path) for name in self.roots]

    def with_folders(self, rows: Iterable[FolderRow]) -> Locations:
        """Return a copy with these folders added or replaced."""
        folders = {**self.folders, **{row.name: row for row in rows}}
        return Locations(Path(self._index), folders.values(), self._samples)

    def absolute(self, path: str) -> str:
        """Return the current absolute path for a path of the catalog."""
        for row in self._moved:
            if _is_in(path, row.name):
                return row.path + path[len(row.name) :]
        return os.path.normpath(f"{self._index}/{path}") if path[:1] != "/" else path

    def catalog_path(self, path: str) -> str:
        """Return the path of the catalog for an absolute path."""
        if _is_in(path, self._index):
            return path[len(self._index) + 1 :]
        for row in self._moved:
            if path == row.path or _is_in(path, row.path):
                return row.name + path[len(row.path) :]
        return path

    def folder_row(self, path: Path, device: int | None) -> FolderRow:
        """Return the row of a folder, updated; a new folder gets an unused name."""
        name = self.catalog_path(str(path))
        row = self.folders.get(name, FolderRow(name, "", ""))
        if row.path not in ("", str(path)):  # the name belongs to a folder that was here before
            while name in self.folders:
                name += "'"
            row = FolderRow(name, "", "")
        beside = os.path.relpath(path, self._index)
        return row._replace(path=str(path), beside=beside, device=device)

    def root_of(self, path: str) -> FolderRow | None:
        """Return the outermost followed folder that is `path` or holds it; `path` is absolute."""
        rows = (self.folders[name] for name in self.roots)
        return next((row for row in rows if path == row.path or _is_in(path, row.path)), None)

    def moved_root(self, path: Path) -> FolderRow | None:
        """Return the missing followed folder whose files are at `path` now, with the new path."""
        for name in self.roots:
            row = self.folders[name]
            if not Path(row.path).is_dir() and _has_any(str(path), self._samples.get(name, ())):
                return row._replace(path=str(path), beside=os.path.relpath(path, self._index))
        return None

    def leads_out(self, path: str) -> bool:
        """Return whether `path` goes through a link that leads out of its followed folder."""
        if _is_in(path, self._index):
            return not _is_in(os.path.realpath(path), os.path.realpath(self._index))
        root = self.root_of(path)
        if root is None or root.follow_links:
            return False
        return not _is_in(os.path.realpath(path), os.path.realpath(root.path))

    def shown_paths(self, paths: Iterable[str]) -> dict[str, str | None]:
        """Return the paths that answers show, by the paths of the catalog.

        A shown path is relative to the followed folder, and None outside all of them.
        """
        prefixes = [(f"{name.rstrip('/')}/", label) for name, label in self.roots.items()]
        shown: dict[str, str | None] = dict.fromkeys(paths)
        for path in shown:
            for prefix, label in prefixes:
                if path.startswith(prefix):
                    shown[path] = label + path[len(prefix) :]
                    break
        return shown

    def absolute_path_starts(self, prefix: str) -> sql.ColumnElement[bool]:
        """Return the SQL condition: an absolute path of the image begins with `prefix`.

        Here and in `shown_path_starts`, names in the path may be spelled otherwise.
        """
        return sql.or_(*map(self._absolute_path_starts, spellings(prefix)))

    def _absolute_path_starts(self, prefix: str) -> sql.ColumnElement[bool]:
        parent = prefix.rpartition("/")[0] or "/"
        if not prefix.startswith("/") or os.path.normpath(parent) != parent:  # not a possible path
            return sql.false()
        path = PATHS.c.path
        moved = [_starts(path, f"{row.name}/") for row in self._moved]
        conditions = [sql.and_(_starts(path, prefix), *map(sql.not_, moved))]
        for row in self._moved:
            conditions += _shown_path_starts(row.path, row.name, prefix)
        index = f"{self._index}/"
        if index.startswith(prefix):
            conditions.append(~_starts(path, "/"))
        elif prefix.startswith(index):
            conditions.append(sql.and_(_starts(path, prefix[len(index) :]), ~_starts(path, "/")))
        return IMAGES.c.id.in_(sql.select(PATHS.c.image_id).where(sql.or_(*conditions)))

    def shown_path_starts(self, prefix: str) -> sql.ColumnElement[bool]:
        """Return the SQL condition: a path of the image, as answers show it, begins with `prefix`.

        A file outside all followed folders is shown by the name of its image.
        """
        return sql.or_(*map(self._shown_path_starts, spellings(prefix)))

    def _shown_path_starts(self, prefix: str) -> sql.ColumnElement[bool]:
        conditions: list[sql.ColumnElement[bool]] = [sql.false()]
        for name, label in self.roots.items():
            conditions += _shown_path_starts(label.rstrip("/"), name, prefix)
        inside = [_starts(PATHS.c.path, f"{name}/") for name in self.roots]
        outside = sql.select(PATHS.c.image_id).where(sql.not_(sql.or_(sql.false(), *inside)))
        by_name = sql.or_(
            IMAGES.c.id.in_(outside), IMAGES.c.id.not_in(sql.select(PATHS.c.image_id))
        )
        return sql.or_(
            IMAGES.c.id.in_(sql.select(PATHS.c.image_id).where(sql.or_(*conditions))),
            sql.and_(_starts(IMAGES.c.file_name, prefix), by_name),
        )


def folders_of(paths: Iterable[str]) -> list[str]:
    """Return the folders of files; if they are too many, the deepest become their parents."""
    folders = {path.rpartition("/")[0] for path in paths if path.startswith("/")}
    while len(folders) > _MAX_FOLDERS:
        deepest = max(folder.count("/") for folder in folders)
        folders = {
            folder.rpartition("/")[0] if folder.count("/") == deepest else folder
            for folder in folders
        }
    return sorted(folders - {""})


def _sample_files(connection: Connection, name: str) -> list[str]:
    """Return paths of some files in a folder, relative to it."""
    statement = sql.select(PATHS.c.path).where(_starts(PATHS.c.path, f"{name}/")).limit(_SAMPLE)
    return [path[len(name) + 1 :] for path in connection.execute(statement).scalars()]


def _has_any(folder: str, files: Iterable[str]) -> bool:
    return any(Path(folder, file).exists() for file in files)


def _labels(folders: Sequence[str]) -> list[str]:
    """Return the prefix of shown paths in each folder: "" for one, unique names for several."""
    if len(folders) == 1:
        return [""]
    labels = []
    for folder in folders:
        parts = folder.strip("/").split("/")
        others = [f"/{other.strip('/')}" for other in folders if other != folder]
        ends = ("/".join(parts[at:]) for at in range(len(parts) - 1, -1, -1))
        unique = (end for end in ends if not any(other.endswith(f"/{end}") for other in others))
        labels.append(f"{next(unique, folder)}/")
    return labels


def _shown_path_starts(label: str, name: str, prefix: str) -> list[sql.ColumnElement[bool]]:
    """Return the SQL condition for the folder `name`, shown as `label`; [] if no file can match."""
    start = f"{label}/" if label else ""
    if start.startswith(prefix):
        return [_starts(PATHS.c.path, f"{name}/")]
    if prefix.startswith(start):
        return [_starts(PATHS.c.path, f"{name}/{prefix[len(start) :]}")]
    return []


def _is_in(path: str, folder: str) -> bool:
    return path.startswith(f"{folder.rstrip('/')}/") and path != folder


def _starts(column: Column[str], prefix: str) -> sql.ColumnElement[bool]:
    # Not LIKE, which ignores case in SQLite.
    return sql.func.substr(column, 1, len(prefix)) == prefix
