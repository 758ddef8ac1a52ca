from __future__ import annotations

import errno
import os
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from hasse.index.store import Index
from hasse.lab.checkpoints import learned_model
from hasse.lab.checkpoints.learned_model import order_embedding_of
from hasse.lab.features.extraction import extract
from hasse.lab.features.source import with_features
from hasse.models.checkpoints import checkpoint
from hasse.models.datasets import Caption, Dataset, DatasetError, Image
from hasse.models.images import decoding, inspection
from hasse.models.images.codecs import DecodedPicture
from hasse.service.writing import image_source, indexing
from hasse.service.writing.image_source import ImageSource
from hasse.service.writing.indexing import ReencodeResult
from tests.service.collection import png
from tests.tiny import tiny_checkpoint


def pictures(folder: Path, *numbers: int) -> Dataset:
    """Describe pictures that are there, or are drawn now, with a caption each."""
    images = []
    for at, number in enumerate(numbers, start=1):
        path = folder / f"{number}.png"
        path.write_bytes(png(number))
        images.append(Image(at, path.name, path, captions=(Caption(at, at, f"a dog {number}"),)))
    return Dataset("some", tuple(images))


def test_index_of_nothing_that_can_be_read_says_where_to_look(tmp_path: Path) -> None:
    loaded = learned_model.load(tiny_checkpoint(tmp_path / "model"))
    gone = Dataset("gone", (Image(1, "1.png", tmp_path / "1.png"),))
    with pytest.raises(DatasetError, match=r"check the paths in its dataset\.json"):
        indexing.build(gone, loaded, tmp_path / "index", ImageSource())
    there, features = pictures(tmp_path, 2), tmp_path / "features"
    extract(there, order_embedding_of(loaded).images.backbone, loaded.model.preprocessing, features)
    other = Dataset("other", (replace(there.images[0], id=2),))
    with pytest.raises(DatasetError, match="run 'hasse lab features' on this dataset"):
        indexing.build(other, loaded, tmp_path / "index", with_features(ImageSource(), features))


def test_last_picture_that_is_damaged_is_left_out_with_its_captions(tmp_path: Path) -> None:
    loaded = checkpoint.load(tiny_checkpoint(tmp_path / "model"))
    mine = pictures(tmp_path, 1, 2, 3)
    mine.images[-1].path.write_bytes(png(3)[:900])
    with indexing.build(mine, loaded, tmp_path / "index", ImageSource()) as index:
        assert set(index.catalog.images([1, 2, 3])) == {1, 2}
        assert set(index.catalog.captions([1, 2, 3])) == {1, 2}


