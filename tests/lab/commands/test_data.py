"""`hasse lab data import`: what can be used is kept, what cannot is named and counted."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from hasse.models.datasets import load
from hasse.models.datasets.skipped_rows import LINES_PER_REASON
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


def test_folder_becomes_a_dataset(pictures: Path, tmp_path: Path) -> None:
    done = hasse("lab data", "import", "folder", pictures, "--out", tmp_path / "mine")
    assert done.status == 0, done.err
    assert done.out == f"{tmp_path / 'mine'}: 3 pictures (no split 3), 6 captions\n"
    assert {caption.text for caption in load(tmp_path / "mine").captions} >= {"a dog", "a cat runs"}


def test_json_counts_everything_and_is_alone_on_standard_output(
    pictures: Path, tmp_path: Path
) -> None:
    whole = (pictures / "cat.jpg").read_bytes()
    (pictures / "cat.jpg").write_bytes(whole[:3])
    done = hasse("lab data", "import", "folder", pictures, "--out", tmp_path / "mine", "--json")
    assert done.status == 0
    document = json.loads(done.out)
    assert (document["images"], document["captions"]) == (2, 4)
    assert document["splits"] == {"": 2}
    problems = document["problems"]
    assert (problems["total"], problems["by_reason"]) == (1, {"damaged picture": 1})
    assert any("cat.jpg" in line for line in document["problems"]["lines"])


def test_bad_picture_costs_itself_only_and_gets_one_line(pictures: Path, tmp_path: Path) -> None:
    (pictures / "cat.jpg").write_bytes(b"")
    done = hasse("lab data", "import", "folder", pictures, "--out", tmp_path / "mine")
    assert done.status == 0
    assert len([line for line in done.err.splitlines() if "cat.jpg" in line]) == 1
    assert "2 pictures (no split 2), 4 captions; 1 problem (not a picture: 1)" in done.out


def test_flood_of_problems_is_told_of_in_few_lines_and_counted(
    pictures: Path, tmp_path: Path
) -> None:
    for at in range(LINES_PER_REASON + 5):
        (pictures / f"empty-{at}.png").touch()
    command = ("lab data", "import", "folder", pictures, "--out", tmp_path / "mine")
    done = hasse(*command)
    assert len(done.err.splitlines()) == LINES_PER_REASON + 1
    assert done.err.endswith(f"and 5 more; in all not a picture: {LINES_PER_REASON + 5}\n")
    told = json.loads(hasse(*command, "--json").out)["problems"]
    assert (told["total"], len(told["lines"])) == (LINES_PER_REASON + 5, LINES_PER_REASON)


def test_captions_and_splits_of_one_table_are_imported(pictures: Path, tmp_path: Path) -> None:
    table = tmp_path / "captions.csv"
    table.write_text("file_name,caption,split\ncat.jpg,a sofa,test\ndog.jpg,a park,train\n")
    command = ("lab data", "import", "folder", pictures, "--captions", table)
    assert hasse(*command, "--out", tmp_path / "mine").status == 0
    found = load(tmp_path / "mine")
    assert {caption.text for caption in found.captions} == {"a sofa", "a park"}
    assert found.splits() == {"test": 1, "": 1, "train": 1}


def test_each_of_flickr8ks_lists_names_its_own_split(pictures: Path, tmp_path: Path) -> None:
    names = {"train": "dog", "val": "cat", "test": "child"}
    tokens = tmp_path / "tokens.txt"
    tokens.write_text("".join(f"{name}.jpg#0\ta {name}\n" for name in names.values()))
    lists: list[object] = []
    for split, name in names.items():
        (tmp_path / f"{split}.txt").write_text(f"{name}.jpg\n")
        lists += [f"--{split}", tmp_path / f"{split}.txt"]
    command = ("lab data", "import", "flickr8k", tokens, "--images", pictures, *lists)
    assert hasse(*command, "--out", tmp_path / "flickr8k").status == 0
    found = {image.split: image.file_name for image in load(tmp_path / "flickr8k").images}
    assert found == {split: f"{name}.jpg" for split, name in names.items()}


def test_scenes_are_drawn_with_their_splits(tmp_path: Path) -> None:
    out = tmp_path / "scenes"
    done = hasse(
        *("lab data", "import", "scenes", "--out", out, "--train", 3, "--val", 2, "--test", 1),
        *("--workers", 1, "--json"),
    )
    assert json.loads(done.out)["splits"] == {"train": 3, "val": 2, "test": 1}
    drawn = {path.name: path.read_bytes() for path in out.rglob("*.jpg")}
    assert len(drawn) == 6
    again = ("lab data", "import", "scenes", "--train", 3, "--val", 2, "--test", 1, "--workers", 1)
    for seed in (0, 1):
        assert hasse(*again, "--seed", seed, "--out", tmp_path / f"{seed}").status == 0
        others = {path.name: path.read_bytes() for path in (tmp_path / f"{seed}").rglob("*.jpg")}
        assert (others == drawn) == (seed == 0)


def test_ctrl_c_while_scenes_are_drawn_says_how_to_go_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupted(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("hasse.service.pipelines.scenes.generate", interrupted)
    stopped = hasse("lab data", "import", "scenes", "--out", tmp_path)
    assert stopped.status == 130
    assert stopped.err == "stopped: the same command draws the same scenes again\n"


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
    done = hasse(
        "lab data", "import", "coco", annotations, "--images", images, "-o", tmp_path / "coco"
    )
    assert done.status == 0, done.err
    (image,) = load(tmp_path / "coco").images
    assert (image.id, image.split, image.captions[0].id) == (391895, "val", 770337)
    command = ("lab data", "import", "coco", annotations, "--images", images, "--split", "test")
    assert hasse(*command, "-o", tmp_path / "test").status == 0
    assert load(tmp_path / "test").splits() == {"test": 1}


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
def test_import_of_nothing_usable_is_one_sentence_with_the_remedy(
    arguments: tuple[str, ...], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "empty.json").touch()
    (tmp_path / "broken.json").write_text('{"images": [')
    (tmp_path / "nothing").mkdir()
    failed = hasse("lab data", "import", *arguments, "--out", "out")
    assert failed.status == 1
    assert ":" in failed.error.removeprefix("error: ")
    assert not (tmp_path / "out" / "dataset.json").exists()
