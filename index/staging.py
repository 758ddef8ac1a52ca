"""Blocks that an unfinished build has encoded. They survive kills, and no search uses them.

    INDEX/staging/build.json               which build it is: its model and its source
    INDEX/staging/image-000000004096.block
    INDEX/staging/caption-000000002048.block

A block is named by the number of rows before it. It is a file that is whole or absent: a line with
the CRC-32 of the rest, a line with the catalog rows in JSON, and the points as float32. So a
kill loses one block at most. Where a file is not as it was written, the build starts anew.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any
from zlib import crc32

import numpy as np
from numpy.typing import ArrayLike

from hasse.index import durable
from hasse.index.catalog.validation import check_texts, checked, checked_ids, first_duplicate
from hasse.index.errors import BadRowsError, UnfinishedIndexError
from hasse.index.types import KINDS, CaptionRow, Ids, ImageRow, Kind, ModelIdentity, Points
from hasse.models.regular_file import raise_system_error

STAGING = "staging"
_BUILD = "build.json"


class Staging:
    """The blocks of one unfinished build; the index's lock must be held."""

    def __init__(self, folder: Path, model: ModelIdentity, source: str) -> None:
        """Go on where the same build (model and `source`) stopped, or start anew."""
        self.folder = folder / STAGING
        self.model = model
        self._ids: dict[Kind, list[Ids]] = {kind: [] for kind in KINDS}
        self._captioned: list[Ids] = []  # the image of each caption
        build = json.dumps({"model": asdict(model), "source": source}).encode()
        if not self._goes_on(build):
            self.discard()
            self.folder.mkdir(parents=True)
            durable.write_file(self.folder / _BUILD, build)

    def done(self, kind: Kind) -> int:
        """Return how many rows of `kind` are finished, in the order they were given."""
        return sum(map(len, self._ids[kind]))

    def ids(self, kind: Kind) -> Ids:
        """Return the ids of the finished rows (R,), in the order they were given."""
        return np.concatenate([np.empty(0, np.int64), *self._ids[kind]])

    def add(
        self, kind: Kind, rows: Sequence[ImageRow] | Sequence[CaptionRow], points: ArrayLike
    ) -> None:
        """Add a block of rows with their points (R, N); durable on return.

        Raises:
            BadPointsError, BadRowsError: a row cannot be stored; the message names it.
        """
        check_texts(rows)
        ids = checked_ids(kind, [row.id for row in rows])
        single = checked(kind, ids, points, self.model.dimension, self.model.score)
        content = json.dumps(rows).encode("ascii") + b"\n" + single.tobytes()
        path = self.folder / f"{kind}-{self.done(kind):012}.block"
        durable.write_file(path, b"%d\n" % crc32(content) + content)
        self._note(kind, rows)

    def blocks(self, kind: Kind) -> Iterator[tuple[list[list[Any]], Points]]:
        """Yield the rows and points (R, N) of each block in turn.

        Raises:
            ValueError: a block is missing or was changed.
        """
        done = 0
        for path in sorted(self.folder.glob(f"{kind}-*.block")):
            checksum, _, content = path.read_bytes().partition(b"\n")
            if path.stem != f"{kind}-{done:012}" or checksum != b"%d" % crc32(content):
                raise ValueError(f"{path} is not the block that was written")
            rows, _, points = content.partition(b"\n")
            values = json.loads(rows)
            done += len(values)
            yield values, np.frombuffer(points, np.float32).reshape(-1, self.model.dimension)

    def images(self) -> Iterator[ImageRow]:
        """Yield the catalog rows of all images."""
        return (ImageRow._make(values) for rows, _ in self.blocks("image") for values in rows)

    def captions(self) -> Iterator[CaptionRow]:
        """Yield the catalog rows of all captions."""
        return (CaptionRow._make(values) for rows, _ in self.blocks("caption") for values in rows)

    def check(self) -> None:
        """Check that all rows fit together; where they do not, the next build starts anew.

        Raises:
            BadRowsError: an id occurs twice, or a caption has no image.
        """
        try:
            self._check()
        except BadRowsError:
            self.discard()
            raise

    def discard(self) -> None:
        """Remove all blocks: the next build starts anew."""
        durable.remove(self.folder)
        self._ids, self._captioned = {kind: [] for kind in KINDS}, []

    def _goes_on(self, build: bytes) -> bool:
        try:
            if (self.folder / _BUILD).read_bytes() != build:
                return False
            for path in self.folder.glob("*.partial"):
                durable.remove(path)
            for kind in KINDS:
                for values, _ in self.blocks(kind):
                    made = ImageRow if kind == "image" else CaptionRow
                    self._note(kind, [made._make(row) for row in values])
        except (OSError, ValueError, TypeError) as error:
            raise_system_error(error)  # the blocks are whole
            return False
        return True

    def _note(self, kind: Kind, rows: Sequence[ImageRow | CaptionRow]) -> None:
        self._ids[kind].append(np.array([row.id for row in rows], np.int64))
        images = [row.image_id for row in rows if isinstance(row, CaptionRow)]
        self._captioned.append(np.array(images, np.int64))

    def _check(self) -> None:
        for kind in KINDS:
            if (twice := first_duplicate(self.ids(kind))) is not None:
                raise BadRowsError(f"{kind} {twice} occurs twice: give every {kind} its own id")
        captioned = np.concatenate([np.empty(0, np.int64), *self._captioned])
        lost = np.flatnonzero(~np.isin(captioned, self.ids("image")))
        if len(lost):
            raise BadRowsError(
                f"caption {self.ids('caption')[lost[0]]} is of image {captioned[lost[0]]}, which "
                "is not among the images: add the image or leave the caption out"
            )


def refuse_unfinished(folder: Path, generation: int) -> None:
    """Refuse an index whose build has not ended.

    Raises:
        UnfinishedIndexError: there is no generation to search yet.
    """
    if generation == 0 and (folder / STAGING).is_dir():
        raise UnfinishedIndexError(
            f"the build of {folder} has not ended, so there is nothing to search: wait for it, or, "
            "if it was stopped, run the same 'hasse lab index build' again: it goes on from there"
        )


def staged_model(folder: Path) -> str | None:
    """Return the fingerprint of the model whose points an index has staged, if it has any."""
    try:
        fingerprint = json.loads((folder / STAGING / _BUILD).read_bytes())["model"]["fingerprint"]
    except (OSError, ValueError, KeyError, TypeError):
        return None
    return str(fingerprint)