def test_pictures_beside_an_index_are_known_where_both_have_moved(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    here, there = tmp_path / "here", tmp_path / "there"
    here.mkdir()
    (tmp_path / "9.png").write_bytes(png(9))
    away = Image(3, "9.png", tmp_path / "9.png")  # beside neither, it stays where it is
    mine = pictures(here, 1, 2)
    loaded = checkpoint.load(tiny_checkpoint(tmp_path / "model"))
    every = replace(mine, images=(*mine.images, away))
    monkeypatch.chdir(here)
    indexing.build(every, loaded, Path("index"), ImageSource()).close()
    here.rename(there)
    with Index.open(there / "index") as index:
        paths = {there / "1.png", there / "2.png", tmp_path / "9.png"}
        known = {index.locations.absolute(row.path) for row in index.catalog.all_paths()}
        assert known == {str(path) for path in paths}


def test_picture_that_is_gone_once_it_was_read_is_indexed_all_the_same(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    loaded, mine = checkpoint.load(tiny_checkpoint(tmp_path / "model")), pictures(tmp_path, 1, 2)
    decode = decoding.decode

    def removing(path: Path, *how: Any) -> DecodedPicture:
        found = decode(path, *how)
        if path == mine.images[0].path:
            path.unlink()
        return found

    monkeypatch.setattr(image_source, "decode", removing)
    with indexing.build(mine, loaded, tmp_path / "index", ImageSource()) as index:
        rows = index.catalog.images([1, 2])
    assert [bool(rows[at].sha256) for at in (1, 2)] == [False, True]


def test_too_many_open_files_stop_the_build_instead_of_leaving_out_a_checksum(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refused(path: Path) -> None:
        raise OSError(errno.EMFILE, os.strerror(errno.EMFILE), str(path))

    loaded, mine = checkpoint.load(tiny_checkpoint(tmp_path / "model")), pictures(tmp_path, 1, 2)
    with monkeypatch.context() as patch:
        patch.setattr(inspection, "open_regular", refused)
        with pytest.raises(OSError, match="Too many open files"):
            indexing.build(mine, loaded, tmp_path / "index", ImageSource())
    with indexing.build(mine, loaded, tmp_path / "index", ImageSource()) as index:
        assert all(row.sha256 for row in index.catalog.images([1, 2]).values())


def test_index_remembers_its_model_by_a_path_that_holds_anywhere(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    tiny_checkpoint(tmp_path / "model")
    monkeypatch.chdir(tmp_path)
    remembered = indexing.identity_of(checkpoint.load(Path("model"))).checkpoint
    assert remembered == str(tmp_path / "model")


def test_reencoded_index_keeps_its_rows_and_has_the_points_of_the_new_model(
    tmp_path: Path,
) -> None:
    old = checkpoint.load(tiny_checkpoint(tmp_path / "old"))
    new = checkpoint.load(tiny_checkpoint(tmp_path / "new", seed=1))
    mine = pictures(tmp_path, 1, 2, 3)
    with indexing.build(mine, old, tmp_path / "index", ImageSource()) as index:
        before = index.catalog.all_rows()
    done = indexing.reencode(tmp_path / "index", new, ImageSource())
    assert done == ReencodeResult(images=3, left_out=0, generation=2)
    with Index.open(tmp_path / "index", new.fingerprint) as index:
        assert index.catalog.all_rows() == before
        (point,) = new.model.encode_captions(["a dog 2"])
        assert index.points("caption", [2])[2].tolist() == point.tolist()
    assert indexing.reencode(tmp_path / "index", new, ImageSource()) is None


def test_reencoding_removes_an_image_whose_picture_is_missing_and_says_so(tmp_path: Path) -> None:
    old = checkpoint.load(tiny_checkpoint(tmp_path / "old"))
    new = checkpoint.load(tiny_checkpoint(tmp_path / "new", seed=1))
    mine = pictures(tmp_path, 1, 2, 3)
    indexing.build(mine, old, tmp_path / "index", ImageSource()).close()
    mine.images[1].path.unlink()
    lines: list[str] = []
    done = indexing.reencode(tmp_path / "index", new, ImageSource(skipped=lines.append))
    assert done == ReencodeResult(images=2, left_out=1, generation=2)
    assert len(lines) == 1
    assert lines[0].startswith("image 2 (2.png): ")
    with Index.open(tmp_path / "index") as index:
        assert (
            set(index.catalog.images([1, 2, 3])) == set(index.catalog.captions([1, 2, 3])) == {1, 3}
        )


def test_reencoding_removes_nothing_where_a_whole_folder_is_missing(tmp_path: Path) -> None:
    old = checkpoint.load(tiny_checkpoint(tmp_path / "old"))
    new = checkpoint.load(tiny_checkpoint(tmp_path / "new", seed=1))
    for name in ("disk", "here"):
        (tmp_path / name).mkdir()
    away, here = pictures(tmp_path / "disk", 1, 2), pictures(tmp_path / "here", 3)
    both = [*away.images, replace(here.images[0], id=3, captions=())]
    every = Dataset("both", tuple(both))
    indexing.build(every, old, tmp_path / "index", ImageSource()).close()
    (tmp_path / "disk").rename(tmp_path / "unplugged")
    with pytest.raises(DatasetError, match=r"disk is not there, with 2 pictures .*connect"):
        indexing.reencode(tmp_path / "index", new, ImageSource())
    with Index.open(tmp_path / "index", old.fingerprint) as index:
        assert index.info().images == 3
    done = indexing.reencode(tmp_path / "index", new, ImageSource(), leave_out_missing=True)
    assert done == ReencodeResult(images=1, left_out=2, generation=2)


def test_interrupted_reencoding_encodes_only_what_is_missing(tmp_path: Path) -> None:
    old = checkpoint.load(tiny_checkpoint(tmp_path / "old"))
    new = checkpoint.load(tiny_checkpoint(tmp_path / "new", seed=1))
    mine = pictures(tmp_path, 1, 2, 3, 4)
    indexing.build(mine, old, tmp_path / "index", ImageSource()).close()
    source = ImageSource(batch_size=1, block_seconds=0.0)

    def interrupt(done: int, _total: int) -> None:
        if done == 4:  # two images, each with its caption
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        indexing.reencode(tmp_path / "index", new, source, interrupt)
    told: list[int] = []
    indexing.reencode(tmp_path / "index", new, source, lambda done, total: told.append(done))
    assert told[:2] == [4, 6]
