"""A followed folder of tests: what draws its pictures, and what its index holds."""

from __future__ import annotations

import os
from pathlib import Path

from hasse.index.segments.change import Change
from hasse.index.store import Index
from tests.service.collection import picture

# What an image is known by: its file name, its paths below the folder, and its captions.
State = dict[int, tuple[str, list[str], list[str]]]


def remember(index: Index, folder: Path) -> None:
    """Let an index follow a folder."""
    row = index.locations.folder_row(folder.resolve(), folder.stat().st_dev)
    index.change(Change(folders=[row]))


def draw(path: Path, seed: int) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    picture(seed).save(path)


def state(index: Index, root: Path) -> State:
    images: State = {}
    for id_, image in index.catalog.described_images(list(index.catalog.sha256s())).items():
        paths = [file.path for file in image.paths]
        assert image.row.path in paths
        below = [os.path.relpath(index.locations.absolute(path), root) for path in paths]
        images[id_] = (image.row.file_name, below, [caption.text for caption in image.captions])
    return images
