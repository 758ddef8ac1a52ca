"""Opens regular files without waiting. Standard library only."""

from __future__ import annotations

import errno
import os
import stat
from io import BufferedReader
from pathlib import Path

# Errors of the system, which say nothing about the file: no more open files or memory, or a
# disk on another machine that is gone. A sector that cannot be read is damage.
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
        NotRegularFile: it is no regular file.
        OSError: there is no such file, or it cannot be opened.
    """
    descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC)
    if stat.S_ISREG(os.fstat(descriptor).st_mode):
        return os.fdopen(descriptor, "rb")
    os.close(descriptor)
    raise NotRegularFile(errno.EINVAL, "not a file", str(path))


def is_system_error(error: BaseException) -> bool:
    """Tell whether an error of reading a file is the system's, not the file's."""
    return isinstance(error, OSError) and error.errno in _SYSTEM_ERRORS


def raise_system_error(error: Exception) -> None:
    """Raise an error of reading a file again if it is the system's, not the file's."""
    if is_system_error(error):
        raise error
