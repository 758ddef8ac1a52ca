"""Pictures are found by what they are, and nothing is passed over without being counted."""

from __future__ import annotations

import os
from collections import Counter
from pathlib import Path

import pytest

from hasse.models.datasets import DatasetError
from hasse.models.datasets.walk import walk
from tests.models.datasets.conftest import Draw


def put(root: Path, *names: str, content: bytes = b"x") -> None:
    for name in names:
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_bytes(content)


def test_walk_pictures_under_odd_names_are_found_by_their_bytes(draw: Draw) -> None:
    root = draw("a.jpg")
    picture = (root / "a.jpg").read_bytes()
    odd = ["b.jfif", "c.JPG_large", "d", "e.pjpeg", "f.heic", "g.jxl", "sub/h.orig", "i.png"]
    put(root, *odd, content=picture)
    assert walk(root).pictures == ["a.jpg", *odd[:6], "i.png", "sub/h.orig"]
    assert walk(root).passed_over == Counter()


def test_walk_files_that_are_no_pictures_are_counted_by_kind(draw: Draw) -> None:
    root = draw("dog.jpg")
    put(root, "dog.txt", "other.txt", "a.mp4", "B.MP4", "notes", "x.unknown", ".DS_Store", "e.svg")
    os.mkfifo(root / "pipe")
    found = walk(root)
    assert found.pictures == ["dog.jpg"]
    assert found.other_pictures == ["e.svg"]
    assert found.passed_over == {
        ".txt": 1,  # dog.txt holds captions
        ".mp4": 2,
        "file without extension": 2,
        ".unknown": 1,
        "hidden file": 1,
    }


def test_walk_table_of_captions_is_not_counted_as_passed_over(draw: Draw) -> None:
    root = draw("dog.jpg")
    put(root, "captions.csv", "other.csv", "dog.txt")
    assert walk(root, captions=root / "captions.csv").passed_over == {".csv": 1, ".txt": 1}


def test_walk_leaves_out_thumbnails_bins_and_hidden_folders_by_default(draw: Draw) -> None:
    root = draw(
        "a.jpg",
        "@eaDir/a.jpg/SYNOPHOTO_THUMB_XL.jpg",
        "sub/#recycle/b.jpg",
        ".thumbnails/c.jpg",
        ".git/d.jpg",
        "lost+found/e.jpg",
        "My.photoslibrary/originals/0/f.jpg",
        "My.photoslibrary/resources/derivatives/g.jpg",
        "sub/Other.photoslibrary/resources/derivatives/h.jpg",
        ".@__thumb/i.jpg",
    )
    found = walk(root)
    assert found.pictures == ["My.photoslibrary/originals/0/f.jpg", "a.jpg"]
    assert found.passed_over == {"excluded folder": 5, "hidden folder": 3}


def test_walk_exclude_leaves_out_and_brings_back(draw: Draw) -> None:
    root = draw("a.jpg", "tmp/b.jpg", "x/tmp/c.jpg", "x/d_small.jpg", "@eaDir/e.jpg", "#f/g.jpg")
    found = walk(root, ["tmp/", "*_small.*", "!@eaDir/", "#f"])
    assert found.pictures == ["@eaDir/e.jpg", "a.jpg"]
    assert found.passed_over == {"excluded folder": 3, "excluded file": 1}
    assert walk(root, ["/x"]).pictures == ["#f/g.jpg", "a.jpg", "tmp/b.jpg"]


def test_walk_ignore_files_hold_for_their_folder_and_below(draw: Draw) -> None:
    root = draw("a.jpg", "b.jpg", "x/a.jpg", "x/c.jpg", "x/y/c.jpg", "z/c.jpg", "x/.hidden/d.jpg")
    (root / ".hasseignore").write_text("# not these\n/a.jpg\nc.jpg\n")
    (root / "x/.hasseignore").write_text("!/c.jpg\n!.hidden/\n")
    (root / "z/.hasseignore").touch()
    assert walk(root).pictures == ["b.jpg", "x/.hidden/d.jpg", "x/a.jpg", "x/c.jpg"]
    assert walk(root, ["x/"]).pictures == ["b.jpg"], "what is typed decides last"


def test_walk_pattern_that_cannot_be_read_is_named(draw: Draw) -> None:
    root = draw("a.jpg")
    with pytest.raises(DatasetError, match="--exclude"):
        walk(root, ["!"])
    (root / ".hasseignore").write_text("\\\n")
    with pytest.raises(DatasetError, match=r"\.hasseignore"):
        walk(root)


def test_walk_link_to_a_folder_is_named_and_not_followed(draw: Draw) -> None:
    root = draw("x/dog.jpg")
    (root / "x/up").symlink_to(root)
    (root / "one.jpg").symlink_to(root / "x/dog.jpg")
    found = walk(root)
    assert (found.pictures, found.links) == (["one.jpg", "x/dog.jpg"], ["x/up"])
