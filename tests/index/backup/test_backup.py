"""A backup is whole, of one moment, and takes only what it lacks."""

from __future__ import annotations

import threading
from datetime import UTC, datetime
from pathlib import Path

import pytest

from hasse.index.backup.backup import back_up
from hasse.index.backup.restore import restore
from hasse.index.errors import BackupError, MissingIndexError
from hasse.index.segments.compaction import everything
from hasse.index.store import Index
from hasse.index.verify import verify
from tests.index.backup.libraries import answers, library, send, take_back
from tests.programs import outcomes_of


@pytest.mark.parametrize("name", ["backup", "backup.tar"])
def test_backup_restored_elsewhere_answers_as_the_library_did(name: str, tmp_path: Path) -> None:
    source = library(tmp_path / "library")
    made = back_up(source, tmp_path / name)
    restored = restore(tmp_path / name, tmp_path / "elsewhere" / "library", {})
    assert restored == made.manifest
    assert (restored.images, restored.captions) == (15, 27)
    assert verify(tmp_path / "elsewhere" / "library").findings == ()
    assert answers(tmp_path / "elsewhere" / "library") == answers(source)
    assert send_one(tmp_path / "elsewhere" / "library") == restored.generation + 1


def send_one(folder: Path) -> int:
    with Index.open(folder) as index:
        return send(index, [90])


def test_second_backup_to_a_folder_copies_what_is_new_and_drops_what_is_gone(
    tmp_path: Path,
) -> None:
    source, place = library(tmp_path / "library"), tmp_path / "backup"
    first = back_up(source, place)
    assert first.copied == len(first.manifest.files)
    kept = {path: path.stat().st_mtime_ns for path in (place / "segments").rglob("*.npy")}
    with Index.open(source) as index:
        send(index, [60])
        take_back(index, 50)
    second = back_up(source, place)
    new = second.manifest.files.keys() - first.manifest.files.keys()
    assert second.copied == len(new)
    assert {path: path.stat().st_mtime_ns for path in kept} == kept
    names = {path.relative_to(place).as_posix() for path in place.rglob("*") if path.is_file()}
    assert names == {*second.manifest.files, "backup.json"}
    assert back_up(source, place).copied == 0


def test_backup_during_writes_has_all_that_was_acknowledged_before_its_moment(
    tmp_path: Path,
) -> None:
    source = library(tmp_path / "library")
    done: list[tuple[str, int, int]] = []  # when it was acknowledged, and ids added and removed
    stop = threading.Event()

    def write() -> None:
        with Index.open(source, threads=1) as index:
            for at in range(100, 10_000):
                if stop.is_set():
                    return
                send(index, [at])
                gone = take_back(index, at - 2) if at > 103 else 0
                if at % 9 == 0:
                    index.compact(everything)
                done.append((now(), at, at - 2 if gone else 0))
                stop.wait(0.01)

    writer = threading.Thread(target=write)
    writer.start()
    try:
        made = [back_up(source, tmp_path / name) for name in ("one", "two.tar", "one")]
    finally:
        stop.set()
        writer.join()
    for at, name in ((1, "two.tar"), (2, "one")):
        folder = tmp_path / f"restored {at}"
        assert restore(tmp_path / name, folder, {}) == made[at].manifest
        assert verify(folder).findings == ()
        with Index.open(folder) as index:
            held = {image.id for image in index.catalog.all_rows()[0]}
        before = [line for line in done if line[0] < made[at].manifest.moment]
        assert before
        gone, last = {line[2] for line in before}, before[-1][1]
        assert not held & gone
        under_way = {last - 1}  # what the next write takes back
        assert {line[1] for line in before} - gone - under_way <= held
        assert max(held) <= last + 1, "nothing later than one write under way"


def now() -> str:
    return datetime.now(UTC).isoformat(timespec="milliseconds")


@pytest.mark.parametrize("attempts", [2, pytest.param(8, marks=pytest.mark.slow)])
def test_backup_killed_at_any_write_is_refused_or_the_one_before(
    attempts: int, tmp_path: Path
) -> None:
    outcomes = outcomes_of("tests.index.backup.kills", tmp_path, attempts)
    assert len(outcomes) == attempts * 3
    assert [outcome for outcome in outcomes if outcome["fault"]] == []


def test_backup_with_a_damaged_file_says_so_and_the_next_one_repairs_it(tmp_path: Path) -> None:
    source, place = library(tmp_path / "library"), tmp_path / "backup"
    back_up(source, place)
    points = sorted(place.rglob("points.npy"))[0]
    points.write_bytes(points.read_bytes()[:-1] + b"!")
    with pytest.raises(BackupError, match=r"points\.npy.* differs from the library"):
        back_up(source, place)
    assert back_up(source, place).copied == 1
    restore(place, tmp_path / "restored", {})


def test_backup_names_a_stored_picture_that_is_missing_and_leaves_it_out(tmp_path: Path) -> None:
    source = library(tmp_path / "library")
    picture = sorted((source / "pictures").rglob("*.jpg"))[0]
    picture.unlink()
    made = back_up(source, tmp_path / "backup")
    assert made.missing == (picture.relative_to(source).as_posix(),)
    assert made.manifest.files.keys().isdisjoint(made.missing)


def test_backup_is_refused_where_other_files_lie_and_without_a_library(tmp_path: Path) -> None:
    source = library(tmp_path / "library")
    (tmp_path / "other").mkdir()
    (tmp_path / "other" / "letter.txt").write_text("dear")
    (tmp_path / "there.tar").write_text("dear")
    with pytest.raises(BackupError, match=r"letter\.txt is no part of a backup"):
        back_up(source, tmp_path / "other")
    with pytest.raises(BackupError, match=r"letter\.txt is a file"):
        back_up(source, tmp_path / "other" / "letter.txt")
    with pytest.raises(BackupError, match=r"there\.tar exists"):
        back_up(source, tmp_path / "there.tar")
    with pytest.raises(MissingIndexError):
        back_up(tmp_path / "other", tmp_path / "new")
    assert not (tmp_path / "new").exists()
