"""Only regular files are opened, and nothing waits for another process."""

from __future__ import annotations

import errno
import os
import socket
from pathlib import Path

import pytest

from hasse.models.regular_file import NotRegularFile, open_regular, raise_system_error


def test_open_regular_reads_a_file_and_a_link_to_one(tmp_path: Path) -> None:
    (tmp_path / "a").write_bytes(b"content")
    (tmp_path / "link").symlink_to("a")
    for name in ("a", "link"):
        with open_regular(tmp_path / name) as file:
            assert file.read() == b"content"


def test_open_regular_refuses_all_other_kinds_without_waiting(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "zero").symlink_to("/dev/zero")
    for name in ("pipe", "zero", "."):
        with pytest.raises(NotRegularFile):
            open_regular(tmp_path / name)
    with socket.socket(socket.AF_UNIX) as listening:
        listening.bind(str(tmp_path / "socket"))
        with pytest.raises(OSError, match="socket"):
            open_regular(tmp_path / "socket")
    with pytest.raises(FileNotFoundError):
        open_regular(tmp_path / "nothing")


def test_raise_system_error_raises_only_errors_of_the_system() -> None:
    with pytest.raises(OSError, match="many"):
        raise_system_error(OSError(errno.EMFILE, "too many open files"))
    raise_system_error(OSError(errno.EIO, "a broken sector"))
    raise_system_error(ValueError())
