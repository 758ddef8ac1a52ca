"""Errors of an index, one class for each kind; every message ends with the remedy."""

from __future__ import annotations

import errno
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from hasse.models.errors import HasseError

FULL = frozenset({errno.ENOSPC, errno.EDQUOT, errno.EFBIG})


class HasseIndexError(HasseError):
    """Base of all errors of an index: one sentence that names the file and the remedy."""


class MissingIndexError(HasseIndexError):
    """There is no index in that folder."""


class UnfinishedIndexError(MissingIndexError):
    """The index is being built, or its build was stopped: there is nothing to search yet."""


class NotAnIndexError(HasseIndexError):
    """A file or folder has the name of a part of an index, and is something else."""


class IndexExistsError(HasseIndexError):
    """The folder or the database holds an index already."""


class CatalogUnreachableError(HasseIndexError):
    """The database of the catalog does not answer, or cannot be opened."""


class FormatVersionError(HasseIndexError):
    """This version does not read the format of the index."""


class ModelMismatchError(HasseIndexError):
    """Another model made the index."""


class DamagedIndexError(HasseIndexError):
    """A file of the index is missing, truncated or changed, or disagrees with the catalog."""

    remedy = "restore it from a backup, or build the index again"


class ChecksumError(DamagedIndexError):
    """A file has the right size and wrong contents."""


class TruncatedFileError(DamagedIndexError):
    """A file is missing or has the wrong size."""


class BackupError(HasseIndexError):
    """A backup cannot be written there, or is damaged or cut short."""


class DiskFullError(HasseIndexError):
    """The disk has no room; the last generation is still searched."""


class NotLoadedError(HasseIndexError):
    """A change is durable, but this process could not load it; its searches do not see it yet."""


class IndexLockedError(HasseIndexError):
    """Another process is writing to the index."""


class ReadOnlyIndexError(HasseIndexError):
    """The folder of the index cannot be written."""


class BadPointsError(HasseIndexError):
    """Points that cannot be stored; the message names the row and the coordinate."""


class BadRowsError(HasseIndexError):
    """Rows that cannot be stored or removed: an id is duplicate or unknown, or lacks its image."""


class BadQueryError(HasseIndexError):
    """A query that cannot be answered: wrong dimension, not finite, k out of range."""


class BadShardsError(HasseIndexError):
    """The index cannot be split into that many shards."""


class ShardUnreachableError(HasseIndexError):
    """A machine that searches a part of the index does not answer."""


class MissingGpuExtraError(HasseIndexError):
    """A GPU is to search, and the packages of the extra `gpu` are not installed."""


@contextmanager
def disk_full_reported(folder: Path) -> Iterator[None]:
    """Turn a full disk into one sentence about `folder`.

    Raises:
        DiskFullError: the block met ENOSPC, EDQUOT or EFBIG.
    """
    try:
        yield
    except OSError as error:
        if error.errno in FULL:
            raise disk_full(folder) from error
        raise


def disk_full(place: object) -> DiskFullError:
    """Return the error for a full disk; `place` is a folder or the address of a database."""
    return DiskFullError(
        f"no room left on the disk of {place}: nothing was changed; free some space and repeat"
    )
