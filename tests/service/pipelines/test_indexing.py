from __future__ import annotations

import errno
import os
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path

import pytest

from index import durable
from index.errors import BadRowsError
from index.store import Index
from models.checkpoints import checkpoint
from models.datasets import Caption, Dataset, DatasetError, Image
from models.images.features import extract
from models.model import OrderEmbedding, Points
from service.pipelines import indexing
from service.pipelines.dataset_encoding import ImageSource
from service.pipelines.indexing import Added, Known
from tests.service.collection import make_collection, png
from tests.tiny import tiny_checkpoint

Encoded = Iterator[tuple[list[Image], Points]]


def pictures(folder: Path, *numbers: int) -> Dataset:
    """Describe pictures that are there, or are drawn now, with a caption each."""
    images = []
    for at, number in enumerate(numbers, start=1):
        path = folder / f"{number}.png"
        path.write_bytes(png(number))
        images.append(Image(at, path.name, path, captions=(Caption(at, at, f"a dog {number}"),)))
    return Dataset("some", tuple(images))


def test_pictures_that_others_add_meanwhile_are_kept_and_none_is_added_twice(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(indexing, "SECONDS_PER_BLOCK", 0.0)
    folder = make_collection(tmp_path)
    loaded = checkpoint.load(tmp_path / "model")
    source = ImageSource(batch_size=2)
    with Index.open(folder) as one, Index.open(folder) as other:
        before = one.info().images
        others = pictures(tmp_path, 43, 44, 45, 50, 51)

        def interfere(done: int, total: int) -> None:
            if done == 2:
                assert indexing.add(other, others, loaded, source) == Added(5, known=0)

        # In twos, of one of which nothing is left.
        mine = pictures(tmp_path, *range(40, 48))
        assert indexing.add(one, mine, loaded, source, interfere) == Added(5, known=3)
        assert one.info().images == before + 10
        largest = one.catalog.largest_ids()["image"]
        rows = one.images(range(largest - 9, largest + 1))
        captions = one.captions_of(list(rows))
    names = [row.file_name for row in rows.values()]
    assert sorted(names) == [f"{at}.png" for at in (*range(40, 48), 50, 51)]
    for row in rows.values():
        assert [one.text for one in captions[row.id]] == [f"a dog {Path(row.file_name).stem}"]


def test_what_is_known_of_an_index_is_read_again_only_when_the_index_has_changed(
    tmp_path: Path,
) -> None:
    folder = make_collection(tmp_path)
    loaded = checkpoint.load(tmp_path / "model")
    with Index.open(folder) as index:
        mine = pictures(tmp_path, 40, 41)
        known = Known.of(index)
        told = replace(known, paths=known.paths | {str(tmp_path / "40.png")})
        assert indexing.add(index, mine, loaded, ImageSource(), known=told) == Added(1, known=1)
        assert indexing.add(index, mine, loaded, ImageSource(), known=told) == Added(1, known=1)
        assert Known.of(index).paths == known.paths | {str(image.path) for image in mine.images}


def test_an_index_of_nothing_that_can_be_read_says_where_to_look(tmp_path: Path) -> None:
    loaded = checkpoint.load(tiny_checkpoint(tmp_path / "model"))
    gone = Dataset("gone", (Image(1, "1.png", tmp_path / "1.png"),))
    with pytest.raises(DatasetError, match=r"check the paths in its dataset\.json"):
        indexing.build(gone, loaded, tmp_path / "index", ImageSource())
    there, features = pictures(tmp_path, 2), tmp_path / "features"
    extract(there, loaded.model.images.backbone, loaded.model.preprocessing, features)
    other = Dataset("other", (replace(there.images[0], id=2),))
    with pytest.raises(DatasetError, match="run 'hasse features' on this dataset"):
        indexing.build(other, loaded, tmp_path / "index", ImageSource(features))


def test_what_is_in_an_index_is_not_encoded_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder, mine = make_collection(tmp_path), pictures(tmp_path, 40, 41, 42)
    loaded = checkpoint.load(tmp_path / "model")
    encoded: list[list[str]] = []
    original = ImageSource.points

    def noting(self: ImageSource, model: OrderEmbedding, images: Sequence[Image]) -> Encoded:
        encoded.append([image.file_name for image in images])
        return original(self, model, images)

    monkeypatch.setattr(ImageSource, "points", noting)
    with Index.open(folder) as index:
        some = replace(mine, images=mine.images[:2])
        assert indexing.add(index, some, loaded, ImageSource()) == Added(2, known=0)
        assert indexing.add(index, mine, loaded, ImageSource()) == Added(1, known=2)
    assert encoded == [["40.png", "41.png"], ["42.png"]]


def test_a_row_that_no_index_takes_is_told_and_not_tried_for_ever(tmp_path: Path) -> None:
    folder, mine = make_collection(tmp_path), pictures(tmp_path, 40)
    broken = Dataset("some", (replace(mine.images[0], split="\ud800"),))
    with Index.open(folder) as index, pytest.raises(BadRowsError):
        indexing.add(index, broken, checkpoint.load(tmp_path / "model"), ImageSource())


def test_a_last_picture_that_is_damaged_is_left_out_with_its_captions(tmp_path: Path) -> None:
    loaded = checkpoint.load(tiny_checkpoint(tmp_path / "model"))
    mine = pictures(tmp_path, 1, 2, 3)
    mine.images[-1].path.write_bytes(png(3)[:900])
    with indexing.build(mine, loaded, tmp_path / "index", ImageSource()) as index:
        assert set(index.images([1, 2, 3])) == {1, 2}
        assert set(index.captions([1, 2, 3])) == {1, 2}


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
        assert Known.of(index).paths == {str(path) for path in paths}


def test_a_picture_that_is_gone_once_it_was_read_is_indexed_all_the_same(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    loaded, mine = checkpoint.load(tiny_checkpoint(tmp_path / "model")), pictures(tmp_path, 1, 2)
    original = ImageSource.points

    def removing(self: ImageSource, model: OrderEmbedding, images: Sequence[Image]) -> Encoded:
        for part, points in original(self, model, images):
            mine.images[0].path.unlink()
            yield part, points

    monkeypatch.setattr(ImageSource, "points", removing)
    with indexing.build(mine, loaded, tmp_path / "index", ImageSource()) as index:
        rows = index.images([1, 2])
    assert [bool(rows[at].sha256) for at in (1, 2)] == [False, True]


def test_a_picture_is_not_indexed_without_its_sum_because_too_many_files_are_open(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refused(path: Path) -> str:
        raise OSError(errno.EMFILE, os.strerror(errno.EMFILE), str(path))

    loaded, mine = checkpoint.load(tiny_checkpoint(tmp_path / "model")), pictures(tmp_path, 1, 2)
    with monkeypatch.context() as patch:
        patch.setattr(durable, "sha256", refused)
        with pytest.raises(OSError, match="Too many open files"):
            indexing.build(mine, loaded, tmp_path / "index", ImageSource())
    with indexing.build(mine, loaded, tmp_path / "index", ImageSource()) as index:
        assert all(row.sha256 for row in index.images([1, 2]).values())


def test_blocks_take_ids_one_after_the_other(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(indexing, "SECONDS_PER_BLOCK", 0.0)
    folder, mine = make_collection(tmp_path), pictures(tmp_path, 40, 41, 42)
    with Index.open(folder) as index:
        before = index.catalog.largest_ids()
        loaded = checkpoint.load(tmp_path / "model")
        indexing.add(index, mine, loaded, ImageSource(batch_size=1))
        images = index.images(range(before["image"] + 1, before["image"] + 4))
        captions = index.captions(range(before["caption"] + 1, before["caption"] + 4))
        assert index.generation == 4, "each block is searchable when it is done"
    assert [row.file_name for row in images.values()] == ["40.png", "41.png", "42.png"]
    assert [row.image_id for row in captions.values()] == list(images)


def test_an_index_remembers_its_model_by_a_path_that_holds_anywhere(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    tiny_checkpoint(tmp_path / "model")
    monkeypatch.chdir(tmp_path)
    remembered = indexing.identity_of(checkpoint.load(Path("model"))).checkpoint
    assert remembered == str(tmp_path / "model")
