"""Everything an index stores about a new picture, read once while it is decoded."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

from hasse.models.images.codecs import Decoded
from hasse.models.images.decoding import read_metadata, taken_at
from hasse.models.images.metadata import PictureMetadata
from hasse.models.images.perceptual_hash import perceptual_hash, thumbnail_of
from hasse.models.images.preprocessing import Pixels, Preprocessing
from hasse.models.images.sidecars import sidecars_of
from hasse.models.regular_file import open_regular, raise_system_error


class PictureFacts(NamedTuple):
    """What an index remembers of a picture besides its point.

    A further fact about every new picture is a field here that `inspect` fills in, whether the
    picture was sent, lies in a folder or belongs to a dataset.

    Attributes:
        sha256: that of the file's bytes; "" where they were not read, or are gone.
        suffix: of a file in this format, such as ".jpg".
        width, height: as displayed, before any reduction; None where no picture was read.
        taken: when it was taken, as in the catalog's `ImageRow`.
        metadata: what people wrote into it, and into the sidecars beside a file.
        hash: the perceptual hash, in hexadecimal; None where no picture was read.
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
    """The facts of a picture, and its pixels as a model takes them: (crops, 3, H, W)."""

    facts: PictureFacts
    pixels: Pixels


def inspect(
    source: Path | bytes, decoded: Decoded, preprocessing: Preprocessing
) -> InspectedPicture:
    """Inspect a picture, from its bytes and the pixels decoded from them.

    Raises:
        OSError: the system has no more open files or memory to give, or cannot reach the disk.
    """
    facts = PictureFacts(
        _sha256(source),
        decoded.format.suffix,
        *decoded.size,
        taken_at(source),
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
    except OSError as error:  # it was removed since it was decoded
        raise_system_error(error)
        return ""
