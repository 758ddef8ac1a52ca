"""A folder of ordinary photographs on a machine that has nothing but the clone."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from tests.service.cli.shell import Outcome, hasse
from tests.tiny import tiny_checkpoint

SIZES = ((640, 480), (480, 640), (1200, 300), (90, 90))


def done(outcome: Outcome) -> Outcome:
    assert outcome.status == 0, outcome.err
    return outcome


def photograph(path: Path, size: tuple[int, int], seed: int) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    colours = np.random.default_rng(seed).integers(0, 256, (4, 4, 3), dtype=np.uint8)
    Image.fromarray(colours).resize(size).save(path)


@pytest.fixture
def pictures(tmp_path: Path) -> Path:
    folder = tmp_path / "Pictures"
    for at, size in enumerate(SIZES):
        photograph(folder / "2024" / f"IMG_{at}.jpg", size, at)
    return folder


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> tuple[str, Path]:
    """The option that names a tiny model, where it does not matter which it is."""
    return "--model", tiny_checkpoint(tmp_path_factory.mktemp("model"))


def test_pictures_are_indexed_and_found_without_a_model_of_ones_own(
    pictures: Path, tmp_path: Path
) -> None:
    index = tmp_path / "index"
    added = done(hasse("index", "add", index, pictures))
    assert f"{len(SIZES)} pictures added" in added.out
    about = json.loads(done(hasse("index", "info", index, "--json")).out)
    assert (about["images"], about["model"]["name"]) == (len(SIZES), "photographs")
    found = done(hasse("search", "a dog runs on the beach", "--library", index, "--json"))
    answer = json.loads(found.out)
    assert answer["model"] == "photographs"
    assert len(answer["hits"]) == len(SIZES)
    assert answer["unknown_words"] == []
    assert all(0 <= hit["probability"] <= 1 for hit in answer["hits"])

    photograph(pictures / "new.jpg", (300, 200), 9)
    photograph(tmp_path / "other" / "one.jpg", (300, 200), 10)
    again = done(hasse("index", "add", index, pictures, tmp_path / "other"))
    assert "2 pictures added" in again.out


@pytest.mark.slow
def test_files_left_out_are_told_once_and_counted(
    pictures: Path, tmp_path: Path, model: tuple[str, Path]
) -> None:
    index = tmp_path / "index"
    whole = (pictures / "2024" / "IMG_0.jpg").read_bytes()
    (pictures / "cut.jpg").write_bytes(whole[: len(whole) // 2])
    (pictures / "empty.jpg").touch()
    (pictures / "gone.jpg").symlink_to(pictures / "nowhere.jpg")
    (pictures / "text.png").write_text("no picture")
    wrong = "4 problems (not a picture: 2, file not found: 1, damaged picture: 1); generation "
    first = done(hasse("index", "add", index, pictures, *model))
    assert first.out.strip() == f"{len(SIZES)} pictures added; {wrong}1"
    assert first.err.count("cut.jpg") == 1
    again = done(hasse("index", "add", index, pictures))
    # A slow machine makes a second generation: times of files younger than two seconds are new.
    assert again.out.startswith(f"0 pictures added; {len(SIZES)} were there already; {wrong}")


def test_captions_that_the_model_cannot_read_are_named(
    pictures: Path, tmp_path: Path, model: tuple[str, Path]
) -> None:
    (pictures / "2024" / "IMG_0.txt").write_text("собака на траве\n")
    said = "1 caption without a word that the model tiny knows, such as 'собака на траве'"
    added = done(hasse("index", "add", tmp_path / "index", pictures, *model))
    assert said in added.err
    done(hasse("lab data", "import", "folder", pictures, "--out", tmp_path / "data"))
    built = done(hasse("index", "build", tmp_path / "data", *model, "--out", tmp_path / "built"))
    assert said in built.err


def test_added_pictures_without_captions_are_no_problem(
    pictures: Path, tmp_path: Path, model: tuple[str, Path]
) -> None:
    (pictures / "2024" / "IMG_0.txt").write_text("a dog")
    first = done(hasse("index", "add", tmp_path / "index", pictures, *model))
    assert first.out.strip() == f"{len(SIZES)} pictures added; 1 caption added; generation 1"
    assert "captions" not in first.err


def test_search_for_captions_where_there_are_none_says_so(
    pictures: Path, tmp_path: Path, model: tuple[str, Path]
) -> None:
    index, (one, *_) = tmp_path / "index", sorted(pictures.rglob("*.jpg"))
    done(hasse("index", "add", index, one, *model))
    found = done(hasse("search", one, "--library", index))
    assert "there are no captions to search: these are images like it" in found.err
    assert one.name in found.out


def test_index_follows_a_folder_that_changes(
    pictures: Path, tmp_path: Path, model: tuple[str, Path]
) -> None:
    index = tmp_path / "index"
    done(hasse("index", "add", index, pictures, *model))
    (pictures / "2024" / "IMG_0.jpg").rename(pictures / "beach.jpg")
    (pictures / "2024" / "IMG_1.jpg").unlink()
    photograph(pictures / "new.jpg", (300, 200), 9)
    (pictures / "beach.txt").write_text("a beach")
    added = done(hasse("index", "add", index, pictures))
    assert "1 picture added, 1 moved; 1 caption added; 2 were there already" in added.out
    assert str(pictures / "2024" / "IMG_1.jpg") in added.err
    assert f"hasse index sync {index} {pictures}" in added.err
    dry = done(hasse("index", "sync", index, pictures, "--dry-run"))
    line = "0 pictures added, 1 removed; 4 were there already; generation"
    assert dry.out.startswith(line)
    assert dry.out.strip().endswith("nothing was changed (--dry-run)")
    assert done(hasse("index", "sync", index, pictures)).out.startswith(line)
    about = json.loads(done(hasse("index", "info", index, "--json")).out)
    assert (about["images"], about["captions"]) == (4, 1)
    refused = hasse("index", "sync", index, tmp_path / "nowhere")
    assert "there is no picture or folder" in refused.error


@pytest.mark.slow
def test_verify_names_pictures_that_are_missing_or_changed(
    pictures: Path, tmp_path: Path, model: tuple[str, Path]
) -> None:
    index = tmp_path / "index"
    done(hasse("index", "add", index, pictures, *model))
    assert ": whole; " in done(hasse("index", "verify", index)).out
    one, two = sorted((pictures / "2024").iterdir())[:2]
    one.unlink()
    photograph(two, (300, 200), 9)
    checked = hasse("index", "verify", index)
    assert checked.status == 1
    assert (
        f"{one} of image 1 is missing\n{two} is no longer the picture of image 2\n" in checked.out
    )
    assert "whole, 2 pictures missing or changed" in checked.out
    found = json.loads(hasse("index", "verify", index, "--json").out)
    assert (found["ok"], len(found["pictures"])) == (False, 2)
    done(hasse("index", "sync", index, pictures))
    done(hasse("index", "verify", index))


@pytest.mark.slow
def test_empty_index_is_made_and_added_to(pictures: Path, tmp_path: Path) -> None:
    index = tmp_path / "index"
    made = done(hasse("index", "create", index))
    assert "0 images" in made.out
    found = done(hasse("search", "a dog", "--library", index, "--json"))
    assert json.loads(found.out)["hits"] == []
    done(hasse("index", "sync", index, pictures))
    about = json.loads(done(hasse("index", "info", index, "--json")).out)
    assert about["images"] == len(SIZES)


@pytest.mark.slow
def test_several_folders_make_one_index(
    pictures: Path, tmp_path: Path, model: tuple[str, Path]
) -> None:
    photograph(tmp_path / "other" / "one.jpg", (300, 200), 10)
    done(hasse("index", "add", tmp_path / "index", pictures, tmp_path / "other", *model))
    about = json.loads(done(hasse("index", "info", tmp_path / "index", "--json")).out)
    assert about["images"] == len(SIZES) + 1


@pytest.mark.slow
def test_table_of_captions_is_read_for_one_folder_and_never_passed_over(
    pictures: Path, tmp_path: Path, model: tuple[str, Path]
) -> None:
    table = tmp_path / "captions.csv"
    table.write_text("file_name,caption\n2024/IMG_0.jpg,a dog\n")
    add = ("index", "add", tmp_path / "index", "--captions", table, *model)
    for paths in ([pictures / "2024" / "IMG_0.jpg"], [pictures, tmp_path]):
        assert "--captions is for one folder" in hasse(*add, *paths).error
    assert not (tmp_path / "index").exists()
    done(hasse(*add, pictures))
    about = json.loads(done(hasse("index", "info", tmp_path / "index", "--json")).out)
    assert (about["images"], about["captions"]) == (len(SIZES), 1)


def test_built_in_model_is_chosen_by_name(pictures: Path, tmp_path: Path) -> None:
    done(hasse("index", "add", tmp_path / "index", pictures, "--model", "scenes"))
    about = json.loads(done(hasse("index", "info", tmp_path / "index", "--json")).out)
    assert about["model"]["name"] == "scenes"


def test_folder_without_pictures_makes_no_index(tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    outcome = hasse("index", "add", tmp_path / "index", tmp_path / "empty")
    assert outcome.status == 1
    assert "picture" in outcome.error
    assert not (tmp_path / "index").exists()


def test_single_picture_whose_captions_cannot_be_read_costs_itself_only(
    pictures: Path, tmp_path: Path, model: tuple[str, Path]
) -> None:
    named = sorted((pictures / "2024").iterdir())
    named[0].with_suffix(".txt").touch()
    added = done(hasse("index", "add", tmp_path / "index", *named, *model))
    problem = "captions that cannot be read"
    assert f"{len(SIZES)} pictures added; 1 problem ({problem}: 1); generation 1" in added.out
    assert problem in added.err
