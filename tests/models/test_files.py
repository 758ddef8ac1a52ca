"""A file that cannot be written whole is not there; a folder has one writer at a time."""

from __future__ import annotations

import errno
import os
import resource
import stat
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import numpy as np
import pytest
from safetensors import SafetensorError
from safetensors.numpy import load_file

from hasse.lab.encoders.weights import read_weights
from hasse.models import files
from hasse.models.checkpoints import checkpoint
from hasse.models.files import FolderLockedError, lock_folder, write_atomically
from hasse.models.tensor_files import system_errors, write_weights
from tests.tiny import tiny_checkpoint


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
        publish_file(partial, path)

    publish_file = files.publish_file
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(files, "publish_file", put)
        yield


def test_write_weights_on_a_full_disk_raises_os_error_and_leaves_the_old_file(
    tmp_path: Path,
) -> None:
    path = tmp_path / "model.safetensors"
    write_weights(path, {"weight": np.zeros(8, np.float32)})
    before = path.read_bytes()
    with files_of_at_most(4096), pytest.raises(OSError, match="large") as caught:
        write_weights(path, {"weight": np.zeros(1 << 20, np.float32)})
    assert caught.value.errno == errno.EFBIG
    assert caught.value.filename == str(path)
    assert [each.name for each in tmp_path.iterdir()] == [path.name]
    assert path.read_bytes() == before


@contextmanager
def open_files_left(number: int) -> Iterator[None]:
    """Let this process open so many files, and no more."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (128, hard))
    taken: list[int] = []
    try:
        with suppress(OSError):
            while True:
                taken.append(os.open(os.devnull, os.O_RDONLY))
        for _ in range(number):
            os.close(taken.pop())
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
        for descriptor in taken:
            os.close(descriptor)


@pytest.mark.parametrize("left", [0, 1])
def test_weights_without_open_files_left_are_not_called_missing_or_damaged(
    left: int, tmp_path: Path
) -> None:
    tiny_checkpoint(tmp_path / "model")
    read_weights(tmp_path / "model" / "model.safetensors")  # it imports modules
    for read in (
        lambda: read_weights(tmp_path / "model" / "model.safetensors"),
        lambda: checkpoint.load(tmp_path / "model"),
    ):
        numbers: list[int | None] = []
        with open_files_left(left):
            try:
                read()
            except OSError as error:
                numbers.append(error.errno)
        assert numbers == [errno.EMFILE] or (left and not numbers), "one file may be enough"


def test_weights_that_are_not_there_or_cut_short_are_no_error_of_the_system(tmp_path: Path) -> None:
    path = tmp_path / "model.safetensors"
    with pytest.raises(FileNotFoundError), system_errors(path):
        load_file(path)
    write_weights(path, {"weight": np.zeros(1 << 20, np.float32)})
    path.write_bytes(path.read_bytes()[:-1])
    with pytest.raises(SafetensorError), system_errors(path):
        load_file(path)


def test_write_weights_of_any_strides_is_readable_for_all(tmp_path: Path) -> None:
    path = tmp_path / "model.safetensors"
    weights = np.arange(6, dtype=np.float32).reshape(2, 3).T
    write_weights(path, {"weight": weights})
    np.testing.assert_array_equal(load_file(path)["weight"], weights)
    assert stat.S_IMODE(path.stat().st_mode) == 0o644


def test_write_atomically_syncs_the_content_before_the_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    reached: list[tuple[bool, list[str]]] = []

    def fsync(descriptor: int) -> None:
        is_folder = stat.S_ISDIR(os.fstat(descriptor).st_mode)
        reached.append((is_folder, [path.name for path in tmp_path.iterdir()]))

    monkeypatch.setattr(os, "fsync", fsync)
    write_atomically(tmp_path / "a", b"whole")
    assert reached == [(False, ["a.partial"]), (True, ["a"])]


def test_lock_folder_holds_until_the_process_ends(tmp_path: Path) -> None:
    folder = tmp_path / "new" / "folder"

    def interrupted() -> None:
        with lock_folder(folder), lock_folder(tmp_path / "another"):
            with pytest.raises(FolderLockedError, match="another process"), lock_folder(folder):
                raise AssertionError("two are in it")
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        interrupted()
    with lock_folder(folder):
        assert list(folder.iterdir()) == [], "the lock leaves no file behind"
