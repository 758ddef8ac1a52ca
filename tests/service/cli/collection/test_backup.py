"""`hasse backup` and `hasse restore` say what was done, and what to do."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.index.backup.libraries import answers, library
from tests.service.cli.shell import hasse


@pytest.fixture(scope="module")
def source(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return library(tmp_path_factory.mktemp("source") / "library")


def test_backup_and_restore_name_the_moment_and_the_folders_that_are_not_there(
    source: Path, tmp_path: Path
) -> None:
    made = hasse("backup", tmp_path / "backup", "--library", source)
    assert made.status == 0
    assert "15 pictures, 27 captions: all that was answered before 20" in made.out
    assert "(generation 3)" in made.out
    again = hasse("backup", tmp_path / "backup", "--library", source)
    assert "0 files copied" in again.err
    back = hasse("restore", tmp_path / "backup", "--library", tmp_path / "back")
    assert back.status == 0
    assert "15 pictures, 27 captions, as of 20" in back.out
    assert f"not there: {source.parent}/photos/2024; 'hasse add FOLDER'" in back.err
    assert answers(tmp_path / "back") == answers(source)


def test_restore_takes_folders_from_relative_paths(
    source: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    hasse("backup", tmp_path / "backup", "--library", source)
    (tmp_path / "photos" / "2024").mkdir(parents=True)
    monkeypatch.chdir(tmp_path)
    moved = f"{source.parent}/photos=photos"
    back = hasse("restore", "backup", "--library", "back", "--folder", moved)
    assert back.status == 0
    assert "not there" not in back.err


@pytest.mark.parametrize("given", ["photos", "=photos", "photos="])
def test_restore_refuses_a_folder_without_its_new_place(given: str, tmp_path: Path) -> None:
    refused = hasse("restore", tmp_path, "--library", tmp_path / "back", "--folder", given)
    assert refused.error == f"error: --folder {given}: write it as --folder OLD=NEW"
