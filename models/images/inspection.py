"""Facts that an index stores about a new picture, read once while it is decoded."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

from hasse.models.images.codecs import DecodedPicture
from hasse.models.images.decoding import date_taken, read_metadata
from hasse.models.images.metadata import PictureMetadata
from hasse.models.images.perceptual_hash import perceptual_hash, thumbnail_of
from hasse.models.images.preprocessing import Pixels, Preprocessing
from hasse.models.images.sidecars import sidecars_of
from hasse.models.regular_file import open_regular, raise_system_error


class PictureFacts(NamedTuple):
    """Facts that an index stores about a picture, besides its point.

    `inspect` fills in the fields, for an upload, a file in a folder, or a picture of a dataset.

    Attributes:
        sha256: of the file's bytes; "" if they are not read, or missing.
        suffix: of a file in this format, such as ".jpg".
        width, height: as displayed, before any reduction; None if no picture is read.
        taken: when it was taken, as in the catalog's `ImageRow`.
        metadata: texts that people wrote into it, and into its sidecars.
        hash: the perceptual hash, in hexadecimal; None if no picture is read.
    """

    sha256: str
    suffix: str
    width: int | None
    height: int | None
    taken: int | None
    metadata: PictureMetadata = PictureMetadata()
    hash: str | None = None


@dataclass(frozen=True, slots=True, eq=False)
class InspectedPicture:
    """The facts of a picture, and its pixels for a model: (crops, 3, H, W)."""

    facts: PictureFacts
    pixels: Pixels


def inspect(
    source: Path | bytes, decoded: DecodedPicture, preprocessing: Preprocessing
) -> InspectedPicture:
    """Inspect a picture, from its bytes and the pixels decoded from them.

    Raises:
        OSError: the system is out of file descriptors or memory, or cannot reach the disk.
    """
    facts = PictureFacts(
        _sha256(source),
        decoded.format.suffix,
        *decoded.size,
        date_taken(source),
        read_metadata(source, sidecars_of(source) if isinstance(source, Path) else ()),
        perceptual_hash(thumbnail_of(decoded.image)).hex(),
    )
    return InspectedPicture(facts, preprocessing.apply(decoded.image))


def _sha256(source: Path | bytes) -> str:
    if isinstance(source, bytes):
        return hashlib.sha256(source).hexdigest()
    try:
        with open_regular(source) as file:
            return hashlib.file_digest(file, "sha256").hexdigest()
    except OSError as error:  # removed after decoding
        raise_system_error(error)
        return ""
