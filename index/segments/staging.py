"""Encoded changes of an unfinished build: they survive kills, and no search uses them.

    INDEX/staging/build.json          the model and the source of the build
    INDEX/staging/000000000003.block  its fourth change

A block is written whole or not at all: a line with the CRC-32 of the rest, a line with the rows in
JSON, and the float32 points of images and then of captions. So a kill loses one block at most. If a
file was changed, the build starts again from the beginning.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import asdict
from pathlib import Path
from typing import Any
from zlib import crc32

import numpy as np

from hasse.index import durable
from hasse.index.catalog.validation import first_duplicate
from hasse.index.errors import BadRowsError, UnfinishedIndexError
from hasse.index.segments.change import Change
from hasse.index.types import (
    KINDS,
    CaptionRow,
    Ids,
    ImageRow,
    Kind,
    Metadata,
    ModelIdentity,
    VersionRow,
)
from hasse.models.regular_file import raise_system_error

STAGING = "staging"
_BUILD = "build.json"


class Staging:
    """The blocks of one unfinished build; the index's lock must be held."""

    def __init__(self, folder: Path, model: ModelIdentity, source: str) -> None:
        """Resume the same build (model and `source`), or discard another and start a new one."""
        self.folder = folder / STAGING
        self.model = model
        self._blocks = 0
        self._ids: dict[Kind, list[Ids]] = {kind: [] for kind in KINDS}
        self._caption_images: list[Ids] = []  # the image of each caption
        build = json.dumps({"model": asdict(model), "source": source}).encode()
        if not self._resume(build):
            self.discard()
            self.folder.mkdir(parents=True)
            durable.write_file(self.folder / _BUILD, build)

    @property
    def done(self) -> dict[Kind, Ids]:
        """The ids of the finished rows (R,), in the order of addition."""
        return {
            kind: np.concatenate([np.empty(0, np.int64), *ids]) for kind, ids in self._ids.items()
        }

    def add(self, change: Change) -> None:
        """Write the new rows of a change as one block; durable on return.

        Raises:
            BadPointsError, BadRowsError: a row cannot be stored; the message names it.
        """
        metadata = list(change.metadata.items())
        rows = json.dumps([change.images, change.captions, metadata, change.versions])
        content = rows.encode("ascii") + b"\n"
        for kind in KINDS:
            content += change.checked_additions(kind, self.model)[1].tobytes()
        path = self.folder / f"{self._blocks:012}.block"
        durable.write_file(path, b"%d\n" % crc32(content) + content)
        self._count_block(change)

    def changes(self) -> Iterator[Change]:
        """Yield the changes of all blocks.

        Raises:
            ValueError: a block is missing or was changed.
        """
        for at, path in enumerate(sorted(self.folder.glob("*.block"))):
            checksum, _, content = path.read_bytes().partition(b"\n")
            if path.stem != f"{at:012}" or checksum != b"%d" % crc32(content):
                raise ValueError(f"{path} is not the block that was written")
            text, _, rest = content.partition(b"\n")
            images, captions, metadata, versions = json.loads(text)
            points = np.frombuffer(rest, np.float32).reshape(-1, self.model.dimension)
            yield Change(
                [ImageRow._make(values) for values in images],
                points[: len(images)],
                [CaptionRow._make(values) for values in captions],
                points[len(images) :],
                metadata={id_: _metadata(values) for id_, values in metadata},
                versions=[VersionRow._make(values) for values in versions],
            )

    def check(self) -> None:
        """Check ids and references over all blocks; discard all blocks if one is wrong.

        Raises:
            BadRowsError: an id occurs twice, or a caption has no image.
        """
        try:
            self._check()
        except BadRowsError:
            self.discard()
            raise

    def discard(self) -> None:
        """Remove all blocks, so that the next build starts from the beginning."""
        durable.remove(self.folder)
        self._blocks, self._ids, self._caption_images = 0, {kind: [] for kind in KINDS}, []

    def _resume(self, build: bytes) -> bool:
        try:
            if (self.folder / _BUILD).read_bytes() != build:
                return False
            for path in self.folder.glob("*.partial"):
                durable.remove(path)
            for change in self.changes():
                self._count_block(change)
        except (OSError, ValueError, TypeError) as error:
            raise_system_error(error)  # such as too many open files: keep the blocks
            return False
        return True

    def _count_block(self, change: Change) -> None:
        self._blocks += 1
        self._ids["image"].append(np.array([row.id for row in change.images], np.int64))
        self._ids["caption"].append(np.array([row.id for row in change.captions], np.int64))
        self._caption_images.append(np.array([row.image_id for row in change.captions], np.int64))

    def _check(self) -> None:
        done = self.done
        for kind in KINDS:
            if (twice := first_duplicate(done[kind])) is not None:
                raise BadRowsError(f"{kind} {twice} occurs twice: give every {kind} its own id")
        image_ids = np.concatenate([np.empty(0, np.int64), *self._caption_images])
        orphans = np.flatnonzero(~np.isin(image_ids, done["image"]))
        if len(orphans):
            raise BadRowsError(
                f"caption {done['caption'][orphans[0]]} is of image {image_ids[orphans[0]]}, which "
                "is not among the images: add the image or leave the caption out"
            )


def _metadata(values: list[Any]) -> Metadata:
    texts, *facts = values
    return Metadata(tuple((source, text) for source, text in texts), *facts)


def refuse_unfinished(folder: Path, generation: int) -> None:
    """Refuse an index whose first build has not ended.

    Raises:
        UnfinishedIndexError: there is no generation to search yet.
    """
    if generation == 0 and (folder / STAGING).is_dir():
        raise UnfinishedIndexError(
            f"the build of {folder} has not ended, so there is nothing to search: wait for it, or, "
            "if it was stopped, run the same 'hasse lab index build' again: it goes on from there"
        )


def staged_model(folder: Path) -> str | None:
    """Return the fingerprint of the model of the staged points, or None if nothing is staged."""
    try:
        fingerprint = json.loads((folder / STAGING / _BUILD).read_bytes())["model"]["fingerprint"]
    except (OSError, ValueError, KeyError, TypeError):
        return None
    return str(fingerprint)
