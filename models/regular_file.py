"""Opens regular files without blocking. Standard library only."""

from __future__ import annotations

import errno
import os
import stat
from io import BufferedReader
from pathlib import Path

# Errors of the system, not of the file: out of file descriptors or memory, or a network disk is not
# reachable. An unreadable sector is damage of the file.
_SYSTEM_ERRORS = frozenset(
    {
        *(errno.EMFILE, errno.ENFILE, errno.ENOMEM),
        *(errno.ENOTCONN, errno.ESTALE, errno.ETIMEDOUT, errno.EHOSTDOWN),
    }
)


class NotRegularFile(OSError):
    """A folder, a pipe, a socket or a device, which might block or never end."""


def open_regular(path: Path) -> BufferedReader:
    """Open a regular file, or a link to one, to read its bytes.

    Raises:
        NotRegularFile: it is not a regular file.
        OSError: there is no such file, or it cannot be opened.
    """
    descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC)
    if stat.S_ISREG(os.fstat(descriptor).st_mode):
        return os.fdopen(descriptor, "rb")
    os.close(descriptor)
    raise NotRegularFile(errno.EINVAL, "not a file", str(path))


def is_system_error(error: BaseException) -> bool:
    """Return whether an error of reading a file is the system's, not the file's."""
    return isinstance(error, OSError) and error.errno in _SYSTEM_ERRORS


def raise_system_error(error: Exception) -> None:
    """Raise an error of reading a file again if it is the system's, not the file's."""
    if is_system_error(error):
        raise error
