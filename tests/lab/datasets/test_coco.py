"""MS-COCO annotations: ids unchanged, and a bad row costs itself only."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from PIL import Image as Pillow

from hasse.lab.datasets import coco
from hasse.models.datasets import DatasetError, load, save
from hasse.models.datasets.builder import DatasetBuilder
from tests.models.datasets.conftest import Draw
from tests.models.images.pictures import png_header


def annotation_file(path: Path, images: list[Any], captions: list[Any]) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps({"images": images, "annotations": captions}))
    return path


def image(number: int, **fields: Any) -> dict[str, Any]:
    return {"id": number, "file_name": f"{number:012d}.jpg", "width": 640, "height": 480} | fields


def caption(number: int, image_id: Any, text: Any = "a dog") -> dict[str, Any]:
    return {"id": number, "image_id": image_id, "caption": text}


def test_coco_ids_survive_to_the_dataset_and_through_its_file(draw: Draw) -> None:
    root = draw("train2017/000000391895.jpg", "train2017/000000000009.jpg", "000000391895.jpg")
    path = annotation_file(
        root / "annotations/captions_train2017.json",
        [image(391895), image(9)],
        [caption(770337, 391895, "A man on a moped. "), caption(2**63 - 1, 9), caption(1, 391895)],
    )
    dataset, skipped = coco.read([path], root)
    assert skipped.total == 0
    assert [i.id for i in dataset.images] == [391895, 9]
    assert [(c.id, c.image_id) for c in dataset.captions] == [
        (770337, 391895),
        (1, 391895),
        (2**63 - 1, 9),
    ]
    assert next(dataset.captions).text == "A man on a moped."
    assert dataset.images[0].file_name == "000000391895.jpg"
    assert dataset.images[0].path == root / "train2017/000000391895.jpg"
    save(dataset, root / "out")
    assert load(root / "out") == dataset


def test_several_files_each_have_their_split_and_folder(
    draw: Draw, monkeypatch: pytest.MonkeyPatch
) -> None:
    root = draw("train2017/000000000001.jpg", "val2017/000000000002.jpg")
    paths = [
        annotation_file(root / "captions_train2017.json", [image(1)], [caption(1, 1)]),
        annotation_file(root / "captions_val2017.json", [image(2)], [caption(2, 2)]),
    ]
    assert coco.read(paths, root)[0].splits() == {"train": 1, "val": 1}
    assert coco.read(paths, root, "test")[0].splits() == {"test": 2}
    assert coco.read(paths, root, "")[0].splits() == {"": 2}
    monkeypatch.chdir(root)
    assert coco.read(paths, Path()) == coco.read(paths, root)
    assert coco.read(paths[:1], root / "train2017")[0].splits() == {"train": 1}


@pytest.mark.parametrize(
    ("name", "split"),
    [
        ("latest", ""),
        ("retrieval_2020", ""),
        ("values", ""),
        ("captions_testimony", ""),
        ("validation", "val"),
        ("training_captions", "train"),
        ("my_test_captions", "test"),
    ],
)
def test_split_is_not_read_from_the_middle_of_a_word(name: str, split: str, draw: Draw) -> None:
    root = draw("000000000001.jpg")
    path = annotation_file(root / f"{name}.json", [image(1)], [caption(1, 1)])
    assert coco.read([path], root)[0].splits() == {split: 1}


def test_bad_rows_cost_themselves_and_one_line_each(draw: Draw) -> None:
    root = draw("000000000001.jpg", "000000000002.jpg", "000000000003.jpg")
    (root / "000000000005.jpg").write_text("text")
    (root / "000000000006.jpg").touch()
    whole = (root / "000000000001.jpg").read_bytes()
    (root / "000000000007.jpg").write_bytes(whole[:100])
    (root / "000000000013.jpg").write_bytes(png_header(12_000, 12_000))
    images = [
        *(image(number) for number in (1, 2, 3, 4, 5, 6, 7, 13)),
        image(1),
        {"file_name": "x.jpg"},
        image(True),
        image(-1),
        image(2**63),
        image(14) | {"id": "14"},
        {"id": 8},
        image(12, file_name=" "),
        image(9, file_name="../../etc/passwd"),
        image(10, file_name="/etc/passwd"),
        image(11, file_name="a\ud800.jpg"),
        "row",
        None,
    ]
    captions = [
        caption(1, 1, "fine"),
        caption(2, 2, "fine too"),
        caption(1, 1, "again"),
        caption(3, 1, None),
        caption(4, 1, "  \n"),
        caption(5, 1, "half \ud800"),
        caption(6, 99),
        caption(7, [1]),
        caption(8, 4, "of a missing file: said once, with the image"),
        caption(9, 8, "of a refused image: said once, with the image"),
        caption(10, "14", "likewise"),
        {"image_id": 1, "caption": "no id"},
        7,
    ]
    dataset, skipped = coco.read([annotation_file(root / "x.json", images, captions)], root)
    assert [i.id for i in dataset.images] == [1, 2, 3]
    assert [c.text for c in dataset.captions] == ["fine", "fine too"]
    assert skipped.by_reason == {
        "id of an earlier image": 1,
        "id that is not a whole number": 3,
        "negative id": 1,
        "id of more than 64 bits": 1,
        "no file name": 2,
        "file name that leaves its folder": 2,
        "file name with broken characters": 1,
        "row that is not an object": 3,
        "id of an earlier caption": 1,
        "caption that is not text": 1,
        "empty caption": 1,
        "caption with broken characters": 1,
        "caption of an unknown image": 2,
        "file not found": 2,
        "not a picture": 2,
        "damaged picture": 1,
        "too large a picture": 1,
        "no captions": 1,
    }
    assert "image 4 (000000000004.jpg): file not found: skipped" in skipped.lines
    assert "image 3 (000000000003.jpg): no captions: kept, can be found" in skipped.lines
    assert "caption 6 of image 99: caption of an unknown image: skipped" in skipped.lines
    assert len(skipped.lines) == skipped.total


def test_sizes_come_from_the_picture_whatever_its_row_says(draw: Draw) -> None:
    root = draw("000000000001.jpg")
    path = annotation_file(root / "x.json", [image(1)], [caption(1, 1)])
    dataset, _ = coco.read([path], root)
    assert [(i.id, i.width, i.height) for i in dataset.images] == [(1, 8, 6)]


def test_unknown_split_is_told_and_the_image_kept(draw: Draw) -> None:
    root = draw("000000000001.jpg")
    path = annotation_file(root / "x.json", [image(1, split="extra")], [caption(1, 1)])
    dataset, skipped = coco.read([path], root)
    assert dataset.splits() == {"": 1}
    assert skipped.lines == ["image 1 (000000000001.jpg): unknown split (extra): in no split"]


def test_split_asked_for_all_that_nobody_knows_is_refused(draw: Draw) -> None:
    root = draw("000000000001.jpg")
    path = annotation_file(root / "x.json", [image(1)], [caption(1, 1)])
    with pytest.raises(DatasetError, match=r"^no split is called 'tets': give train, val or test$"):
        coco.read([path], root, "tets")
    of_train, of_val = ("Training", "restval"), ("Val", "valid", "validation", "dev")
    for known, names in {"train": of_train, "val": of_val, "test": ("test",), "": ("",)}.items():
        for split in names:
            assert coco.read([path], root, split)[0].splits() == {known: 1}


def test_progress_reaches_the_end(draw: Draw) -> None:
    root = draw(*(f"{number:012d}.jpg" for number in range(3)))
    rows = DatasetBuilder("three")
    for number in range(3):
        rows.add_image(number, f"{number:012d}.jpg", [root])
    seen: list[tuple[int, int]] = []
    rows.finish(progress=lambda done, total: seen.append((done, total)), chunk=2)
    assert seen == [(2, 3), (3, 3)]


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text() | st.just("\ud800\0"),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=5,
)


@given(data=st.data())
def test_no_row_however_odd_breaks_the_import(
    data: st.DataObject, tmp_path_factory: pytest.TempPathFactory
) -> None:
    root = tmp_path_factory.getbasetemp() / "odd"
    if not root.exists():
        root.mkdir()
        Pillow.new("RGB", (2, 2)).save(root / "000000000001.jpg")
    rows: list[dict[str, Any]] = [image(2), image(1)]
    notes: list[dict[str, Any]] = [caption(2, 1), caption(1, 1)]
    row = data.draw(st.sampled_from([rows[0], notes[0]]))
    row[data.draw(st.sampled_from([*row, "split"]))] = data.draw(json_values)
    dataset, _ = coco.read([annotation_file(root / "x.json", rows, notes)], root)
    assert dataset.images[-1].id == 1
    assert dataset.images[-1].captions[-1].id == 1
    save(dataset, root)
    assert load(root) == dataset


def test_file_name_longer_than_any_file_system_takes_is_not_found(draw: Draw) -> None:
    root = draw("000000000001.jpg")
    rows = [image(1), image(2, file_name="x" * 10_000)]
    dataset, skipped = coco.read([annotation_file(root / "x.json", rows, [caption(1, 1)])], root)
    assert len(dataset) == 1
    assert skipped.by_reason["file not found"] == 1


def refusal(path: Path, root: Path) -> str:
    with pytest.raises(DatasetError) as caught:
        coco.read([path], root)
    return str(caught.value)


def test_broken_json_is_refused_with_file_and_place(tmp_path: Path) -> None:
    path = tmp_path / "captions.json"
    path.write_text('{"images": [],\n "annotations": [{"id": 1, ')
    assert str(path) in refusal(path, tmp_path)
    assert "line 2, column" in refusal(path, tmp_path)


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (b" \n", "is empty"),
        (b"{\xff\xfe\x00", "is not UTF-8 text (byte 1 is not)"),
        (b"[]", "holds no JSON object"),
        (b"{}", "has no list 'images'"),
        (b'{"images": [], "annotations": {}}', "has no list 'annotations'"),
        (b'{"images": [], "annotations": [{"image_id": 1, "bbox": []}]}', "but no captions"),
        (b'{"images": []}', "no image of"),
        (b"[" * 100_000, "is not JSON"),
        (b'{"images": ' + b"9" * 5000 + b"}", "is not JSON"),
    ],
)
def test_file_of_another_kind_is_refused_in_one_sentence(
    content: bytes, said: str, tmp_path: Path
) -> None:
    (tmp_path / "captions.json").write_bytes(content)
    message = refusal(tmp_path / "captions.json", tmp_path)
    assert said in message
    assert "\n" not in message


def test_missing_paths_are_named(tmp_path: Path) -> None:
    assert "there is no file" in refusal(tmp_path / "nowhere.json", tmp_path)
    assert "cannot be read: it is not a file" in refusal(tmp_path, tmp_path)
    assert "cannot be read: File name too long" in refusal(tmp_path / ("x" * 300), tmp_path)
    for folder in (tmp_path / "nowhere", Path(__file__)):
        assert f"there is no folder {folder}" in refusal(tmp_path / "x.json", folder)


def test_nothing_usable_says_why(tmp_path: Path) -> None:
    path = annotation_file(tmp_path / "x.json", [image(1), image(2)], [caption(1, 1)])
    assert "file not found: 2; the first: image 1 (000000000001.jpg)" in refusal(path, tmp_path)
