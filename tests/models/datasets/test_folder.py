"""A plain folder of pictures, with captions beside them, in a table, or none."""

from __future__ import annotations

import errno
import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from hasse.models.datasets import DatasetError, folder
from tests.models.datasets.conftest import Draw


def test_pictures_of_all_folders_are_numbered_by_name_and_need_no_captions(draw: Draw) -> None:
    root = draw("b.JPG", "holiday/a.png", "holiday/z.webp", "a.gif", ".hidden/x.jpg", ".y.jpg")
    (root / "notes.pdf").touch()
    dataset, skipped = folder.read(root)
    assert skipped.total == 0
    assert [(i.id, i.file_name, i.split) for i in dataset.images] == [
        (1, "a.gif", ""),
        (2, "b.JPG", ""),
        (3, "holiday/a.png", ""),
        (4, "holiday/z.webp", ""),
    ]
    assert dataset.images[2].path == root / "holiday/a.png"
    assert (dataset.images[2].width, dataset.images[2].height) == (8, 6)


def test_captions_stand_beside_the_picture_one_on_a_line(draw: Draw) -> None:
    root = draw("x/dog.jpg", "cat.jpg", "sun.jpg")
    (root / "x/dog.txt").write_text("A dog runs.\n\nAn animal.\n")
    (root / "cat.txt").touch()
    dataset, skipped = folder.read(root)
    assert [[c.text for c in i.captions] for i in dataset.images] == [
        [],
        [],
        ["A dog runs.", "An animal."],
    ]
    assert [(c.id, c.image_id) for c in dataset.captions] == [(1, 3), (2, 3)]
    assert skipped.by_reason == {"captions that cannot be read": 1, "no captions": 2}
    assert skipped.lines[0].startswith("cat.txt: captions that cannot be read (")
    assert "cat.txt is empty" in skipped.lines[0]


ROWS = [
    {"file_name": "x/dog.jpg", "caption": "A dog, running.", "split": "train"},
    {"file_name": "./cat.jpg", "caption": 'A "cat".', "split": "dev"},
    {"file_name": "x\\dog.jpg", "caption": "An\u2028animal.", "split": "Training"},
]


@pytest.mark.parametrize("kind", ["csv", "TSV", "tsv", "JSONL", "jsonl", "ndjson"])
def test_table_gives_captions_and_splits(kind: str, draw: Draw) -> None:
    root = draw("x/dog.jpg", "cat.jpg", "sun.jpg")
    path = root / f"captions.{kind}"
    if kind.lower() in {"jsonl", "ndjson"}:
        path.write_text("\n".join(json.dumps(row, ensure_ascii=False) for row in ROWS))
    elif kind.lower() == "tsv":
        path.write_text(
            "\n".join("\t".join(r) for r in [list(ROWS[0]), *(list(r.values()) for r in ROWS)])
        )
    else:
        path.write_text(
            "\ufefffile_name,caption,split\n"
            'x/dog.jpg,"A dog, running.",train\n'
            ' ./cat.jpg,"A ""cat"".", dev\n'
            'x\\dog.jpg,"An\nanimal.",Training\n'
        )
    dataset, skipped = folder.read(root, path)
    assert [(i.file_name, i.split, [c.text for c in i.captions]) for i in dataset.images] == [
        ("cat.jpg", "val", ['A "cat".']),
        ("sun.jpg", "", []),
        ("x/dog.jpg", "train", ["A dog, running.", "An animal."]),
    ]
    assert skipped.by_reason == {"no captions": 1}


def test_picture_stays_in_the_first_split_that_is_named_and_others_are_told(draw: Draw) -> None:
    root = draw("dog.jpg")
    path = root / "captions.csv"
    path.write_text("file_name,caption,split\n" + "".join(
        f"dog.jpg,A dog.,{split}\n" for split in ("", "dev", "", "val", "test", "train")
    ))  # fmt: skip
    dataset, skipped = folder.read(root, path)
    assert [image.split for image in dataset.images] == ["val"]
    assert skipped.lines == [
        f"captions.csv, line {line} (dog.jpg): another split than before ({split}): dev is kept"
        for line, split in ((6, "test"), (7, "train"))
    ]


def test_name_in_a_table_is_found_however_its_accents_are_written(draw: Draw) -> None:
    composed, apart = "caf\u00e9.jpg", "cafe\u0301.jpg"
    root = draw(f"a/{apart}", f"b/{composed}", f"both/{apart}", f"both/{composed}")
    names = [f"a/{composed}", f"b/{apart}", f"both/{apart}", f"both/{composed}"]
    rows = [f"{name},Number {at}." for at, name in enumerate(names)]
    (root / "captions.csv").write_text("\n".join(["file_name,caption", *rows]))
    dataset, skipped = folder.read(root, root / "captions.csv")
    assert skipped.total == 0
    assert {image.file_name: [c.text for c in image.captions] for image in dataset.images} == {
        f"a/{apart}": ["Number 0."],
        f"b/{composed}": ["Number 1."],
        f"both/{apart}": ["Number 2."],
        f"both/{composed}": ["Number 3."],
    }


def test_bad_rows_cost_themselves(draw: Draw) -> None:
    root = draw("dog.jpg")
    path = root / "captions.jsonl"
    path.write_text(
        '{"file_name": "dog.jpg", "caption": "A dog.", "split": 7}\n'
        '{"file_name": "../dog.jpg", "caption": "A dog."}\n'
        '{"file_name": "dog.jpg", "caption": 7}\n'
        '{"caption": "A dog."}\n'
        "{broken\n"
        "[]\n" + "[" * 100_000
    )
    dataset, skipped = folder.read(root, path)
    assert [c.text for c in dataset.captions] == ["A dog."]
    assert skipped.by_reason == {
        "no file name": 1,
        "line that is not JSON": 2,
        "row that is not an object": 1,
        "file not found": 1,
        "caption that is not text": 1,
    }
    assert "captions.jsonl, line 2 (../dog.jpg): file not found: skipped" in skipped.lines


