"""Makes previews of stored pictures ahead of time, at the lowest priority."""

from __future__ import annotations

import time
from contextlib import suppress

from hasse.index.kernels.threads import lower_priority
from hasse.index.store import Index
from hasse.index.types import ImageRow
from hasse.models.errors import HasseError
from hasse.models.images.decoding import decode
from hasse.models.images.limits import PictureError
from hasse.service.core.pictures import preview_version
from hasse.service.core.previews import (
    FOLDER,
    SHORTEST,
    PreviewCache,
    PreviewSize,
    reduce_picture,
)
from hasse.service.errors import ServiceError
from hasse.service.settings import Settings

# A large preview takes ten times the disk space, and is viewed far less often.
_SIZE: PreviewSize = "medium"
_POLL_SECONDS = 10.0  # between two checks for new pictures
_LOWEST = 19  # priority: other threads of the machine get 98 % of a processor they share with it


def maintain_previews(index: Index, settings: Settings) -> None:
    """Make missing previews, also of new pictures, until the process ends."""
    lower_priority(_LOWEST)
    done_generation, tried = -1, set[tuple[int, str]]()
    while True:
        with suppress(HasseError):  # the catalog cannot be reached for a time
            generation = index.catalog.generation()
            if generation != done_generation:
                make_previews(index, settings, tried)
                done_generation = generation
        time.sleep(_POLL_SECONDS)


def make_previews(index: Index, settings: Settings, tried: set[tuple[int, str]]) -> int:
    """Make missing previews, the last picture first; return the number made.

    Stops when the cache is full, so that no preview replaces another. Pictures in `tried`, by id
    and SHA-256, are skipped, because each access to a file costs disk time. Others are added to it.
    """
    cache = PreviewCache(index.folder / FOLDER, settings.preview_cache_bytes)
    count = 0
    rows, _ = index.catalog.all_rows()
    for row in reversed(rows):
        if (row.id, row.sha256) in tried:
            continue
        if cache.is_full():
            break
        with suppress(ServiceError, PictureError, OSError):
            count += _make(index, settings, cache, row)
            tried.add((row.id, row.sha256))
    return count


def _make(index: Index, settings: Settings, cache: PreviewCache, row: ImageRow) -> bool:
    path = index.path_of(row)
    version = preview_version(row.id, path, _SIZE)
    if cache.has(version) or index.locations.leads_out(str(path)):
        return False
    picture = decode(path, settings.picture_limits, SHORTEST[_SIZE])
    cache.put(version, reduce_picture(picture, _SIZE, settings.thumbnail_size))
    return True
