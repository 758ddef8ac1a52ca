"""What people's files call a picture, and the picture that is meant."""

from __future__ import annotations

import json
import unicodedata
from collections.abc import Callable
from pathlib import Path

import pytest
from PIL import Image

from hasse.lab.datasets import coco, flickr8k, karpathy
from hasse.models.datasets import Dataset, folder
from hasse.models.datasets.names import FileFinder, as_id
from hasse.models.datasets.skipped_rows import SkippedRows

NAME = "été/plage.jpg"
WAYS = [
    NAME,
    "été\\plage.jpg",
    " ./été/plage.jpg ",
    unicodedata.normalize("NFD", NAME),
    unicodedata.normalize("NFD", "été\\plage.jpg"),
]


@pytest.fixture(params=["NFC", "NFD"])
def root(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    place = tmp_path / "pictures" / unicodedata.normalize(request.param, NAME)
    place.parent.mkdir(parents=True)
    Image.new("RGB", (8, 8)).save(place)
    return tmp_path / "pictures"


def read_coco(root: Path, name: str) -> tuple[Dataset, SkippedRows]:
    rows = {
        "images": [{"id": "7", "file_name": name}],
        "annotations": [{"id": "1", "image_id": 7, "caption": "a dog"}],
    }
    path = root.parent / "c.json"
    path.write_text(json.dumps(rows), encoding="utf-8-sig")
    return coco.read([path], root)


def read_karpathy(root: Path, name: str) -> tuple[Dataset, SkippedRows]:
    below, _, file = name.strip().replace("/", "\\").rpartition("\\")
    row = {"imgid": 7, "filename": file, "sentences": [{"raw": "a dog", "sentid": 1}]}
    path = root.parent / "k.json"
    path.write_text(json.dumps({"images": [{**row, "filepath": f"{below}\\", "split": "val"}]}))
    return karpathy.read(path, root)


def read_flickr8k(root: Path, name: str) -> tuple[Dataset, SkippedRows]:
    tokens, names = root.parent / "t.txt", root.parent / "val.txt"
    tokens.write_text(f"{name}#0\ta dog\n", encoding="utf-8-sig")
    names.write_text(f"{NAME}\n", encoding="utf-16")
    return flickr8k.read(tokens, root, {"val": names})


def read_table(root: Path, name: str) -> tuple[Dataset, SkippedRows]:
    table = root.parent / "c.csv"
    table.write_text(f'file_name, Caption\n"{name}", "a dog"\n', encoding="utf-8-sig")
    return folder.read(root, table)


@pytest.mark.parametrize("name", WAYS)
@pytest.mark.parametrize("read", [read_coco, read_flickr8k, read_table])
def test_importer_finds_a_picture_however_its_name_is_written(
    read: Callable[[Path, str], tuple[Dataset, SkippedRows]], name: str, root: Path
) -> None:
    dataset, skipped = read(root, name)
    assert skipped.total == 0, skipped.lines
    (image,) = dataset.images
    assert image.path.is_file()
    assert [caption.text for caption in image.captions] == ["a dog"]


@pytest.mark.parametrize("name", ["Été/PLAGE.JPG", "été/plage"])
@pytest.mark.parametrize("read", [read_coco, read_table])
def test_importer_finds_a_picture_in_other_case_or_without_its_extension(
    read: Callable[[Path, str], tuple[Dataset, SkippedRows]], name: str, root: Path
) -> None:
    dataset, skipped = read(root, name)
    assert skipped.total == 0, skipped.lines
    assert dataset.images[0].path.is_file()


@pytest.mark.parametrize("name", WAYS[:2])
def test_karpathys_file_may_name_folders_with_backslashes(name: str, tmp_path: Path) -> None:
    place = tmp_path / "pictures" / NAME
    place.parent.mkdir(parents=True)
    Image.new("RGB", (8, 8)).save(place)
    dataset, skipped = read_karpathy(tmp_path / "pictures", name)
    assert skipped.total == 0, skipped.lines
    assert dataset.images[0].path == place


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (7, 7),
        (" 007 ", 7),
        ("+7", 7),
        (2**63 - 1, 2**63 - 1),
        (-1, "negative id"),
        ("-1", "negative id"),
        (2**63, "id of more than 64 bits"),
        (str(2**63), "id of more than 64 bits"),
        ("9" * 5000, "id that is not a whole number"),
        ("seven", "id that is not a whole number"),
        (True, "id that is not a whole number"),
        (7.5, "id that is not a whole number"),
        (None, "id that is not a whole number"),
    ],
)
def test_id_is_a_number_or_text_of_one_and_the_fault_is_named(
    value: object, expected: int | str
) -> None:
    assert as_id(value) == expected


def test_name_that_leads_out_of_its_folder_finds_nothing(tmp_path: Path) -> None:
    (tmp_path / "secret.jpg").touch()
    (tmp_path / "in").mkdir()
    name, path = FileFinder().find([tmp_path / "in"], "..\\secret.jpg")
    assert (name, path) == ("..\\secret.jpg", tmp_path / "in" / "..\\secret.jpg")
