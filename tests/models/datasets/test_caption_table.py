"""Tables of captions as people write them."""

from __future__ import annotations

import json

import pytest

from hasse.models.datasets import folder
from tests.models.datasets.conftest import Draw


def captions(root_of: Draw, table: str, content: str, *names: str) -> dict[str, list[str]]:
    root = root_of(*names)
    (root / table).write_text(content)
    dataset, skipped = folder.read(root, root / table)
    assert set(skipped.by_reason) <= {"no captions"}, skipped.lines
    return {i.file_name: [c.text for c in i.captions] for i in dataset.images if i.captions}


@pytest.mark.parametrize(
    ("header", "row"),
    [
        ("image,caption", "a.jpg,a dog"),
        ("Image Name, Caption Number, Comment", "a.jpg, 0, a dog"),
        ("filename;text", "a.jpg;a dog"),
        ("image_name| comment_number| comment", "a.jpg| 0| a dog"),
        ("path\tdescription", "a.jpg\ta dog"),
        ('"file-name","captions"', '"a.jpg","a dog"'),
        ("path,file_name,caption", "elsewhere/b.jpg,a.jpg,a dog"),
    ],
)
def test_table_columns_and_separators_are_those_that_people_use(
    header: str, row: str, draw: Draw
) -> None:
    assert captions(draw, "c.csv", f"{header}\n{row}\n", "a.jpg") == {"a.jpg": ["a dog"]}


def test_table_of_json_lines_may_list_captions_under_other_names(draw: Draw) -> None:
    row = {"Image": "a.jpg", "captions": ["a dog", "an animal"], "split": "val"}
    assert captions(draw, "c.jsonl", json.dumps(row), "a.jpg") == {"a.jpg": ["a dog", "an animal"]}


def test_table_names_in_other_case_without_extension_or_with_the_folder_are_found(
    draw: Draw,
) -> None:
    root = draw("p/IMG_1.JPG", "p/x/four.jpg", "p/five.jpg", "p/three.jpg", "p/six.jpg") / "p"
    rows = [
        "file_name,caption",
        "img_1.jpg,a dog",
        f"{root}/x/FOUR.jpg,a horse",
        "p/five.jpg,a cow",
        "three,a bird",
        "C:\\Users\\me\\P\\six.jpg,a cat",
    ]
    (root / "c.csv").write_text("\n".join(rows))
    dataset, skipped = folder.read(root, root / "c.csv")
    assert skipped.total == 0, skipped.lines
    assert {i.file_name: [c.text for c in i.captions] for i in dataset.images} == {
        "IMG_1.JPG": ["a dog"],
        "x/four.jpg": ["a horse"],
        "five.jpg": ["a cow"],
        "three.jpg": ["a bird"],
        "six.jpg": ["a cat"],
    }


def test_table_name_that_fits_several_files_alike_finds_none(draw: Draw) -> None:
    root = draw("a.jpg", "A.JPG", "b.jpg", "b.png")
    rows = ["a.jpg,1", "A.JPG,2", "a.JPG,3", "b,4", "b.jpg,5"]
    (root / "c.csv").write_text("\n".join(["file_name,caption", *rows]))
    dataset, skipped = folder.read(root, root / "c.csv")
    assert {i.file_name: [c.text for c in i.captions] for i in dataset.images} == {
        "a.jpg": ["1"],
        "A.JPG": ["2"],
        "b.jpg": ["5"],
        "b.png": [],
    }
    assert skipped.by_reason == {"file not found": 2, "no captions": 1}


@pytest.mark.parametrize(
    ("cell", "caption"),
    [
        ('"stop" on a sign', '"stop" on a sign'),
        ('"a sign on a door', '"a sign on a door'),
        ('a sign: "stop"', 'a sign: "stop"'),
        ('"stop" or "go"', '"stop" or "go"'),
        ('"', '"'),
        ('"a ""big"" dog"', 'a "big" dog'),
        ("5' 3\" tall", "5' 3\" tall"),
    ],
)
def test_table_with_tabs_takes_a_quote_for_text_unless_it_encloses_the_cell(
    draw: Draw, cell: str, caption: str
) -> None:
    rows = f'file_name\tcaption\na.jpg\t{cell}\nb.jpg\t"open quote\nc.jpg\ta cat\n'
    found = captions(draw, "t.tsv", rows, "a.jpg", "b.jpg", "c.jpg")
    assert found == {"a.jpg": [caption], "b.jpg": ['"open quote'], "c.jpg": ["a cat"]}


def test_table_with_tabs_that_a_spreadsheet_quoted_may_break_lines(draw: Draw) -> None:
    rows = 'file_name\tcaption\na.jpg\t"two\nlines"\nb.jpg\t"a ""big"" dog"\n'
    found = captions(draw, "t.tsv", rows, "a.jpg", "b.jpg")
    assert found == {"a.jpg": ["two lines"], "b.jpg": ['a "big" dog']}
