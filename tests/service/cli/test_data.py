"""`hasse data import`: what can be used is kept, what cannot is named and counted."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from models.datasets import load
from tests.service.cli.shell import hasse
from tests.service.collection import picture


@pytest.fixture
def pictures(tmp_path: Path) -> Path:
    folder = tmp_path / "pictures"
    folder.mkdir()
    for at, word in enumerate(("dog", "cat", "child")):
        picture(at).save(folder / f"{word}.jpg")
        (folder / f"{word}.txt").write_text(f"a {word} runs\na {word}\n")
    return folder


def test_a_folder_becomes_a_dataset(pictures: Path, tmp_path: Path) -> None:
    done = hasse("data", "import", "folder", pictures, "--out", tmp_path / "mine")
    assert done.status == 0, done.err
    assert "3 pictures" in done.out
    assert "6 captions" in done.out
    assert {caption.text for caption in load(tmp_path / "mine").captions} >= {"a dog", "a cat runs"}


def test_json_counts_everything_and_is_alone_on_standard_output(
    pictures: Path, tmp_path: Path
) -> None:
    whole = (pictures / "cat.jpg").read_bytes()
    (pictures / "cat.jpg").write_bytes(whole[:3])
    done = hasse("data", "import", "folder", pictures, "--out", tmp_path / "mine", "--json")
    assert done.status == 0
    document = json.loads(done.out)
    assert (document["images"], document["captions"]) == (2, 4)
    assert document["splits"] == {"": 2}
    assert document["problems"]["total"] >= 1
    assert any("cat.jpg" in line for line in document["problems"]["lines"])


def test_a_bad_picture_costs_itself_only_and_gets_one_line(pictures: Path, tmp_path: Path) -> None:
    (pictures / "cat.jpg").write_bytes(b"")
    done = hasse("data", "import", "folder", pictures, "--out", tmp_path / "mine")
    assert done.status == 0
    assert len([line for line in done.err.splitlines() if "cat.jpg" in line]) == 1
    assert "2 pictures" in done.out


def test_the_scenes_are_drawn_with_their_splits(tmp_path: Path) -> None:
    out = tmp_path / "scenes"
    done = hasse(
        *("data", "import", "scenes", "--out", out, "--train", 3, "--val", 2, "--test", 1),
        *("--workers", 1, "--json"),
    )
    assert json.loads(done.out)["splits"] == {"train": 3, "val": 2, "test": 1}
    assert len(list(out.rglob("*.jpg"))) == 6


def test_coco_ids_survive(tmp_path: Path) -> None:
    images = tmp_path / "val2017"
    images.mkdir()
    picture(1).save(images / "000000391895.jpg")
    document = {
        "images": [{"id": 391895, "file_name": "000000391895.jpg", "width": 64, "height": 48}],
        "annotations": [{"id": 770337, "image_id": 391895, "caption": "A man on a bike."}],
    }
    annotations = tmp_path / "captions_val2017.json"
    annotations.write_text(json.dumps(document))
    done = hasse("data", "import", "coco", annotations, "--images", images, "-o", tmp_path / "coco")
    assert done.status == 0, done.err
    (image,) = load(tmp_path / "coco").images
    assert (image.id, image.split, image.captions[0].id) == (391895, "val", 770337)


@pytest.mark.parametrize(
    "arguments",
    [
        ("coco", "absent.json", "--images", "."),
        ("coco", "empty.json", "--images", "."),
        ("karpathy", "absent.json", "--images", "."),
        ("karpathy", "broken.json", "--images", "."),
        ("flickr8k", "absent.txt", "--images", "."),
        ("flickr8k", "empty.json", "--images", "."),
        ("folder", "absent"),
        ("folder", "nothing"),
        ("folder", "nothing", "--captions", "absent.csv"),
        ("scenes", "--train", "0", "--val", "0", "--test", "0"),
    ],
    ids=" ".join,
)
def test_nothing_usable_is_one_sentence_with_the_remedy(
    arguments: tuple[str, ...], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "empty.json").touch()
    (tmp_path / "broken.json").write_text('{"images": [')
    (tmp_path / "nothing").mkdir()
    failed = hasse("data", "import", *arguments, "--out", "out")
    assert failed.status == 1
    assert ":" in failed.error.removeprefix("error: ")
    assert not (tmp_path / "out" / "dataset.json").exists()
