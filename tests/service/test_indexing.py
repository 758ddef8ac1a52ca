from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from index.store import Index
from models import checkpoint
from models.datasets import Caption, Dataset, DatasetError, Image
from models.features import extract
from service import indexing
from service.dataset_encoding import ImageSource
from service.indexing import Added, Known
from tests.service.collection import make_collection, png
from tests.tiny import tiny_checkpoint


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
        others = pictures(tmp_path, 43, 44, 50, 51)

        def interfere(done: int, total: int) -> None:
            if done == 2:
                assert indexing.add(other, others, loaded, source) == Added(4, known=0)

        mine = pictures(tmp_path, *range(40, 46))
        assert indexing.add(one, mine, loaded, source, interfere) == Added(4, known=2)
        assert one.info().images == before + 8
        largest = one.catalog.largest_ids()["image"]
        rows = one.images(range(largest - 7, largest + 1))
        captions = one.captions_of(list(rows))
    names = [row.file_name for row in rows.values()]
    assert sorted(names) == [f"{at}.png" for at in (40, 41, 42, 43, 44, 45, 50, 51)]
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
