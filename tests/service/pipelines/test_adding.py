from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path

import pytest

from index.errors import BadRowsError
from index.store import Index
from models.checkpoints import checkpoint
from models.datasets import Dataset, Image
from models.model import OrderEmbedding, Points
from service.pipelines import adding
from service.pipelines.adding import Added, Known
from service.pipelines.dataset_encoding import ImageSource
from tests.service.collection import make_collection
from tests.service.pipelines.test_indexing import pictures

Encoded = Iterator[tuple[list[Image], Points]]


def test_pictures_that_others_add_meanwhile_are_kept_and_none_is_added_twice(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = make_collection(tmp_path)
    loaded = checkpoint.load(tmp_path / "model")
    source = ImageSource(batch_size=2, block_seconds=0.0)
    with Index.open(folder) as one, Index.open(folder) as other:
        before = one.info().images
        others = pictures(tmp_path, 43, 44, 45, 50, 51)

        def interfere(done: int, total: int) -> None:
            if done == 2:
                assert adding.add(other, others, loaded, source) == Added(5, known=0)

        # In twos, of one of which nothing is left.
        mine = pictures(tmp_path, *range(40, 48))
        assert adding.add(one, mine, loaded, source, interfere) == Added(5, known=3)
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
        assert adding.add(index, mine, loaded, ImageSource(), known=told) == Added(1, known=1)
        assert adding.add(index, mine, loaded, ImageSource(), known=told) == Added(1, known=1)
        assert Known.of(index).paths == known.paths | {str(image.path) for image in mine.images}


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
        assert adding.add(index, some, loaded, ImageSource()) == Added(2, known=0)
        assert adding.add(index, mine, loaded, ImageSource()) == Added(1, known=2)
    assert encoded == [["40.png", "41.png"], ["42.png"]]


def test_a_row_that_no_index_takes_is_told_and_not_tried_for_ever(tmp_path: Path) -> None:
    folder, mine = make_collection(tmp_path), pictures(tmp_path, 40)
    broken = Dataset("some", (replace(mine.images[0], split="\ud800"),))
    with Index.open(folder) as index, pytest.raises(BadRowsError):
        adding.add(index, broken, checkpoint.load(tmp_path / "model"), ImageSource())


def test_blocks_take_ids_one_after_the_other(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder, mine = make_collection(tmp_path), pictures(tmp_path, 40, 41, 42)
    with Index.open(folder) as index:
        before = index.catalog.largest_ids()
        loaded = checkpoint.load(tmp_path / "model")
        adding.add(index, mine, loaded, ImageSource(batch_size=1, block_seconds=0.0))
        images = index.images(range(before["image"] + 1, before["image"] + 4))
        captions = index.captions(range(before["caption"] + 1, before["caption"] + 4))
        assert index.generation == 4, "each block is searchable when it is done"
    assert [row.file_name for row in images.values()] == ["40.png", "41.png", "42.png"]
    assert [row.image_id for row in captions.values()] == list(images)
