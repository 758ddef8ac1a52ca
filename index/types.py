"""The kinds and modes of a search, and the rows of the catalog."""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum
from typing import Literal, NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

from hasse.index.text.sources import TextSource
from hasse.models.score import MORE_GENERAL, Score

Kind: TypeAlias = Literal["image", "caption"]
Mode: TypeAlias = Literal["certified", "exact", "fast"]

# How an image compares with a similar one: see `hasse.index.search.similar`.
Relation: TypeAlias = Literal["alike", "more_specific", "more_general"]

KINDS: tuple[Kind, ...] = ("image", "caption")
MODES: tuple[Mode, ...] = ("certified", "exact", "fast")

Points: TypeAlias = NDArray[np.float32]
Ids: TypeAlias = NDArray[np.int64]


class Orientation(IntEnum):
    """Which of a stored point s and a query q is the more general one; kernels branch on it."""

    QUERY_GENERAL = 0  # || max(0, q - s) ||^2: what the query has and the row lacks
    STORED_GENERAL = 1  # || max(0, s - q) ||^2: what the row has and the query lacks
    COSINE = 2  # 1 - <s, q>: neither


def orientation_of(kind: Kind, score: Score) -> Orientation:
    """Return how violations of stored rows of `kind` are computed."""
    general = MORE_GENERAL[score]
    if general is None:
        return Orientation.COSINE
    return Orientation.STORED_GENERAL if general == kind else Orientation.QUERY_GENERAL


@dataclass(frozen=True, slots=True)
class ModelIdentity:
    """Which model made the points of an index.

    `fingerprint` is the SHA-256 of the checkpoint's files; `checkpoint` is where it was found
    when the index was made, for messages and as the default of a later `serve`.
    """

    name: str
    fingerprint: str
    dimension: int
    score: Score
    checkpoint: str = ""


# An answer brings dozens of these rows: as tuples they are made three times as fast.
class ImageRow(NamedTuple):
    """One image of the catalog. `path` is one of its `PathRow`s.

    `sha256` is that of the picture's bytes; "" where they were not read. `added` is when the image
    became searchable, in milliseconds since 1970; the catalog sets it. `taken` is when the picture
    was taken, by the clock on the wall there: that clock's milliseconds since 1970. An image has
    one or more paths; `path` is the one that is read.
    """

    id: int
    file_name: str
    path: str
    width: int | None = None
    height: int | None = None
    split: str = ""
    sha256: str = ""
    added: int | None = None
    taken: int | None = None


class PathRow(NamedTuple):
    """One file that holds the picture of an image; its copies have a row each.

    `path` begins with the name of a folder, see `FolderRow`, or is relative to the folder of the
    index. `folder` is the name of the followed folder that holds the file, or "". `size`,
    `modified` and `changed` (`st_ctime`), in nanoseconds, are those of the file when its bytes were
    read; None if it must be read again. `captions` are the texts that came with the file, a JSON
    object of lists: below "" those of the text file beside it, below other names those of tables.
    """

    image_id: int
    path: str
    folder: str = ""
    size: int | None = None
    modified: int | None = None
    changed: int | None = None
    captions: str = "{}"


class FolderRow(NamedTuple):
    """A followed folder, a disk mounted within one, or a folder whose pictures were added singly.

    `name` is the path where the folder was first: the catalog's paths of its files begin with it,
    wherever the folder is now. `path` is where it was last, and `beside` is the same relative to
    the folder of the index, so that both can move apart or together. `device` is None for a folder
    that is not followed. `exclude` and `follow_links` are the options it was last followed with.
    """

    name: str
    path: str
    beside: str
    device: int | None = None
    exclude: tuple[str, ...] = ()
    follow_links: bool = False


class UnreadableFile(NamedTuple):
    """A file that could not be decoded, with its size and times, by a version of this program."""

    path: str
    size: int
    modified: int
    changed: int
    version: str


class VersionRow(NamedTuple):
    """What tells whether images show the same picture.

    `hash` is perceptual, in hexadecimal, or "". `picture` is the smallest id of the images that
    were found to show the same picture.
    """

    image_id: int
    hash: str
    picture: int


class CaptionRow(NamedTuple):
    """One sentence about one image of the catalog.

    `written_by` names the model that wrote it, and its captioner; None for people.
    """

    id: int
    image_id: int
    text: str
    written_by: str | None = None


class Metadata(NamedTuple):
    """What a picture's file and its sidecar say about it.

    `texts` are pairs of one of `METADATA_SOURCES` and a text. `camera` and `rating` (-1 for a
    rejected picture, else 0 to 5) are for filters. Latitude and longitude are in degrees.
    `sidecars` tells which state of the sidecars was read; "" where they were not looked for.
    """

    texts: tuple[tuple[TextSource, str], ...] = ()
    camera: str = ""
    rating: int | None = None
    latitude: float | None = None
    longitude: float | None = None
    sidecars: str = ""


class SourcedText(NamedTuple):
    """A text of an image, and where it stands."""

    source: TextSource
    text: str


class DescribedImage(NamedTuple):
    """An image in the catalog at one instant: its row, its captions and its files."""

    row: ImageRow
    captions: list[CaptionRow]
    paths: list[PathRow]


class NamedImage(NamedTuple):
    """An image in an answer: its name, its size in pixels, its captions and its files.

    `captions` are pairs of a text and `written_by`, as in `CaptionRow`; `paths` are pairs of a path
    and the followed folder it lies in, as in `PathRow`.
    """

    id: int
    file_name: str
    width: int | None
    height: int | None
    captions: list[list[str | None]]
    paths: list[list[str]]


class FoundCaption(NamedTuple):
    """A caption in an answer: its text, and the files of its image."""

    id: int
    image_id: int
    text: str
    written_by: str | None
    file_name: str
    paths: list[list[str]]
