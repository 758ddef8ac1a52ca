from __future__ import annotations

import errno
import hashlib
import os
from pathlib import Path

import numpy as np
import pytest

from hasse.index import durable
from hasse.index.errors import DiskFullError
from hasse.index.segments import stored_pictures
from hasse.index.store import Index
from hasse.index.types import ImageRow
from hasse.index.verify import verify
from tests.index.samples import model


def kept_image(index: Index, id_: int) -> ImageRow:
    """Keep a picture in an index and add its image."""
    picture = b"picture %d" % id_
    sha256 = hashlib.sha256(picture).hexdigest()
    row = ImageRow(
        id_,
        f"{id_}.jpg",
        stored_pictures.store(index.folder, picture, sha256, ".jpg"),
        sha256=sha256,
    )
    index.add([row], np.ones((1, 16)))
    return row


def age(path: Path) -> None:
    """Make a file old enough to be forgotten."""
    os.utime(path, (0, 0))


def test_files_of_others_beside_stored_pictures_are_never_swept(tmp_path: Path) -> None:
    own = [
        tmp_path / "pictures" / name
        for name in ("2020/beach.jpg", "2020/summer/dog.jpg", f"ab/{'cd' * 32}.jpg", "ab/notes")
    ]
    for path in own:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(b"theirs")
        age(path)
        age(path.parent)
    with Index.create(tmp_path, model(), threads=1) as index:
        index.add([ImageRow(1, "beach.jpg", "pictures/2020/beach.jpg")], np.ones((1, 16)))
        left = tmp_path / stored_pictures.store(tmp_path, b"ours", "ab" * 32, ".jpg")
        partial = left.with_name(left.name + ".partial")
        partial.write_bytes(b"ou")
        named = tmp_path / kept_image(index, 2).path
        for path in (left, partial, named):
            age(path)
        assert sorted(stored_pictures.sweep(tmp_path, index.catalog)) == [left, partial]
    assert all(path.is_file() for path in (*own, named))
    assert not left.exists()


def test_picture_that_is_removed_while_pictures_are_checked_is_no_finding(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    sha256 = durable.sha256
    with Index.create(tmp_path, model(), threads=1) as index:
        gone, lost, whole = (kept_image(index, id_) for id_ in (1, 2, 3))
        (tmp_path / lost.path).unlink()

        def overtaken(path: Path) -> str:
            if path == tmp_path / gone.path:
                index.remove([gone.id])
                path.unlink()
            return sha256(path)

        monkeypatch.setattr(durable, "sha256", overtaken)
        (finding,) = verify(tmp_path).findings
        assert finding.startswith(f"{tmp_path / lost.path} is missing")
        (tmp_path / whole.path).write_bytes(b"other")
        assert len(verify(tmp_path).findings) == 2


def test_picture_of_somebody_else_in_the_folder_of_pictures_is_not_checked(
    tmp_path: Path,
) -> None:
    with Index.create(tmp_path, model(), threads=1) as index:
        own = ImageRow(1, "beach.jpg", "pictures/2020/beach.jpg", sha256="ab" * 32)
        index.add([own], np.ones((1, 16)))
        assert not stored_pictures.is_stored(own)
        assert stored_pictures.is_stored(kept_image(index, 2))
        assert verify(tmp_path).ok


def test_picture_that_cannot_be_read_is_not_said_to_be_missing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def unreadable(_: Path) -> str:
        raise OSError(errno.EIO, "Input/output error")

    with Index.create(tmp_path, model(), threads=1) as index:
        kept_image(index, 1)
        monkeypatch.setattr(durable, "sha256", unreadable)
        with pytest.raises(OSError, match="Input/output error"):
            stored_pictures.faults(tmp_path, index.catalog)


def test_folders_of_a_picture_are_on_the_disk_with_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    synced: list[Path] = []
    monkeypatch.setattr(durable, "sync_folder", synced.append)
    for at in range(2):
        stored_pictures.store(tmp_path, b"picture", f"{at:064x}", ".jpg")
    pictures = tmp_path / stored_pictures.PICTURES
    assert synced == [tmp_path, pictures, pictures / "00", pictures / "00"]


def test_picture_without_room_on_the_disk_leaves_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(durable, "sync", full)
    with pytest.raises(DiskFullError, match=str(tmp_path)):
        stored_pictures.store(tmp_path, b"picture", "ab" * 32, ".jpg")
    assert not [path for path in tmp_path.rglob("*") if path.is_file()]
