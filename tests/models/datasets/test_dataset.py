"""The one shape of a collection, and its file."""

from __future__ import annotations

import json
import shutil
from dataclasses import replace
from pathlib import Path

import pytest

from hasse.models.datasets import Caption, Dataset, DatasetError, Image, load, save


def example(folder: Path) -> Dataset:
    meaning = {"is": "dog"}
    return Dataset(
        "pets",
        (
            Image(
                7, "dog.jpg", folder / "x/dog.jpg", "train", 8, 6,
                (Caption(70, 7, "Ein Hund läuft 🐕"), Caption(3, 7, "An animal.", meaning)),
                meaning,
            ),
            Image(2, "cat.jpg", Path("/elsewhere/cat.jpg"), "val"),
        ),
    )  # fmt: skip


def test_dataset_comes_back_from_its_file_unchanged(tmp_path: Path) -> None:
    dataset = example(tmp_path)
    assert load(save(dataset, tmp_path)) == load(tmp_path) == dataset
    assert [path.name for path in tmp_path.iterdir()] == ["dataset.json"]


def test_dataset_that_is_not_written_whole_leaves_the_one_before(tmp_path: Path) -> None:
    dataset = example(tmp_path)
    save(dataset, tmp_path)
    broken = replace(dataset.images[0], meaning={"is": object()})
    with pytest.raises(TypeError):
        save(replace(dataset, images=(*dataset.images, broken)), tmp_path)
    assert load(tmp_path) == dataset


def test_its_folder_can_be_moved(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    save(example(tmp_path / "new" / "here"), Path("new/here"))
    shutil.move(tmp_path / "new" / "here", tmp_path / "there")
    assert load(tmp_path / "there") == example(tmp_path / "there")


def test_pictures_are_found_from_any_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    save(example(tmp_path), tmp_path)
    monkeypatch.chdir(tmp_path)
    assert load(Path()) == example(tmp_path)


def test_splits_are_counted_and_taken(tmp_path: Path) -> None:
    dataset = example(tmp_path)
    assert dataset.splits() == {"train": 1, "val": 1}
    assert [image.id for image in dataset.split("val").images] == [2]
    with pytest.raises(
        DatasetError, match=r"no images in the split 'test' \(train: 1, val: 1\): name"
    ):
        dataset.split("test")
    without = replace(dataset, images=tuple(replace(one, split="") for one in dataset.images))
    some = replace(dataset, images=(*without.images, *dataset.images))
    assert [one.has_splits() for one in (dataset, without, some)] == [True, False, True]
    with pytest.raises(DatasetError, match=r"in the split 'test' \(no split, named '': 2\)"):
        without.split("test")
    assert without.split("") == without
    with pytest.raises(DatasetError, match=r"'' .*: name one that it has$"):
        dataset.split("")


def test_image_keeps_its_first_captions(tmp_path: Path) -> None:
    dataset = example(tmp_path)
    assert [caption.id for caption in dataset.first_captions(1).captions] == [70]
    assert len(dataset.first_captions(1)) == 2
    assert dataset.first_captions(2) == dataset


def test_what_is_no_dataset_is_refused_with_a_remedy(tmp_path: Path) -> None:
    with pytest.raises(DatasetError, match="make one with 'hasse lab data import"):
        load(tmp_path)
    for content in (
        "{",
        "{}",
        "[]",
        '{"info": {"description": 1}, "images": [{}], "annotations": []}',
    ):
        (tmp_path / "dataset.json").write_text(content)
        with pytest.raises(DatasetError, match="import it again"):
            load(tmp_path)


@pytest.mark.parametrize(
    ("part", "at", "name", "value", "said"),
    [
        ("images", 0, "split", None, "None is not text"),
        ("images", 1, "file_name", 7, "7 is not text"),
        ("images", 0, "path", ["a"], r"\['a'\] is not text"),
        ("annotations", 1, "caption", {}, "{} is not text"),
        ("annotations", 0, "caption", "half of \ud83d", "surrogates not allowed"),
    ],
)
def test_what_was_written_by_hand_and_is_no_text_is_named(
    part: str, at: int, name: str, value: object, said: str, tmp_path: Path
) -> None:
    path = save(example(tmp_path), tmp_path)
    document = json.loads(path.read_text())
    document[part][at][name] = value
    path.write_text(json.dumps(document))
    with pytest.raises(DatasetError, match=rf"not a dataset of ours \(.*{said}"):
        load(tmp_path)
