"""Folders that move, that are away, that hold links, and what an index remembers of them."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from hasse.index.store import Index
from hasse.index.types import CaptionRow
from hasse.models.checkpoints.checkpoint import Checkpoint
from hasse.models.images.limits import PictureLimits
from hasse.service.core.searching import ShownPaths
from hasse.service.writing.folders.catalog_state import CatalogState
from hasse.service.writing.folders.encoders import Encoders
from hasse.service.writing.folders.plan import Counts
from hasse.service.writing.folders.scan import Scan, scan
from hasse.service.writing.folders.sync import FolderSync
from hasse.service.writing.image_source import ImageSource
from tests.service.writing.folders.folder import draw, state

Sync = Callable[..., Counts]


def shown(index: Index) -> list[str]:
    """Return the paths of all files as answers show them."""
    paths = ShownPaths(index, absolute=False)
    every = index.catalog.all_paths()
    return sorted(name for row in every for name in paths.shown("", [(row.path, row.folder)]))


def absolute(index: Index) -> list[str]:
    return sorted(index.locations.absolute(row.path) for row in index.catalog.all_paths())


def add_caption(index: Index, image_id: int, text: str) -> None:
    """Add a caption as the service does: it comes with no file."""
    row, point = CaptionRow(900 + image_id, image_id, text), np.ones((1, index.model.dimension))
    index.add([], point[:0], [row], point)


@pytest.fixture
def mounted(root: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder within the followed one that seems to lie on a device of its own."""
    disk = root / "disk"
    draw(disk / "four.png", 4)
    real = os.stat

    def stat(path: str | Path, **options: bool) -> os.stat_result:
        facts = real(path, **options)
        if str(path) == str(disk) and any(disk.iterdir()):
            values = list(facts)
            values[2] = 77
            return os.stat_result(values)
        return facts

    monkeypatch.setattr(os, "stat", stat)
    monkeypatch.setattr(Path, "stat", stat)
    return disk


def test_sync_keeps_pictures_of_a_disk_within_the_folder_that_is_away(
    index: Index, root: Path, sync: Sync, mounted: Path
) -> None:
    assert sync() == Counts(added=4)
    (mounted / "four.png").rename(root.parent / "four.png")
    (root / "three.png").unlink()
    folder_sync = FolderSync(index, scan([root], locations=index.locations), remove=True)
    assert "holds no pictures any more" in folder_sync.plan.unreachable[mounted]
    assert sync().removed == 1
    assert set(absolute(index)) == {
        *(f"{root}/a/one.png", f"{root}/a/two.png", f"{mounted}/four.png")
    }
    assert sync(allow_empty=True).removed == 1


def test_sync_removes_pictures_from_a_disk_within_the_folder_that_is_there(
    index: Index, sync: Sync, mounted: Path
) -> None:
    draw(mounted / "five.png", 5)
    sync()
    (mounted / "four.png").unlink()
    assert sync().removed == 1


def test_removed_image_stays_out_until_its_file_is_named(
    index: Index, root: Path, sync: Sync
) -> None:
    sync()
    index.remove([3])
    lines: list[str] = []
    assert sync(skipped=lines) == Counts(present=2)
    assert lines == ["three.png: removed before (add the file by name to take it back): skipped"]
    shutil.copy(root / "three.png", root / "copy.png")
    assert sync() == Counts(present=2)
    draw(root / "three.png", 33)  # edited in place
    assert sync() == Counts(present=2)
    assert sync(root / "three.png", remove=False).added == 1
    assert sync(root / "copy.png", remove=False).added == 1
    assert sync() == Counts(present=4)


def test_new_file_at_the_path_of_a_removed_one_that_is_gone_is_added(
    index: Index, root: Path, sync: Sync
) -> None:
    sync()
    index.remove([3])
    (root / "three.png").unlink()
    sync()
    draw(root / "three.png", 33)
    assert sync().added == 1


