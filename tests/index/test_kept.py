from __future__ import annotations

import hashlib
import os
from pathlib import Path

import numpy as np

from index import kept
from index.store import Index
from index.terms import ImageRow
from tests.index.samples import model


def kept_image(index: Index, id_: int) -> ImageRow:
    """Keep a picture in an index and add its image."""
    picture = b"picture %d" % id_
    sha256 = hashlib.sha256(picture).hexdigest()
    row = ImageRow(
        id_, f"{id_}.jpg", kept.keep(index.folder, picture, sha256, ".jpg"), sha256=sha256
    )
    index.add([row], np.ones((1, 16)))
    return row


def age(path: Path) -> None:
    """Make a file old enough to be forgotten."""
    os.utime(path, (0, 0))


def test_what_others_put_beside_kept_pictures_is_never_swept(tmp_path: Path) -> None:
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
        left = tmp_path / kept.keep(tmp_path, b"ours", "ab" * 32, ".jpg")
        partial = left.with_name(left.name + ".partial")
        partial.write_bytes(b"ou")
        named = tmp_path / kept_image(index, 2).path
        for path in (left, partial, named):
            age(path)
        assert sorted(kept.sweep(tmp_path, index.catalog)) == [left, partial]
    assert all(path.is_file() for path in (*own, named))
    assert not left.exists()
