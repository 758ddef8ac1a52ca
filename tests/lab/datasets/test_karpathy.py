"""Karpathy's split files of MS-COCO, Flickr8k and Flickr30k."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from hasse.lab.datasets import karpathy
from hasse.models.datasets import DatasetError, load, save
from tests.models.datasets.conftest import Draw


def split_file(path: Path, images: list[Any], dataset: str = "coco") -> Path:
    path.write_text(json.dumps({"images": images, "dataset": dataset}))
    return path


def row(number: int, split: str, sentences: list[tuple[int, str]], **fields: Any) -> dict[str, Any]:
    return {
        "filename": f"{number}.jpg",
        "imgid": number,
        "split": split,
        "sentids": [s for s, _ in sentences],
        "sentences": [
            {"tokens": text.split(), "raw": text, "imgid": number, "sentid": s}
            for s, text in sentences
        ],
    } | fields


def test_coco_rows_keep_coco_ids_and_restval_is_train(draw: Draw) -> None:
    root = draw("val2014/0.jpg", "0.jpg", "train2014/1.jpg", "2.jpg")
    path = split_file(
        root / "dataset_coco.json",
        [
            row(
                0, "test", [(770337, "A man."), (9, "A moped.")], cocoid=391895, filepath="val2014"
            ),
            row(1, "train", [(3, "A dog.")], cocoid=5, filepath="train2014"),
            row(2, "restval", [(4, "A cat.")], cocoid=6, filepath="val2014"),
        ],
    )
    dataset, skipped = karpathy.read(path, root)
    assert skipped.total == 0
    assert dataset.name == "coco"
    assert [(i.id, i.split) for i in dataset.images] == [
        (391895, "test"),
        (5, "train"),
        (6, "train"),
    ]
    assert [(c.id, c.image_id, c.text) for c in dataset.images[0].captions] == [
        (770337, 391895, "A man."),
        (9, 391895, "A moped."),
    ]
    found = [image.path.relative_to(root).as_posix() for image in dataset.images]
    assert found == ["val2014/0.jpg", "train2014/1.jpg", "2.jpg"]


def test_flickr_rows_have_no_coco_id_and_no_folder(draw: Draw) -> None:
    root = draw("0.jpg", "1.jpg")
    path = split_file(
        root / "dataset_flickr8k.json",
        [row(0, "train", [(0, "A child.")]), row(1, "val", [(5, "A dog.")])],
        "flickr8k",
    )
    dataset, skipped = karpathy.read(path, root)
    assert skipped.total == 0
    assert [(i.id, i.split) for i in dataset.images] == [(0, "train"), (1, "val")]


def test_row_may_be_of_no_split_and_have_no_sentences(draw: Draw) -> None:
    root = draw("0.jpg")
    path = split_file(root / "mine.json", [{"filename": "0.jpg", "imgid": 0}], "")
    dataset, skipped = karpathy.read(path, root)
    assert dataset.splits() == {"": 1}
    assert dataset.name == "mine", "as its file"
    assert skipped.total == 0


@pytest.mark.parametrize("outside", ["/", "../other"])
def test_folder_outside_that_of_the_pictures_is_not_looked_into(draw: Draw, outside: str) -> None:
    """The file comes from a stranger, and pictures that are found are served."""
    root = draw("other/0.jpg", "pictures/1.jpg")
    filepath = str(root / "other") if outside == "/" else outside
    rows = [row(0, "train", [(0, "Theirs.")], filepath=filepath), row(1, "train", [(1, "Ours.")])]
    dataset, skipped = karpathy.read(split_file(root / "x.json", rows), root / "pictures")
    assert [image.id for image in dataset.images] == [1]
    assert skipped.by_reason == {"file not found": 1}


def test_bad_rows_cost_themselves(draw: Draw) -> None:
    root = draw("0.jpg", "2.jpg", "4.jpg")
    path = split_file(
        root / "x.json",
        [
            row(0, "train", [(0, "Fine."), (0, "again"), (1, "")]),
            row(1, "train", [(2, "missing file")]),
            row(2, "train", []) | {"sentences": "none", "filepath": "../.."},
            row(2, "train", [(3, "of another picture")], filename="0.jpg"),
            row(4, "train", []) | {"sentences": [{"sentid": 7}]},
            row(3, "train", []) | {"sentences": [3], "filepath": 7},
            "row",
        ],
    )
    dataset, skipped = karpathy.read(path, root)
    assert [i.id for i in dataset.images] == [0, 2, 4]
    assert [c.text for c in dataset.captions] == ["Fine."]
    assert skipped.by_reason == {
        "id of an earlier caption": 1,
        "empty caption": 1,
        "id of an earlier image": 1,
        "caption that is not text": 1,
        "sentences that are not a list": 1,
        "row that is not an object": 2,
        "file not found": 2,
        "no captions": 2,
    }
    assert "image 2: sentences that are not a list: no captions" in skipped.lines


def test_another_file_is_refused(tmp_path: Path) -> None:
    (tmp_path / "x.json").write_text('{"annotations": []}')
    with pytest.raises(DatasetError, match=r"no list 'images': give one of Karpathy's files"):
        karpathy.read(tmp_path / "x.json", tmp_path)


def test_name_with_broken_characters_can_be_saved(draw: Draw, tmp_path: Path) -> None:
    root = draw("1.jpg")
    path = split_file(root / "s.json", [row(1, "train", [(1, "a dog")])], "\ud800")
    dataset, _ = karpathy.read(path, root)
    assert load(save(dataset, tmp_path / "out").parent).name == "?"
