from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.models.images.test_perceptual_hash import photograph
from tests.service.cli.shell import hasse
from tests.service.pipelines.test_duplicates import library


@pytest.fixture
def place(tmp_path: Path) -> Path:
    """A library of two versions of one picture, one with a line end in its name, and another."""
    photograph(0).save(tmp_path / "large.png")
    photograph(0).resize((200, 150)).save(tmp_path / "small\n1.jpg")
    photograph(1).save(tmp_path / "other.png")
    library(tmp_path, [["small\n1.jpg"], ["large.png"], ["other.png"]]).close()
    return tmp_path


def test_duplicates_prints_groups_with_the_largest_first(place: Path) -> None:
    found = hasse("duplicates", "--library", place / "index")
    assert found.status == 0
    lines = found.out.splitlines()
    assert "same picture" in lines[1]
    assert lines[1].endswith(str(place / "large.png"))
    assert lines[2].endswith(r"small\n1.jpg")
    assert len(lines) == 3
    assert "1 group; 1 file beside the first" in found.err


def test_duplicates_prints_paths_that_may_go_for_other_programs(place: Path) -> None:
    found = hasse("duplicates", "--library", place / "index", "--paths", "-0")
    assert found.out == f"{place / 'small'}\n1.jpg\0"


def test_duplicates_prints_json_and_deletes_nothing(place: Path) -> None:
    before = sorted(place.iterdir())
    (group,) = json.loads(hasse("duplicates", "--library", place / "index", "--json").out)
    assert group["same"] == "picture"
    assert [file["image_id"] for file in group["files"]] == [2, 1]
    assert sorted(place.iterdir()) == before


@pytest.mark.parametrize("wrong", [["--json", "--paths"], ["-0"]])
def test_duplicates_refuses_options_that_contradict_each_other(
    wrong: list[str], place: Path
) -> None:
    found = hasse("duplicates", "--library", place / "index", *wrong)
    assert found.status == 1
    assert "--paths" in found.error
