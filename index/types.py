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

# How similar images compare with the query image: see `hasse.index.search.similar`.
Relation: TypeAlias = Literal["alike", "more_specific", "more_general"]

KINDS: tuple[Kind, ...] = ("image", "caption")
MODES: tuple[Mode, ...] = ("certified", "exact", "fast")

Points: TypeAlias = NDArray[np.float32]
Ids: TypeAlias = NDArray[np.int64]


class Orientation(IntEnum):
    """Whether a query q or a stored point s is the more general one; kernels branch on it."""

    QUERY_GENERAL = 0  # || max(0, q - s) ||^2: coordinates that the query has and the row lacks
    STORED_GENERAL = 1  # || max(0, s - q) ||^2: coordinates that the row has and the query lacks
    COSINE = 2  # 1 - <s, q>: neither


def orientation_of(kind: Kind, score: Score) -> Orientation:
    """Return the orientation of a search for stored rows of `kind`."""
    general = MORE_GENERAL[score]
    if general is None:
        return Orientation.COSINE
    return Orientation.STORED_GENERAL if general == kind else Orientation.QUERY_GENERAL


@dataclass(frozen=True, slots=True)
class ModelIdentity:
    """Identity of the model that made the points of an index.

    `fingerprint` is the SHA-256 of the checkpoint's files. `checkpoint` is its path when the index
    was made, for messages and as the default of a later `serve`.
    """

    name: str
    fingerprint: str
    dimension: int
    score: Score
    checkpoint: str = ""


# Tuples, not dataclasses: an answer has dozens of these rows, and tuples are made in a third of the
# time.
class ImageRow(NamedTuple):
    """One image of the catalog.

    `path` is the one of its `PathRow`s that is read. `sha256` is the hash of the picture's bytes;
    "" if they were not read. `added` is the time when the image became searchable, in milliseconds
    since 1970; the catalog sets it. `taken` is the local time when the picture was taken, in
    milliseconds since 1970 as if it were UTC. Whole seconds are a date in the picture, others that
    of its file.
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
    """One file with the picture of an image; each copy has its own row.

    `path` begins with the name of a folder, see `FolderRow`, or is relative to the folder of the
    index. `folder` is the name of the followed folder that holds the file, or "". `size`,
    `modified` and `changed` (`st_ctime`, in nanoseconds) are those of the file when its bytes were
    read; None if it must be read again. `captions` is a JSON object of lists of captions by source:
    "" for the text file beside the picture, else the name of a table.
    """

    image_id: int
    path: str
    folder: str = ""
    size: int | None = None
    modified: int | None = None
    changed: int | None = None
    captions: str = "{}"


class FolderRow(NamedTuple):
    """A followed folder, a disk mounted within one, or a folder of pictures that were added singly.

    `name` is the first path of the folder. Paths of its files in the catalog begin with it, also
    after the folder has moved. `path` is its latest path, and `beside` is that path relative to the
    folder of the index, so that both can move apart or together. `device` is None for a folder that
    is not followed. `exclude` and `follow_links` are the latest options of following it.
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
    """The perceptual hash of an image, and the picture that it shows.

    `hash` is in hexadecimal, or "". `picture` is the smallest id of the images that show the same
    picture.
    """

    image_id: int
    hash: str
    picture: int


class CaptionRow(NamedTuple):
    """One sentence about one image of the catalog.

    `written_by` names the model and the captioner that generated it; None for a human caption.
    """

    id: int
    image_id: int
    text: str
    written_by: str | None = None


class Metadata(NamedTuple):
    """Metadata from a picture's file and its sidecars.

    `texts` are pairs of one of `METADATA_SOURCES` and a text. `camera` and `rating` (-1 for a
    rejected picture, else 0 to 5) are for filters. Latitude and longitude are in degrees.
    `sidecars` identifies the state of the sidecars that was read; "" if none were searched for.
    """

    texts: tuple[tuple[TextSource, str], ...] = ()
    camera: str = ""
    rating: int | None = None
    latitude: float | None = None
    longitude: float | None = None
    sidecars: str = ""


class DescribedImage(NamedTuple):
    """An image of the catalog with its captions and files, read at one instant."""

    row: ImageRow
    captions: list[CaptionRow]
    paths: list[PathRow]


class ImageHitRow(NamedTuple):
    """An image in an answer: its name, its size in pixels, its date, its captions and its files.

    `taken` is that of `ImageRow`. `captions` are pairs of a text and `written_by`, as in
    `CaptionRow`; `paths` are pairs of a path and the followed folder it lies in, as in `PathRow`.
    """

    id: int
    file_name: str
    width: int | None
    height: int | None
    taken: int | None
    captions: list[list[str | None]]
    paths: list[list[str]]


class CaptionHitRow(NamedTuple):
    """A caption in an answer: its text, and the files of its image."""

    id: int
    image_id: int
    text: str
    written_by: str | None
    file_name: str
    paths: list[list[str]]
