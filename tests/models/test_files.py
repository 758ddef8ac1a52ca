"""A file that cannot be written whole is not there; a folder has one writer at a time."""

from __future__ import annotations

import errno
import os
import resource
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
import torch

from models import files
from models.files import FolderTakenError, alone_in, write_weights


@contextmanager
def files_of_at_most(number: int) -> Iterator[None]:
    """Let no file grow beyond so many bytes: to a writer the same as a full disk."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (number, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))


@contextmanager
def room_for(number: int) -> Iterator[None]:
    """Let so many files be written whole, and no more: the disk is full."""
    names = iter(range(number))

    def put(partial: Path, path: Path) -> None:
        if next(names, None) is None:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), str(path))
        put_in_place(partial, path)

    put_in_place = files.put_in_place
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(files, "put_in_place", put)
        yield


def test_weights_without_room_are_the_systems_error_and_leave_what_was_there(
    tmp_path: Path,
) -> None:
    path = tmp_path / "model.safetensors"
    write_weights(path, {"weight": torch.zeros(8)})
    before = path.read_bytes()
    with files_of_at_most(4096), pytest.raises(OSError, match="large") as caught:
        write_weights(path, {"weight": torch.zeros(1 << 20)})
    assert caught.value.errno == errno.EFBIG
    assert caught.value.filename == str(path)
    assert [each.name for each in tmp_path.iterdir()] == [path.name]
    assert path.read_bytes() == before


def test_a_folder_is_one_writers_until_it_ends_however_it_ends(tmp_path: Path) -> None:
    folder = tmp_path / "new" / "folder"

    def interrupted() -> None:
        with alone_in(folder), alone_in(tmp_path / "another"):
            with pytest.raises(FolderTakenError, match="another process"), alone_in(folder):
                raise AssertionError("two are in it")
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        interrupted()
    with alone_in(folder):
        assert list(folder.iterdir()) == [], "the lock leaves no file behind"
