"""Makes previews of stored pictures ahead of time, at the lowest priority."""

from __future__ import annotations

import time
from contextlib import suppress

from hasse.index.kernels.threads import step_back
from hasse.index.store import Index
from hasse.index.types import ImageRow
from hasse.models.errors import HasseError
from hasse.models.images.decoding import decode
from hasse.models.images.limits import PictureError
from hasse.service.core.pictures import version_of
from hasse.service.core.previews import (
    FOLDER,
    PREVIEW_SIZES,
    SHORTEST,
    PreviewCache,
    PreviewSize,
    encode_preview,
    preview_size,
)
from hasse.service.errors import ServiceError
from hasse.service.settings import Settings

# A large one takes ten times the disk, and is looked at far less often.
_SIZE: PreviewSize = "medium"
_LOOK_SECONDS = 10.0  # between two looks for new pictures
_LOWEST = 19  # priority of a thread: others of the machine get 98 % of a processor they share


def keep_previews(index: Index, settings: Settings) -> None:
    """Make the previews that are missing, and those of new pictures, until the process ends."""
    step_back(_LOWEST)
    done, looked_at = -1, set[tuple[int, str]]()
    while True:
        with suppress(HasseError):  # the catalog does not answer now
            generation = index.catalog.generation()
            if generation != done:
                make_previews(index, settings, looked_at)
                done = generation
        time.sleep(_LOOK_SECONDS)


def make_previews(index: Index, settings: Settings, looked_at: set[tuple[int, str]]) -> int:
    """Make the previews that are missing, the last picture first, and return how many.

    None is made for which another one would have to go. Pictures that were `looked_at`, by id and
    SHA-256, are passed over, and others join them: each look at a file costs its disk.
    """
    cache = PreviewCache(index.folder / FOLDER, settings.preview_cache_bytes)
    made = 0
    rows, _ = index.catalog.all_rows()
    for row in reversed(rows):
        if (row.id, row.sha256) in looked_at:
            continue
        if cache.is_full():
            break
        with suppress(ServiceError, PictureError, OSError):
            made += _make(index, settings, cache, row)
            looked_at.add((row.id, row.sha256))
    return made


def _make(index: Index, settings: Settings, cache: PreviewCache, row: ImageRow) -> bool:
    path = index.path_of(row)
    version = version_of(path, PREVIEW_SIZES.index(_SIZE))
    if cache.has(version) or index.locations.leads_out(str(path)):
        return False
    found = decode(path, settings.picture_limits, SHORTEST[_SIZE])
    cache.put(version, encode_preview(found.image, *preview_size(*found.size, _SIZE)))
    return True
