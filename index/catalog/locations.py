"""Where files lie: paths in the catalog, on the disk, as answers show them, and in selections.

A path in the catalog begins with the name of a folder (see `FolderRow`), or is relative to the
folder of the index, for the pictures that the index stores itself.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Self

import sqlalchemy as sql
from sqlalchemy import Column, Connection

from hasse.index.catalog.schema import FOLDER_FACTS, IMAGES, PATHS
from hasse.index.types import FolderRow

_FOLDERS = 64  # that are remembered of pictures which no followed folder holds
_SAMPLE = 16  # files that are looked for to recognize a folder


class Locations:
    """The folders of an index, each where it is now.

    Attributes:
        folders: by name; `path` is where each is.
        roots: what answers put before paths within the followed folders that lie in no other, by
            the names of these folders. With several of them it tells them apart.
    """

    def __init__(
        self,
        index_folder: Path,
        folders: Iterable[FolderRow] = (),
        samples: Mapping[str, Sequence[str]] | None = None,
    ) -> None:
        """Take folders as they are now; `samples` are paths of files in those that are missing."""
        self._index = str(index_folder)
        self._samples = samples or {}
        self.folders: Mapping[str, FolderRow] = {row.name: row for row in folders}
        followed = [row for row in self.folders.values() if row.device is not None]
        outer = [row for row in followed if not any(_is_in(row.path, one.path) for one in followed)]
        labels = _labels([row.path for row in outer])
        self.roots = {row.name: label for row, label in zip(outer, labels, strict=True)}
        moved = [row for row in self.folders.values() if row.path != row.name]
        # The longest first: a folder may lie in another.
        self._moved = sorted(moved, key=lambda row: -len(row.name))

    @classmethod
    def read(
        cls, connection: Connection, index_folder: Path, *, find_missing: bool = False
    ) -> Self:
        """Read the folders, and look where each is now.

        Only where the index has moved, or with `find_missing`, is the disk of a folder touched: a
        file server that does not answer must not hold up a service.
        """
        rows = connection.execute(sql.select(*FOLDER_FACTS)).all()
        found, samples = [], {}
        for name, path, beside, device, exclude, links in rows:
            row = FolderRow(name, path, beside, device, tuple(json.loads(exclude)), bool(links))
            near = os.path.normpath(index_folder / beside)
            if near != path or (find_missing and not Path(path).is_dir()):
                samples[name] = _some_files(connection, name)
                if near != path and _holds(near, samples[name]):
                    row = row._replace(path=near)
            found.append(row)
        return cls(index_folder, found, samples)

    @property
    def followed(self) -> list[Path]:
        """Where the followed folders are that lie in no other."""
        return [Path(self.folders[name].path) for name in self.roots]

    def updated(self, rows: Iterable[FolderRow]) -> Locations:
        """Return the same with other or more folders."""
        folders = {**self.folders, **{row.name: row for row in rows}}
        return Locations(Path(self._index), folders.values(), self._samples)

    def absolute(self, path: str) -> str:
        """Return where a path of the catalog lies now."""
        for row in self._moved:
            if _is_in(path, row.name):
                return row.path + path[len(row.name) :]
        return os.path.normpath(f"{self._index}/{path}") if path[:1] != "/" else path

    def stored(self, path: str) -> str:
        """Return how the catalog names an absolute path."""
        if _is_in(path, self._index):
            return path[len(self._index) + 1 :]
        for row in self._moved:
            if path == row.path or _is_in(path, row.path):
                return row.name + path[len(row.path) :]
        return path

    def folder(self, path: Path, device: int | None) -> FolderRow:
        """Return the row of a folder as it is now: the known one, or a new one of its own name."""
        name = self.stored(str(path))
        known = self.folders.get(name, FolderRow(name, "", ""))
        if known.path not in ("", str(path)):  # another folder lay here once
            while name in self.folders:
                name += "'"
            known = FolderRow(name, "", "")
        beside = os.path.relpath(path, self._index)
        return known._replace(path=str(path), beside=beside, device=device)

    def root_of(self, path: str) -> FolderRow | None:
        """Return the outermost followed folder that an absolute path is or lies in."""
        rows = (self.folders[name] for name in self.roots)
        return next((row for row in rows if path == row.path or _is_in(path, row.path)), None)

    def moved_root(self, path: Path) -> FolderRow | None:
        """Return the followed folder that was moved to a path: its files are missing, and there."""
        for name in self.roots:
            row = self.folders[name]
            if not Path(row.path).is_dir() and _holds(str(path), self._samples.get(name, ())):
                return row._replace(path=str(path), beside=os.path.relpath(path, self._index))
        return None

    def leads_out(self, path: str) -> bool:
        """Tell whether a file is reached by a link that leads out of its followed folder."""
        if _is_in(path, self._index):
            return not _is_in(os.path.realpath(path), os.path.realpath(self._index))
        root = self.root_of(path)
        if root is None or root.follow_links:
            return False
        return not _is_in(os.path.realpath(path), os.path.realpath(root.path))

    def shown(self) -> Callable[[str], str | None]:
        """Return how answers name a path of the catalog: relative to its followed folder.

        The returned function gives None for a path outside all of them.
        """
        prefixes = [(f"{name.rstrip('/')}/", label) for name, label in self.roots.items()]

        def name_of(path: str) -> str | None:
            for prefix, label in prefixes:
                if path.startswith(prefix):
                    return label + path[len(prefix) :]
            return None

        return name_of

    def lies_below(self, prefix: str) -> sql.ColumnElement[bool]:
        """Return the condition: the image has a file whose absolute path begins with `prefix`."""
        parent = prefix.rpartition("/")[0] or "/"
        if not prefix.startswith("/") or os.path.normpath(parent) != parent:  # as no path is
            return sql.false()
        path = PATHS.c.path
        moved = [_starts(path, f"{row.name}/") for row in self._moved]
        conditions = [sql.and_(_starts(path, prefix), *(sql.not_(each) for each in moved))]
        for row in self._moved:
            conditions += _below(row.path, row.name, prefix)
        own = f"{self._index}/"
        if own.startswith(prefix):
            conditions.append(~_starts(path, "/"))
        elif prefix.startswith(own):
            conditions.append(sql.and_(_starts(path, prefix[len(own) :]), ~_starts(path, "/")))
        return IMAGES.c.id.in_(sql.select(PATHS.c.image_id).where(sql.or_(*conditions)))

    def shown_below(self, prefix: str) -> sql.ColumnElement[bool]:
        """Return the condition: a file of the image begins with `prefix` as answers show it.

        A file outside all followed folders is shown by the name of its image.
        """
        conditions: list[sql.ColumnElement[bool]] = [sql.false()]
        for name, label in self.roots.items():
            conditions += _below(label.rstrip("/"), name, prefix)
        inside = [_starts(PATHS.c.path, f"{name}/") for name in self.roots]
        outside = sql.select(PATHS.c.image_id).where(sql.not_(sql.or_(sql.false(), *inside)))
        named = sql.or_(IMAGES.c.id.in_(outside), IMAGES.c.id.not_in(sql.select(PATHS.c.image_id)))
        return sql.or_(
            IMAGES.c.id.in_(sql.select(PATHS.c.image_id).where(sql.or_(*conditions))),
            sql.and_(_starts(IMAGES.c.file_name, prefix), named),
        )


def folders_of(paths: Iterable[str]) -> list[str]:
    """Return the folders that files lie in; those above them where they are many."""
    folders = {path.rpartition("/")[0] for path in paths if path.startswith("/")}
    while len(folders) > _FOLDERS:
        deepest = max(folder.count("/") for folder in folders)
        folders = {
            folder.rpartition("/")[0] if folder.count("/") == deepest else folder
            for folder in folders
        }
    return sorted(folders - {""})


def _some_files(connection: Connection, name: str) -> list[str]:
    """Return paths of files in a folder, relative to it."""
    known = sql.select(PATHS.c.path).where(_starts(PATHS.c.path, f"{name}/")).limit(_SAMPLE)
    return [path[len(name) + 1 :] for path in connection.execute(known).scalars()]


def _holds(folder: str, files: Iterable[str]) -> bool:
    return any(Path(folder, file).exists() for file in files)


def _labels(folders: Sequence[str]) -> list[str]:
    """Return what paths in each folder begin with: nothing for one, unique names for several."""
    if len(folders) == 1:
        return [""]
    labels = []
    for folder in folders:
        parts = folder.strip("/").split("/")
        others = [f"/{one.strip('/')}" for one in folders if one != folder]
        ends = ("/".join(parts[at:]) for at in range(len(parts) - 1, -1, -1))
        labels.append(
            next(
                (f"{end}/" for end in ends if not any(one.endswith(f"/{end}") for one in others)),
                f"{folder}/",
            )
        )
    return labels


def _below(shown: str, name: str, prefix: str) -> list[sql.ColumnElement[bool]]:
    """Return the condition on files of a folder shown as `shown` to begin with `prefix`."""
    start = f"{shown}/" if shown else ""
    if start.startswith(prefix):
        return [_starts(PATHS.c.path, f"{name}/")]
    if prefix.startswith(start):
        return [_starts(PATHS.c.path, f"{name}/{prefix[len(start) :]}")]
    return []


def _is_in(path: str, folder: str) -> bool:
    return path.startswith(f"{folder.rstrip('/')}/") and path != folder


def _starts(column: Column[str], prefix: str) -> sql.ColumnElement[bool]:
    # SQLite's LIKE does not tell upper from lower case.
    return sql.func.substr(column, 1, len(prefix)) == prefix