@pytest.mark.parametrize(
    "name", ["three.png_original", "three.png~", "three_original.png", "three.bak.png"]
)
def test_backup_beside_an_edited_picture_takes_neither_its_id_nor_its_captions(
    name: str, index: Index, root: Path, sync: Sync
) -> None:
    sync()
    add_caption(index, 3, "our cabin")
    (root / "three.png").rename(root / name)
    draw(root / "three.png", 33)
    assert sync() == Counts(added=1, changed=1, present=2)
    assert state(index, root)[3] == ("three.png", ["three.png"], ["our cabin"])
    (root / name).unlink()
    assert sync() == Counts(removed=1, present=3)
    assert state(index, root)[3][2] == ["our cabin"]


def test_folder_that_moved_is_known_by_its_files(index: Index, root: Path, sync: Sync) -> None:
    sync(exclude=["two.png"])
    moved = root.parent / "elsewhere" / "Photos"
    moved.parent.mkdir()
    root.rename(moved)
    assert sync(moved) == Counts(present=2)
    assert absolute(index) == [f"{moved}/a/one.png", f"{moved}/three.png"]
    assert shown(index) == ["a/one.png", "three.png"]
    assert index.path_of(index.catalog.images([1])[1]) == moved / "a/one.png"


def test_pictures_that_moved_into_another_folder_are_found_by_their_bytes(
    index: Index, root: Path, sync: Sync
) -> None:
    sync()
    other = root.parent / "other"
    other.mkdir()
    (root / "three.png").rename(other / "3.png")
    assert sync(other) == Counts(moved=1)
    assert state(index, other)[3][:2] == ("3.png", ["3.png"])


def test_index_that_moved_alone_finds_pictures_where_they_are(
    index: Index, root: Path, sync: Sync, tmp_path: Path
) -> None:
    sync()
    shutil.copytree(index.folder, tmp_path / "far" / "away" / "index")
    with Index.open(tmp_path / "far" / "away" / "index") as copy:
        assert absolute(copy) == absolute(index)


def test_index_that_moved_with_its_pictures_finds_them(
    index: Index, root: Path, sync: Sync, tmp_path: Path
) -> None:
    sync()
    for name in ("index", "pictures"):
        shutil.copytree(tmp_path / name, tmp_path / "copy" / name)
    with Index.open(tmp_path / "copy" / "index") as copy:
        assert (
            copy.path_of(copy.catalog.images([3])[3])
            == tmp_path / "copy" / "pictures" / "three.png"
        )
        assert shown(copy) == shown(index)


def test_paths_of_several_folders_begin_with_what_tells_them_apart(
    index: Index, root: Path, sync: Sync
) -> None:
    bob = root.parent / "bob" / "pictures"
    draw(bob / "three.png", 9)
    sync(root, bob)
    assert [path for path in shown(index) if path.endswith("three.png")] == [
        "bob/pictures/three.png",
        f"{root.parent.name}/pictures/three.png",
    ]


def test_part_of_a_followed_folder_keeps_the_paths_of_the_folder(
    index: Index, root: Path, sync: Sync
) -> None:
    sync()
    draw(root / "a" / "four.png", 4)
    (root / "three.png").unlink()
    assert sync(root / "a").added == 1
    assert shown(index) == ["a/four.png", "a/one.png", "a/two.png", "three.png"]


def test_excluded_files_stay_out_when_the_folder_is_synced_again(
    index: Index, root: Path, sync: Sync
) -> None:
    sync(exclude=["a/"])
    assert sync() == Counts(present=1)
    lines: list[str] = []
    assert sync(root / "a", skipped=lines) == Counts()
    assert "leaves out by --exclude" in lines[0]
    assert sync(exclude=["!a/"]).added == 2
    assert sync() == Counts(present=3)


def test_excluded_files_stay_out_when_a_folder_above_is_followed(
    index: Index, root: Path, sync: Sync
) -> None:
    draw(root.parent / "more" / "one.png", 7)
    sync(exclude=["one.png"])
    assert sync(root.parent).added == 1


