"""A backup is restored whole, or refused by name; folders may lie elsewhere."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from hasse.index.backup.backup import back_up
from hasse.index.backup.restore import restore
from hasse.index.errors import BackupError, IndexExistsError
from hasse.index.store import Index
from hasse.index.verify import verify
from tests.index.backup.libraries import answers, library
from tests.postgresql import new_database, place_catalog


@pytest.fixture(scope="module")
def source(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return library(tmp_path_factory.mktemp("source") / "library")


def without_manifest(place: Path) -> None:
    (place / "backup.json").unlink()


def without_a_file(place: Path) -> None:
    sorted(place.rglob("ids.npy"))[0].unlink()


def changed(place: Path) -> None:
    (path,) = place.glob("catalog-*.db")
    content = path.read_bytes()
    path.write_bytes(content[:5000] + bytes([content[5000] ^ 1]) + content[5001:])


def newer(place: Path) -> None:
    known = json.loads((place / "backup.json").read_text())
    (place / "backup.json").write_text(json.dumps(known | {"format": 99}))


@pytest.mark.parametrize(
    ("damage", "reason"),
    [
        (without_manifest, "was cut short"),
        (without_a_file, r"ids\.npy in .* is missing or was changed"),
        (changed, r"catalog-\w+\.db in .* is missing or was changed"),
        (newer, "format 99 of a newer version"),
    ],
)
def test_damaged_backup_is_refused_by_name_and_nothing_is_restored(
    damage: Callable[[Path], None], reason: str, source: Path, tmp_path: Path
) -> None:
    back_up(source, tmp_path / "backup")
    damage(tmp_path / "backup")
    with pytest.raises(BackupError, match=reason):
        restore(tmp_path / "backup", tmp_path / "restored", {})
    assert {path.name for path in tmp_path.iterdir()} == {"backup"}


@pytest.mark.parametrize("part", [0.1, 0.5, 0.9, 0.99])
def test_archive_cut_short_is_refused_by_name(part: float, source: Path, tmp_path: Path) -> None:
    place = tmp_path / "backup.tar"
    back_up(source, place)
    content = place.read_bytes()
    place.write_bytes(content[: int(part * len(content))])
    if content[len(place.read_bytes()) :].strip(b"\0"):  # more than the padding at the end
        with pytest.raises(BackupError, match=r"backup\.tar was cut short"):
            restore(place, tmp_path / "restored", {})
    assert not (tmp_path / "restored").exists()


def test_restore_finds_folders_at_their_new_places(source: Path, tmp_path: Path) -> None:
    back_up(source, tmp_path / "backup")
    old, new = source.parent / "photos", tmp_path / "disk" / "photos"
    (new / "2024").mkdir(parents=True)
    restore(tmp_path / "backup", tmp_path / "restored", {str(old): str(new)})
    with Index.open(tmp_path / "restored") as index:
        assert index.path_of(index.catalog.images([1])[1]) == new / "2024" / "1.jpg"
        assert index.locations.followed_folders == [new / "2024"]
    assert verify(tmp_path / "restored").findings == ()


def test_restore_refuses_a_folder_that_the_backup_does_not_know(
    source: Path, tmp_path: Path
) -> None:
    back_up(source, tmp_path / "backup")
    with pytest.raises(BackupError, match=r"has no folder /nowhere: .*photos/2024"):
        restore(tmp_path / "backup", tmp_path / "restored", {"/nowhere": "/elsewhere"})
    assert not (tmp_path / "restored").exists()


def test_restore_writes_over_nothing(source: Path, tmp_path: Path) -> None:
    back_up(source, tmp_path / "backup")
    with pytest.raises(IndexExistsError, match="is not empty"):
        restore(tmp_path / "backup", source, {})
    with pytest.raises(BackupError, match="there is no backup at"):
        restore(tmp_path / "nothing", tmp_path / "restored", {})


def test_backup_goes_from_sqlite_to_postgresql_and_back(source: Path, tmp_path: Path) -> None:
    back_up(source, tmp_path / "first")
    with new_database() as url:
        placed = place_catalog(tmp_path / "in a server", url)
        restore(tmp_path / "first", placed, {})
        assert verify(placed).findings == ()
        assert answers(placed) == answers(source)
        with pytest.raises(IndexExistsError):
            restore(tmp_path / "first", placed, {})
        made = back_up(placed, tmp_path / "second.tar")
    restored = restore(tmp_path / "second.tar", tmp_path / "restored", {})
    assert restored == made.manifest
    assert verify(tmp_path / "restored").findings == ()
    assert answers(tmp_path / "restored") == answers(source)
