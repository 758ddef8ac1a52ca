"""Flickr8k's token and split files, their known faults included."""

from __future__ import annotations

from pathlib import Path

import pytest

from hasse.lab.datasets import flickr8k
from hasse.models.datasets import DatasetError
from tests.models.datasets.conftest import Draw


def write(path: Path, *lines: str) -> Path:
    path.write_text("\n".join(lines) + "\n")
    return path


def test_images_are_numbered_in_token_order_and_captions_by_line(draw: Draw) -> None:
    root = draw("b.jpg", "a.jpg", "c.jpg")
    tokens = write(
        root / "Flickr8k.token.txt",
        "b.jpg#0\tA child , in a dress .",
        "b.jpg#1\tA girl # 2 .",
        "a.jpg#0\tA dog .",
        "c.jpg#0\tA cat .",
    )
    splits = {
        "train": write(root / "train.txt", "a.jpg", ""),
        "val": write(root / "dev.txt", "b.jpg"),
    }
    dataset, skipped = flickr8k.read(tokens, root, splits)
    assert skipped.total == 0
    assert [(i.id, i.file_name, i.split) for i in dataset.images] == [
        (1, "b.jpg", "val"),
        (2, "a.jpg", "train"),
        (3, "c.jpg", ""),
    ]
    assert [(c.id, c.image_id, c.text) for c in dataset.captions] == [
        (1, 1, "A child , in a dress ."),
        (2, 1, "A girl # 2 ."),
        (3, 2, "A dog ."),
        (4, 3, "A cat ."),
    ]


def test_ids_do_not_depend_on_which_pictures_are_there(draw: Draw) -> None:
    root = draw("b.jpg")
    tokens = write(root / "t.txt", "a.jpg#0\tA dog .", "b.jpg#0\tA cat .")
    dataset, skipped = flickr8k.read(tokens, root, {})
    assert [(i.id, i.captions[0].id) for i in dataset.images] == [(2, 2)]
    assert skipped.lines == ["image 1 (a.jpg): file not found: skipped"]


def test_picture_that_flickr8k_misnames_is_found(draw: Draw) -> None:
    names = ["2258277193_586949ec62.jpg", "IMG.JPG"]
    root = draw(*names)
    tokens = write(root / "t.txt", *(f"{name}.1#0\tPeople waiting ." for name in names))
    dataset, skipped = flickr8k.read(tokens, root, {})
    assert skipped.total == 0
    assert [image.file_name for image in dataset.images] == names


def test_collection_is_named_by_its_folder_or_by_the_one_that_has_its_images(draw: Draw) -> None:
    root = draw("flickr30k/Images/a.jpg", "Flicker8k_Dataset/a.jpg")
    tokens = write(root / "t.txt", "a.jpg#0\tA dog .")
    for folder, name in (("flickr30k/Images", "flickr30k"), ("Flicker8k_Dataset",) * 2):
        assert flickr8k.read(tokens, root / folder, {})[0].name == name


def test_caption_may_hold_what_unicode_calls_the_end_of_a_line(draw: Draw) -> None:
    root = draw("a.jpg")
    tokens = write(root / "t.txt", "a.jpg#0\tA dog\u2028runs .", "a.jpg#1\tIt runs .")
    dataset, skipped = flickr8k.read(tokens, root, {})
    assert [(c.id, c.text) for c in dataset.captions] == [(1, "A dog runs ."), (2, "It runs .")]
    assert skipped.total == 0


def test_broken_lines_and_stray_names_cost_themselves(draw: Draw) -> None:
    root = draw("a.jpg")
    tokens = write(root / "t.txt", "a.jpg#0\tA dog .\r", "a.jpg A dog .", "a.jpg#1\t ", "", "#0\tx")
    splits = {
        "train": write(root / "train.txt", "a.jpg", "b.jpg"),
        "test": write(root / "test.txt", "a.jpg"),
    }
    dataset, skipped = flickr8k.read(tokens, root, splits)
    assert [c.text for c in dataset.captions] == ["A dog ."]
    assert dataset.splits() == {"train": 1}
    assert skipped.lines == [
        "t.txt, line 2: line that is not a caption: skipped",
        "t.txt, line 5: line that is not a caption: skipped",
        "train.txt, line 2 (b.jpg): image that has no captions in the token file: skipped",
        "test.txt, line 1 (a.jpg): image of two splits: stays in train",
        "t.txt, line 3: empty caption: skipped",
    ]


@pytest.mark.parametrize("content", ["", "not a token file\n"])
def test_file_without_captions_is_refused(content: str, tmp_path: Path) -> None:
    (tmp_path / "t.txt").write_text(content)
    with pytest.raises(DatasetError, match=r"t\.txt (is empty|has no line like)"):
        flickr8k.read(tmp_path / "t.txt", tmp_path, {})