def test_links_out_of_the_folder_are_followed_only_when_asked(
    index: Index, root: Path, sync: Sync, tmp_path: Path
) -> None:
    draw(tmp_path / "secret.png", 8)
    (tmp_path / "secret.txt").write_text("a secret")
    (root / "link.png").symlink_to(tmp_path / "secret.png")
    (root / "three.txt").symlink_to(tmp_path / "secret.txt")
    (root / "inside.png").symlink_to(root / "three.png")
    lines: list[str] = []
    assert sync(skipped=lines) == Counts(added=3, copies=1)
    why = "link out of the folder, --follow-links takes it: skipped"
    assert sorted(lines) == [f"link.png: {why}", f"three.txt: {why}"]
    assert sync(follow_links=True) == Counts(added=1, present=4, captions_added=1)
    assert sync() == Counts(present=5)


def test_link_to_no_file_is_named_as_one_and_takes_nothing_from_the_index(
    index: Index, root: Path, sync: Sync, tmp_path: Path
) -> None:
    sync()
    (root / "three.png").unlink()
    (root / "three.png").symlink_to("gone.png")
    for name, target in (
        ("out.png", tmp_path / "gone.png"),
        ("device.png", "/dev/zero"),
        ("circle.png", "circle.png"),
        ("words.png", "gone.png"),
    ):
        (root / name).symlink_to(target)
    (root / "three.txt").symlink_to(tmp_path / "gone.txt")
    lines: list[str] = []
    assert sync(skipped=lines) == Counts(present=2)
    names = ("circle.png", "device.png", "out.png", "three.png", "three.txt", "words.png")
    why = "link to no file, mend or delete it: skipped"
    assert sorted(lines) == [f"{name}: {why}" for name in names]


@pytest.mark.parametrize(
    ("name", "reason"),
    [
        ("link.png", "link to no file, mend or delete it"),
        ("circle.png", "link to no file, mend or delete it"),
        ("nothing.png", "file not found"),
        ("nothing", "folder that cannot be read"),
        ("circle", "folder that cannot be read"),
    ],
)
def test_scan_of_what_is_not_there_says_what_it_looked_for(
    name: str, reason: str, root: Path
) -> None:
    (root / "link.png").symlink_to("gone.png")
    (root / "circle.png").symlink_to("circle.png")
    (root / "circle").symlink_to("circle")
    assert list(scan([root / name]).skipped.by_reason) == [reason]


def test_file_that_became_a_link_out_of_the_folder_leads_out(
    index: Index, root: Path, sync: Sync, tmp_path: Path
) -> None:
    sync()
    draw(tmp_path / "secret.png", 8)
    assert not index.locations.leads_out(str(root / "three.png"))
    (root / "three.png").unlink()
    (root / "three.png").symlink_to(tmp_path / "secret.png")
    assert index.locations.leads_out(str(root / "three.png"))


def test_pipes_sparse_files_and_huge_captions_are_named_and_not_read(
    index: Index, root: Path, sync: Sync
) -> None:
    os.mkfifo(root / "pipe.png")
    os.mkfifo(root / "a" / "one.txt")
    with (root / "sparse.png").open("wb") as file:
        file.truncate(5 << 30)
    with (root / "three.txt").open("wb") as file:
        file.truncate(2 << 20)
    lines: list[str] = []
    assert sync(skipped=lines) == Counts(added=3)
    assert [line.partition(" (")[0].removesuffix(": skipped") for line in sorted(lines)] == [
        "a/one.txt: captions that cannot be read",
        "pipe.png: pipe, socket or device, --exclude leaves it out",
        "sparse.png: too large a file",
        "three.txt: captions that cannot be read",
    ]


