"""A small library with pictures of its own, as uploads leave it, and what it answers."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from hasse.index.search.query import Query
from hasse.index.segments import stored_pictures
from hasse.index.segments.change import Change
from hasse.index.store import Index
from hasse.index.types import KINDS, FolderRow, ImageRow, PathRow
from tests.index.samples import captions, embeddings, small_index

POINTS = embeddings(np.random.default_rng(3), 64, 16)


def library(folder: Path) -> Path:
    """Make a library of 12 images, of which one lies in a folder, and 3 that were sent."""
    with small_index(folder) as index:
        place = str(folder.parent / "photos" / "2024")
        path = PathRow(1, f"{place}/1.jpg", place)
        row = index.catalog.images([1])[1]._replace(path=path.path)
        index.change(
            Change(
                rows=[row],
                paths={1: [path]},
                folders=[FolderRow(place, place, "../photos/2024", 7)],
            )
        )
        send(index, [50, 51, 52])
    return folder


def send(index: Index, ids: Sequence[int]) -> int:
    """Add images with pictures that the index stores, as an upload does; return the generation."""
    with index.writing(timeout=60) as writer:
        rows = []
        for id_ in ids:
            picture = f"picture {id_}".encode() * 100
            sha256 = hashlib.sha256(picture).hexdigest()
            path = stored_pictures.store(index.folder, picture, sha256, ".jpg")
            rows.append(ImageRow(id_, f"{id_}.jpg", path, 8, 8, "", sha256))
        points = POINTS[np.array(ids) % len(POINTS)]
        texts = captions([10_000 + id_ for id_ in ids], ids)
        return writer.change(Change(rows, points, texts, points))


def take_back(index: Index, id_: int) -> int:
    """Remove an image that was sent, with its picture, as the service does."""
    with index.writing(timeout=60) as writer:
        path = index.path_of(index.catalog.images([id_])[id_])
        generation = writer.change(Change(removed_by_name=[id_]))
        path.unlink()
        return generation


def answers(folder: Path) -> list[tuple[list[int], list[float]]]:
    """Return what a library answers to two searches of each kind."""
    with Index.open(folder, threads=1) as index:
        found = [index.search(Query(kind, 50), point) for kind in KINDS for point in POINTS[:2]]
        return [(answer.ids.tolist(), answer.violations.tolist()) for answer in found]