@pytest.mark.parametrize(("kind", "mark"), [("csv", ","), ("tsv", "\t")])
def test_caption_that_is_not_quoted_is_told_and_not_cut(kind: str, mark: str, draw: Draw) -> None:
    root = draw("dog.jpg")
    path = root / f"captions.{kind}"
    rows = [("file_name", "caption"), ("dog.jpg", "A dog", " running."), ("dog.jpg", "A dog.", "")]
    path.write_text("\n".join(mark.join(row) for row in [*rows, ("cat.jpg", "A cat.")]))
    dataset, skipped = folder.read(root, path)
    assert [caption.text for caption in dataset.captions] == ["A dog."]
    name = {",": "comma", "\t": "tab"}[mark]
    why = f"more cells than columns (quote a caption that holds a {name})"
    assert skipped.lines == [
        f"captions.{kind}, line 2: {why}: skipped",
        f"captions.{kind}, line 4 (cat.jpg): file not found: skipped",
    ]


def test_caption_may_hold_an_inch_and_another_two_lines(draw: Draw) -> None:
    root = draw("dog.jpg")
    path = root / "captions.csv"
    path.write_text('file_name,caption\ndog.jpg,A 5" dog.\n\ndog.jpg,"A dog\nand a ""cat""."\n')
    dataset, _ = folder.read(root, path)
    assert [caption.text for caption in dataset.captions] == ['A 5" dog.', 'A dog and a "cat".']


def test_formats_that_are_not_read_are_told(draw: Draw) -> None:
    root = draw("dog.jpg")
    (root / "drawing.SVG").write_bytes(b"<svg/>")
    _, skipped = folder.read(root)
    assert skipped.lines == ["drawing.SVG: format that is not read, convert it to JPEG: skipped"]


def test_link_to_a_folder_above_is_not_followed_for_ever(draw: Draw) -> None:
    root = draw("x/dog.jpg")
    (root / "x/up").symlink_to(root)
    dataset, skipped = folder.read(root)
    assert len(dataset) == 1
    assert skipped.lines == ["x/up: link to a folder, not followed: skipped"]


def test_folder_that_may_not_be_read_is_told(draw: Draw, monkeypatch: pytest.MonkeyPatch) -> None:
    root, entries = draw("dog.jpg", "private/cat.jpg"), os.scandir

    def scandir(path: str) -> Iterator[os.DirEntry[str]]:
        if path.endswith("private"):
            raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), path)
        return entries(path)

    monkeypatch.setattr(os, "scandir", scandir)
    dataset, skipped = folder.read(root)
    assert [image.file_name for image in dataset.images] == ["dog.jpg"]
    assert skipped.lines == ["private: folder that cannot be read (Permission denied): skipped"]


def test_folder_that_may_not_be_entered_costs_itself_only(
    draw: Draw, monkeypatch: pytest.MonkeyPatch
) -> None:
    root, look = draw("dog.jpg", "private/cat.jpg"), os.stat

    def stat(path: Path, **more: Any) -> os.stat_result:
        if Path(path).parent.name == "private":
            raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), path)
        return look(path, **more)

    (root / "private/cat.jpg").write_bytes(b"")  # as good as unread
    monkeypatch.setattr(os, "stat", stat)
    dataset, skipped = folder.read(root)
    assert [image.file_name for image in dataset.images] == ["dog.jpg"]
    assert skipped.lines == ["image 2 (private/cat.jpg): file not found: skipped"]


def test_folder_whose_name_is_no_text_is_refused_by_name(draw: Draw) -> None:
    broken = draw("dog.jpg") / os.fsdecode(b"bad\xff")
    draw(f"{broken.name}/cat.jpg")
    with pytest.raises(DatasetError, match=r"bad\\udcff' has broken characters: rename it"):
        folder.read(broken)


@pytest.mark.parametrize(
    ("name", "content", "said"),
    [
        ("c.csv", "", "is empty"),
        ("c.csv", "photo,words\na,b\n", "has the columns photo, words: it needs"),
        ("c.csv", "file_name,words\na,b\n", "has the columns file_name, words: it needs"),
        ("c.csv", 'file_name,caption\na,"' + "x" * 200_000, "broken at line"),
        ("c.csv", "x" * 200_000, "broken at line"),
        ("c.csv", 'file_name,caption\na,"a dog\nb,a cat\n', "never closed, before 'a dog"),
        ("c.csv", 'file_name,caption\na,a dog, brown,"on a\nb,c\n', "never closed, before 'on a"),
        ("c.csv", 'file_name,caption\na,"a dog\nb,c\nd,"e\nf,g\n', "never closed, before 'a dog"),
        ("c.jsonl", '{"file_name": "dog.jpg"}\n', "no line that is a JSON object with 'file_name'"),
        ("c.json", '[{"file_name": "dog.jpg", "caption": "a dog"}]', "it needs one object a line"),
    ],
)
def test_table_of_another_kind_is_refused(name: str, content: str, said: str, draw: Draw) -> None:
    root = draw("dog.jpg")
    (root / name).write_text(content)
    with pytest.raises(DatasetError) as caught:
        folder.read(root, root / name)
    assert said in str(caught.value)


def test_folder_without_pictures_is_refused(tmp_path: Path) -> None:
    (tmp_path / "a.mp4").touch()
    with pytest.raises(DatasetError, match=r"no pictures in .* \(passed over: \.mp4: 1\): docs"):
        folder.read(tmp_path)
