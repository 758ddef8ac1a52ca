"""Caption files beside pictures, as programs name them."""

from __future__ import annotations

from pathlib import Path

import pytest

from hasse.models.datasets import folder
from hasse.models.datasets.caption_files import caption_files
from hasse.models.datasets.walk import walk
from tests.models.datasets.conftest import Draw


@pytest.mark.parametrize(
    "file", ["a.txt", "a.TXT", "A.txt", "a.caption", "a.Caption", "a.jpg.txt", "A.JPG.caption"]
)
def test_caption_file_is_found_in_any_case_and_with_the_pictures_extension(file: str) -> None:
    assert caption_files([file, "b.txt", "a.md"], {"a.jpg", "c.jpg"}) == {file: ["a.jpg"]}


def test_caption_file_belongs_to_the_picture_of_its_own_case_first() -> None:
    pictures = {"a.jpg", "A.JPG"}
    found = caption_files(["a.txt", "A.txt"], pictures)
    assert found == {"A.txt": ["A.JPG"], "a.txt": ["a.jpg"]}


def test_caption_file_belongs_to_all_pictures_of_its_name() -> None:
    (names,) = caption_files(["a.txt"], {"a.jpg", "a.png"}).values()
    assert sorted(names) == ["a.jpg", "a.png"]
    assert caption_files(["a.png.txt"], {"a.jpg", "a.png"}) == {"a.png.txt": ["a.png"]}


def write(root: Path, texts: dict[str, str]) -> None:
    for name, text in texts.items():
        (root / name).write_text(text)


FILES = {
    "x/a.TXT": "a red ball",
    "x/b.txt": "a blue ball",
    "c.jpg.txt": "a green ball",
    "d.caption": "a grey ball",
    "e.txt": "a black ball\na ball",
}


def test_captions_beside_pictures_are_read_and_not_passed_over(draw: Draw) -> None:
    root = draw("x/a.jpg", "x/B.JPG", "c.jpg", "d.jpg", "e.jpg")
    write(root, FILES)
    dataset, skipped = folder.read(root)
    assert skipped.report_lines() == []
    assert {i.file_name: [c.text for c in i.captions] for i in dataset.images} == {
        "x/a.jpg": ["a red ball"],
        "x/B.JPG": ["a blue ball"],
        "c.jpg": ["a green ball"],
        "d.jpg": ["a grey ball"],
        "e.jpg": ["a black ball", "a ball"],
    }
    (root / "f.caption").touch()
    assert walk(root).passed_over == {".caption": 1}


def test_picture_named_like_a_caption_file_is_a_picture(draw: Draw) -> None:
    root = draw("a.jpg", "b.jpg")
    (root / "a.jpg").rename(root / "a.txt.jpg")
    write(root, {"a.txt.jpg.txt": "a square"})
    dataset, _ = folder.read(root)
    assert [[c.text for c in image.captions] for image in dataset.images] == [["a square"], []]


@pytest.mark.parametrize(("count", "notes"), [(100, 0), (101, 1)])
def test_caption_of_more_words_than_models_read_is_kept_and_named(
    count: int, notes: int, draw: Draw
) -> None:
    root = draw("a.jpg")
    text = " ".join(f"w{at}" for at in range(count))
    write(root, {"a.txt": text})
    dataset, skipped = folder.read(root)
    assert [caption.text for caption in dataset.captions] == [text]
    line = "a.txt, line 1: caption of more than 100 words: kept, models read the first 100 words"
    assert skipped.lines == [line] * notes