def test_files_that_may_not_be_read_are_named(
    index: Index, root: Path, sync: Sync, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = os.open

    def refuse(path: str | Path, *flags: int) -> int:
        if str(path).endswith("three.png"):
            raise PermissionError(13, "Permission denied", str(path))
        return real(path, *flags)

    monkeypatch.setattr(os, "open", refuse)
    lines: list[str] = []
    assert sync(skipped=lines) == Counts(added=2)
    assert lines == ["three.png: file that cannot be read (Permission denied): skipped"]


def undecodable(root: Path) -> None:
    whole = (root / "three.png").read_bytes()
    for name in ("cut.png", "same.png"):
        (root / name).write_bytes(whole[:200])  # its header is whole
        os.utime(root / name, (5, 5))
    (root / "text.png").write_bytes(b"no picture")


def test_each_file_that_cannot_be_decoded_is_named_and_none_is_a_copy(
    index: Index, root: Path, sync: Sync
) -> None:
    undecodable(root)
    lines: list[str] = []
    assert sync(skipped=lines) == Counts(added=3)
    assert sorted(line.partition(":")[0] for line in lines) == ["cut.png", "same.png", "text.png"]


def test_dry_run_counts_as_the_run_does(index: Index, root: Path, sync: Sync) -> None:
    undecodable(root)
    encoders = Encoders(lambda: pytest.fail("nothing is encoded"), ImageSource)
    dry = FolderSync(index, scan([root]), remove=True).dry_run(encoders)
    assert sync() == dry


def test_broken_file_is_named_once_and_read_again_when_it_changed(
    index: Index, root: Path, sync: Sync, monkeypatch: pytest.MonkeyPatch, model: Checkpoint
) -> None:
    undecodable(root)
    later = 4e9  # as if the files had been at rest
    sync(seen_at=later)
    seen = scan([root])
    folder_sync = FolderSync(index, seen, remove=True)
    assert CatalogState.of(index, ()).files_to_hash(seen) == []
    assert folder_sync.apply(Encoders(lambda: model, ImageSource)) == Counts(present=3)
    assert seen.skipped.lines == []
    assert seen.skipped.passed_over == {"unreadable file, named before": 3}
    draw(root / "cut.png", 12)
    assert sync(seen_at=later) == Counts(added=1, present=3)
    (root / "same.png").unlink()
    sync(seen_at=later)
    assert [Path(file.path).name for file in index.catalog.unreadable_files()] == ["text.png"]


def test_file_above_a_limit_is_remembered_and_tried_again(
    index: Index, root: Path, model: Checkpoint
) -> None:
    Image.new("RGB", (90, 80)).save(root / "wide.png")

    def synced(limit: int) -> Counts:
        seen = scan([root])
        seen.seen_at = 4e9  # as if the files had been at rest
        source = ImageSource(limits=PictureLimits(limit))
        return FolderSync(index, seen, remove=True).apply(Encoders(lambda: model, lambda: source))

    assert synced(7000).added == 3
    wide = scan([root]).files[str(root / "wide.png")]
    state = CatalogState.of(index, ())
    assert state.has_failed_before(wide)
    assert not state.is_unreadable(wide)
    generation = index.catalog.generation()
    assert synced(7100) == Counts(present=3)
    assert index.catalog.generation() == generation  # nothing is written of what is known
    assert synced(7200).added == 1
    assert not index.catalog.unreadable_files()


def test_date_of_a_picture_follows_the_corrected_date_of_its_file(
    index: Index, root: Path, sync: Sync
) -> None:
    sync(seen_at=4e9)
    os.utime(root / "three.png", (1000, 1000))
    sync(seen_at=4e9)
    assert index.catalog.images([3])[3].taken == 1_000_001


def test_scan_of_a_folder_that_cannot_be_entered_names_its_files(
    root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = Path.stat

    def refuse(self: Path, **options: bool) -> os.stat_result:
        if self.name == "one.png":
            raise PermissionError(13, "Permission denied", str(self))
        return real(self, **options)

    monkeypatch.setattr(Path, "stat", refuse)
    scanned: Scan = scan([root])
    assert scanned.skipped.lines == [
        "a/one.png: file that cannot be read (Permission denied): skipped"
    ]
