"""A folder of ordinary photographs on a machine that has nothing but the clone."""

from __future__ import annotations

import json
import re
import shutil
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

from hasse.index.segments.change import Change
from hasse.index.store import Index
from hasse.index.text.sources import SourcedText
from hasse.models.checkpoints.checkpoint import Checkpoint
from hasse.service.cli.collection import additions
from hasse.service.writing.folders.scan import Scan, scan
from tests.service.cli.shapes import done, info
from tests.service.cli.shell import hasse
from tests.tiny import tiny_checkpoint

SIZES = ((640, 480), (480, 640), (1200, 300), (90, 90))


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


def test_a_new_library_loads_its_model_once(
    pictures: Path, tmp_path: Path, model: tuple[str, Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    loads: list[Path] = []

    def counted(folder: Path, device: str) -> Checkpoint:
        loads.append(folder)
        return loaded(folder, device)

    loaded = additions.load_checkpoint
    monkeypatch.setattr(additions, "load_checkpoint", counted)
    added = done(hasse("add", pictures, *model, "--library", tmp_path / "library"))
    assert f"{len(SIZES)} pictures added" in added.out
    assert loads == [model[1]]


def test_add_of_a_new_library_scans_its_folder_once(
    pictures: Path, tmp_path: Path, model: tuple[str, Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    scans: list[tuple[Path, ...]] = []

    def counted(paths: Sequence[Path], *options: Any, **named: Any) -> Scan:
        scans.append(tuple(paths))
        return scan(paths, *options, **named)

    monkeypatch.setattr(additions, "scan", counted)
    added = done(hasse("add", pictures, *model, "--library", tmp_path / "library"))
    assert f"{len(SIZES)} pictures added" in added.out
    assert scans == [(pictures,)]


def test_pictures_are_indexed_and_found_without_a_model_of_ones_own(
    pictures: Path, tmp_path: Path
) -> None:
    index = tmp_path / "index"
    added = done(hasse("add", pictures, "--library", index))
    assert f"{len(SIZES)} pictures added" in added.out
    about = info(index)
    assert (about["images"], about["model"]["name"]) == (len(SIZES), "photographs")
    shown = done(hasse("search", "a dog runs on the beach", "--library", index, "--json"))
    answer = json.loads(shown.out)
    assert answer["model"] == "photographs"
    assert len(answer["hits"]) == len(SIZES)
    assert answer["unknown_words"] == []
    assert all(0 <= hit["probability"] <= 1 for hit in answer["hits"])

    photograph(pictures / "new.jpg", (300, 200), 9)
    photograph(tmp_path / "other" / "one.jpg", (300, 200), 10)
    again = done(hasse("add", pictures, tmp_path / "other", "--library", index))
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
    link = "link to no file, mend or delete it"
    wrong = f"4 problems (not a picture: 2, {link}: 1, damaged picture: 1)"
    first = done(hasse("add", pictures, "--library", index, *model))
    assert first.out.strip() == f"{len(SIZES)} pictures added; {wrong}"
    assert first.err.count("cut.jpg") == 1
    again = done(hasse("add", pictures, "--library", index))
    assert again.out.strip() == f"0 pictures added; {len(SIZES)} were there already; {wrong}"


@pytest.mark.torch
def test_captions_that_the_model_cannot_read_are_named(
    pictures: Path, tmp_path: Path, model: tuple[str, Path]
) -> None:
    (pictures / "2024" / "IMG_0.txt").write_text("собака на траве\n")
    warning = "1 caption without a word that the model tiny knows, such as 'собака на траве'"
    added = done(hasse("add", pictures, "--library", tmp_path / "index", *model))
    assert warning in added.err
    done(hasse("lab data", "import", "folder", pictures, "--out", tmp_path / "data"))
    built = done(
        hasse("lab index build", tmp_path / "data", *model, "--library", tmp_path / "built")
    )
    assert warning in built.err


def test_added_pictures_without_captions_are_no_problem(
    pictures: Path, tmp_path: Path, model: tuple[str, Path]
) -> None:
    (pictures / "2024" / "IMG_0.txt").write_text("a dog")
    first = done(hasse("add", pictures, "--library", tmp_path / "index", *model))
    assert first.out.strip() == f"{len(SIZES)} pictures added; 1 caption added"
    assert "captions" not in first.err


def test_index_follows_a_folder_that_changes(
    pictures: Path, tmp_path: Path, model: tuple[str, Path]
) -> None:
    index = tmp_path / "index"
    done(hasse("add", pictures, "--library", index, *model))
    (pictures / "2024" / "IMG_0.jpg").rename(pictures / "beach.jpg")
    (pictures / "2024" / "IMG_1.jpg").unlink()
    photograph(pictures / "new.jpg", (300, 200), 9)
    (pictures / "beach.txt").write_text("a beach")
    line = "1 picture added, 1 moved, 1 removed; 1 caption added; 2 were there already"
    dry = done(hasse("sync", "--library", index, "--dry-run"))
    assert dry.out == f"nothing was changed; without --dry-run: {line}\n"
    differing = "files: 2 new, 2 gone; 'hasse sync' updates the library"
    assert differing in done(hasse("status", "--library", index)).out
    assert done(hasse("sync", "--library", index)).out == f"{line}\n"
    about = info(index)
    assert (about["images"], about["captions"]) == (4, 1)
    assert "nothing new, changed or gone" in done(hasse("status", "--library", index)).out
    refused = hasse("add", tmp_path / "nowhere", "--library", index)
    assert "there is no picture or folder" in refused.error


def test_sync_of_a_folder_that_is_missing_removes_nothing(
    pictures: Path, tmp_path: Path, model: tuple[str, Path]
) -> None:
    index = tmp_path / "index"
    done(hasse("add", pictures, "--library", index, *model))
    pictures.rename(tmp_path / "elsewhere")
    assert "is not there" in done(hasse("sync", "--library", index)).err
    assert re.search(rf"{pictures} +{len(SIZES)} +not there", hasse("status", "-l", index).out)
    removed = done(hasse("sync", "--library", index, "--allow-empty"))
    assert removed.out.startswith(f"0 pictures added, {len(SIZES)} removed")


def test_dry_run_counts_what_the_first_add_does_and_makes_no_library(
    pictures: Path, tmp_path: Path, model: tuple[str, Path]
) -> None:
    (pictures / "text.png").write_text("no picture")
    add = ("add", pictures, "--library", tmp_path / "index", *model)
    dry = done(hasse(*add, "--dry-run"))
    assert not (tmp_path / "index").exists()
    assert dry.out == f"nothing was changed; without --dry-run: {done(hasse(*add)).out}"


def test_library_is_not_made_among_pictures(pictures: Path, tmp_path: Path) -> None:
    for place in (pictures, pictures / "2024" / "library"):
        refused = hasse("add", pictures, "--library", place)
        assert "is a folder of pictures, and no place for a library" in refused.error
    (tmp_path / "other").mkdir()
    photograph(tmp_path / "other" / "one.jpg", (300, 200), 10)
    assert "no place for a library" in hasse("add", tmp_path / "other", "-l", pictures).error
    assert not list(pictures.rglob("catalog.db"))


def test_library_is_not_taken_for_a_folder_of_pictures(
    pictures: Path, tmp_path: Path, model: tuple[str, Path]
) -> None:
    done(hasse("add", pictures, "--library", tmp_path / "index", *model))
    refused = hasse("add", tmp_path / "index", "--library", tmp_path / "other")
    assert "is a library, not a folder of pictures" in refused.error


def test_removed_folder_goes_with_its_pictures_and_can_be_added_again(
    pictures: Path, tmp_path: Path, model: tuple[str, Path]
) -> None:
    index, other = tmp_path / "index", tmp_path / "other"
    shutil.copytree(pictures / "2024", other)
    photograph(other / "one.jpg", (300, 200), 10)
    done(hasse("add", pictures, other, "--library", index, *model))
    assert done(hasse("remove", pictures, "--library", index)).out == "0 pictures removed\n"
    assert done(hasse("remove", other, "--library", index)).out == "5 pictures removed\n"
    assert "no folders" in hasse("sync", "--library", index).error
    done(hasse("add", other, "--library", index))
    assert info(index)["images"] == len(SIZES) + 1
    nowhere = hasse("remove", tmp_path / "nowhere", "--library", index)
    assert "nothing in the library" in nowhere.error


def test_removed_picture_stays_out_until_it_is_added_by_name(
    pictures: Path, tmp_path: Path, model: tuple[str, Path]
) -> None:
    index, picture = tmp_path / "index", pictures / "2024" / "IMG_0.jpg"
    done(hasse("add", pictures, "--library", index, *model))
    assert done(hasse("remove", picture, "--library", index)).out == "1 picture removed\n"
    assert "removed before" in done(hasse("sync", "--library", index)).err
    assert done(hasse("add", picture, "--library", index)).out.startswith("1 picture added")


def test_remove_asks_before_it_takes_much_or_what_people_gave(
    pictures: Path, tmp_path: Path, model: tuple[str, Path]
) -> None:
    index = tmp_path / "index"
    done(hasse("add", pictures, "--library", index, *model))
    with Index.open(index) as opened:
        (image, *_), _ = opened.catalog.all_rows()
        texts = [SourcedText("added keyword", "zander")]
        opened.change(Change(given={image.sha256: texts}))
    path = opened.locations.absolute(image.path)
    for name in (path, pictures):
        refused = hasse("remove", name, "--library", index)
        assert refused.status == 1
        assert "kept: 1 text that people gave" in refused.error
    assert info(index)["images"] == len(SIZES)
    done(hasse("remove", pictures, "--library", index, "--yes"))
    shown = done(hasse("status", "--library", index)).out
    assert "kept: 1 text that people gave to 1 picture not in the library" in shown
    assert (
        "1 text of pictures that are gone"
        in hasse("remove", "--kept-texts", "--library", index).error
    )
    done(hasse("remove", "--kept-texts", "--yes", "--library", index))
    assert "people gave" not in done(hasse("status", "--library", index)).out


def test_status_calls_files_of_a_folder_that_is_away_out_of_reach(
    pictures: Path, tmp_path: Path, model: tuple[str, Path]
) -> None:
    index = tmp_path / "index"
    done(hasse("add", pictures, "--library", index, *model))
    pictures.rename(tmp_path / "away")
    shown = done(hasse("status", "--library", index)).out
    assert f"{len(SIZES)} files out of reach" in shown
    assert "gone" not in shown


def test_library_is_entered_by_its_owner_alone(
    pictures: Path, tmp_path: Path, model: tuple[str, Path]
) -> None:
    index = tmp_path / "index"
    done(hasse("add", pictures, "--library", index, *model))
    for place in (tmp_path / "backup", tmp_path / "backup.tar"):
        done(hasse("backup", place, "--library", index))
        assert place.stat().st_mode & 0o077 == 0
    done(hasse("restore", tmp_path / "backup", "--library", tmp_path / "restored"))
    for folder in (index, tmp_path / "restored"):
        assert folder.stat().st_mode & 0o077 == 0


@pytest.mark.slow
def test_verify_names_pictures_that_are_missing_or_changed(
    pictures: Path, tmp_path: Path, model: tuple[str, Path]
) -> None:
    index = tmp_path / "index"
    done(hasse("add", pictures, "--library", index, *model))
    assert "whole; " in done(hasse("status", "--verify", "--library", index)).out
    one, two = sorted((pictures / "2024").iterdir())[:2]
    one.unlink()
    photograph(two, (300, 200), 9)
    checked = hasse("status", "--verify", "--library", index)
    assert checked.status == 1
    assert (
        f"{one} of image 1 is missing\n{two} is no longer the picture of image 2\n" in checked.out
    )
    assert "whole, 2 pictures missing or changed" in checked.out
    status = json.loads(hasse("status", "--verify", "--library", index, "--json").out)
    checked_too = status["verification"]
    assert (checked_too["ok"], len(checked_too["pictures"])) == (False, 2)
    done(hasse("sync", "--library", index))
    done(hasse("status", "--verify", "--library", index))


@pytest.mark.slow
def test_empty_index_is_made_and_added_to(pictures: Path, tmp_path: Path) -> None:
    index = tmp_path / "index"
    made = done(hasse("lab index create", "--library", index))
    assert "0 images" in made.out
    shown = done(hasse("search", "a dog", "--library", index, "--json"))
    assert json.loads(shown.out)["hits"] == []
    done(hasse("add", pictures, "--library", index))
    assert info(index)["images"] == len(SIZES)


@pytest.mark.slow
def test_several_folders_make_one_index(
    pictures: Path, tmp_path: Path, model: tuple[str, Path]
) -> None:
    photograph(tmp_path / "other" / "one.jpg", (300, 200), 10)
    done(hasse("add", pictures, tmp_path / "other", "--library", tmp_path / "index", *model))
    about = info(tmp_path / "index")
    assert about["images"] == len(SIZES) + 1


@pytest.mark.slow
def test_table_of_captions_is_read_for_one_folder_and_never_passed_over(
    pictures: Path, tmp_path: Path, model: tuple[str, Path]
) -> None:
    table = tmp_path / "captions.csv"
    table.write_text("file_name,caption\n2024/IMG_0.jpg,a dog\n")
    add = ("add", "--library", tmp_path / "index", "--captions", table, *model)
    for paths in ([pictures / "2024" / "IMG_0.jpg"], [pictures, tmp_path]):
        assert "--captions is for one folder" in hasse(*add, *paths).error
    assert not (tmp_path / "index").exists()
    done(hasse(*add, pictures))
    about = info(tmp_path / "index")
    assert (about["images"], about["captions"]) == (len(SIZES), 1)


def test_model_of_the_demo_never_reads_pictures_of_a_person(pictures: Path, tmp_path: Path) -> None:
    refused = hasse("add", pictures, "--library", tmp_path / "index", "--model", "scenes")
    assert "knows drawn scenes only" in refused.error
    assert not (tmp_path / "index").exists()
    done(hasse("lab index create", "--library", tmp_path / "demo", "--model", "scenes"))
    for command in (("add", pictures), ("use", "scenes")):
        assert "drawn scenes only" in hasse(*command, "--library", tmp_path / "demo").error


def test_folder_without_pictures_makes_no_index(tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    outcome = hasse("add", tmp_path / "empty", "--library", tmp_path / "index")
    assert outcome.status == 1
    assert "picture" in outcome.error
    assert not (tmp_path / "index").exists()


def test_single_picture_whose_captions_cannot_be_read_costs_itself_only(
    pictures: Path, tmp_path: Path, model: tuple[str, Path]
) -> None:
    named = sorted((pictures / "2024").iterdir())
    named[0].with_suffix(".txt").touch()
    added = done(hasse("add", *named, "--library", tmp_path / "index", *model))
    problem = "captions that cannot be read"
    assert f"{len(SIZES)} pictures added; 1 problem ({problem}: 1)" in added.out
    assert problem in added.err
