"""A folder that changes, and the index that follows it."""

from __future__ import annotations

import os
import shutil
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from hasse.index.durable import sha256
from hasse.index.segments.change import Change
from hasse.index.store import Index
from hasse.index.types import CaptionRow, FolderRow, ImageRow
from hasse.models.checkpoints.checkpoint import Checkpoint
from hasse.models.images.codecs import DecodedPicture
from hasse.models.images.decoding import decode
from hasse.service.writing import image_source
from hasse.service.writing.folders.catalog_state import CatalogState
from hasse.service.writing.folders.encoders import Encoders
from hasse.service.writing.folders.plan import Counts
from hasse.service.writing.folders.scan import scan
from hasse.service.writing.folders.sync import FolderSync
from hasse.service.writing.image_source import ImageSource
from tests.service.writing.folders.folder import draw, state


def test_new_pictures_are_added_with_their_captions_dates_and_paths(
    index: Index, root: Path, sync: Callable[..., Counts]
) -> None:
    (root / "three.txt").write_text("a dog\n\n a  cat \n")
    assert sync() == Counts(added=3, captions_added=2)
    assert state(index, root) == {
        1: ("a/one.png", ["a/one.png"], []),
        2: ("a/two.png", ["a/two.png"], []),
        3: ("three.png", ["three.png"], ["a dog", "a cat"]),
    }
    row = index.catalog.images([1])[1]
    assert (row.width, row.height) == (64, 48)
    assert row.taken == (root / "a/one.png").stat().st_mtime_ns // 1_000_000
    assert list(index.locations.folders.values()) == [
        FolderRow(str(root), str(root), "../pictures", root.stat().st_dev)
    ]


def test_unchanged_files_are_neither_read_nor_written(
    index: Index, root: Path, sync: Callable[..., Counts]
) -> None:
    before_now = time.time() + 100  # as if the files had been at rest
    sync(seen_at=before_now)
    generation = index.generation
    assert CatalogState.of(index, ()).files_to_hash(scan([root])) == []
    assert sync() == Counts(present=3)
    assert index.generation == generation


def test_file_that_was_just_written_is_read_again(
    index: Index, root: Path, sync: Callable[..., Counts]
) -> None:
    sync(seen_at=(root / "a/one.png").stat().st_mtime)  # written first
    assert len(CatalogState.of(index, ()).files_to_hash(scan([root]))) == 3


def test_moved_and_renamed_picture_keeps_its_id_and_point(
    index: Index, root: Path, sync: Callable[..., Counts]
) -> None:
    sync()
    point = index.points("image", [1])[1].tolist()
    (root / "b").mkdir()
    (root / "a/one.png").rename(root / "b/renamed.png")
    assert sync() == Counts(moved=1, present=2)
    assert state(index, root)[1] == ("b/renamed.png", ["b/renamed.png"], [])
    assert index.points("image", [1])[1].tolist() == point


def test_two_pictures_that_changed_places_keep_their_ids(
    index: Index, root: Path, sync: Callable[..., Counts]
) -> None:
    sync()
    (root / "a/one.png").rename(root / "x.png")
    (root / "a/two.png").rename(root / "a/one.png")
    (root / "x.png").rename(root / "a/two.png")
    sync()
    found = state(index, root)
    assert (found[1][0], found[2][0], len(found)) == ("a/two.png", "a/one.png", 3)


def test_changed_picture_keeps_its_id_and_gets_another_point(
    index: Index, root: Path, sync: Callable[..., Counts]
) -> None:
    (root / "a/one.txt").write_text("a dog")
    sync()
    point, sha256 = index.points("image", [1])[1].tolist(), index.catalog.images([1])[1].sha256
    draw(root / "a/one.png", 77)
    assert sync() == Counts(changed=1, present=2)
    assert index.points("image", [1])[1].tolist() != point
    assert index.catalog.images([1])[1].sha256 != sha256
    assert state(index, root)[1] == ("a/one.png", ["a/one.png"], ["a dog"])
    assert index.info().images == 3


def test_changed_picture_whose_old_bytes_are_elsewhere_is_a_new_image(
    index: Index, root: Path, sync: Callable[..., Counts]
) -> None:
    sync()
    (root / "a/one.png").rename(root / "first.png")
    draw(root / "a/one.png", 77)
    sync()
    found = state(index, root)
    assert found[1][:2] == ("first.png", ["first.png"])
    assert found[4][:2] == ("a/one.png", ["a/one.png"])


def test_copies_are_paths_of_one_image_that_has_the_captions_of_all(
    index: Index, root: Path, sync: Callable[..., Counts]
) -> None:
    shutil.copy(root / "three.png", root / "copy.png")
    (root / "three.txt").write_text("a dog\n")
    (root / "copy.txt").write_text("a dog\na cat\n")
    assert sync() == Counts(added=3, copies=1, captions_added=2)
    (id_,) = [id_ for id_, row in state(index, root).items() if "three.png" in row[1]]
    assert state(index, root)[id_][1:] == (["copy.png", "three.png"], ["a dog", "a cat"])
    (root / "copy.png").unlink()
    assert sync() == Counts(present=3, captions_removed=1)
    assert state(index, root)[id_] == ("three.png", ["three.png"], ["a dog"])
    (root / "three.png").unlink()
    assert sync() == Counts(present=2, removed=1)
    assert id_ not in state(index, root)


def test_captions_are_added_changed_and_removed_but_not_those_of_others(
    index: Index, root: Path, sync: Callable[..., Counts]
) -> None:
    (root / "a/one.txt").write_text("a dog\na cat\n")
    sync()
    (root / "a/one.txt").write_text("a cat\na child\n")
    (root / "a/two.txt").write_text("a park\n")
    assert sync() == Counts(present=3, captions_added=2, captions_removed=1)
    assert state(index, root)[1][2] == ["a cat", "a child"]
    table = root.parent / "captions.csv"
    table.write_text("file_name,caption\na/one.png,a red dog\n")
    assert sync(captions=table).captions_added == 1
    (root / "a/one.txt").unlink()
    assert sync().captions_removed == 2
    assert state(index, root)[1][2] == ["a red dog"]
    table.write_text("file_name,caption\na/two.png,a blue dog\n")
    assert sync(captions=table) == Counts(present=3, captions_added=1, captions_removed=1)
    assert state(index, root)[2][2] == ["a park", "a blue dog"]


def test_without_removal_what_vanished_stays_and_is_named(
    index: Index, root: Path, sync: Callable[..., Counts]
) -> None:
    sync()
    (root / "three.png").unlink()
    (root / "a/one.png").rename(root / "moved.png")
    plan = FolderSync(index, scan([root]), remove=False).plan
    assert plan.missing_files == [str(root / "three.png")]
    assert sync(remove=False).removed == 0
    assert state(index, root)[3][1] == ["three.png"]
    assert state(index, root)[1][1] == ["moved.png"]


def test_only_files_below_the_named_folders_vanish(
    index: Index, root: Path, sync: Callable[..., Counts]
) -> None:
    sync()
    shutil.rmtree(root / "a")
    (root / "three.png").unlink()
    draw(root / "b/four.png", 9)
    sync(root / "b")
    assert set(state(index, root)) == {1, 2, 3, 4}
    sync(root)
    assert set(state(index, root)) == {4}


@pytest.mark.parametrize(
    ("fate", "why"),
    [
        ("missing", "is not there"),
        ("empty", "holds no pictures any more"),
        ("moved", "is on another device"),
    ],
)
def test_folder_that_is_out_of_reach_loses_nothing_unless_told(
    fate: str, why: str, index: Index, root: Path, sync: Callable[..., Counts]
) -> None:
    sync()
    gone = {1, 2, 3}
    if fate == "missing":
        root.rename(root.parent / "elsewhere")
    elif fate == "empty":
        shutil.rmtree(root)
        root.mkdir()
    else:
        (root / "three.png").unlink()
        remember_device(index, 123456)
        gone = {3}
    plan = FolderSync(index, scan([root]), remove=True).plan
    assert why in plan.unreachable[root]
    assert plan.removed_images == []
    sync()
    assert set(state(index, root)) == {1, 2, 3}
    assert sync(allow_empty=True).removed == len(gone)
    assert set(state(index, root)) == {1, 2, 3} - gone


def remember_device(index: Index, device: int) -> None:
    (row,) = index.locations.folders.values()
    index.change(Change(folders=[row._replace(device=device)]))


def test_sub_folder_that_cannot_be_read_is_unknown(
    index: Index, root: Path, sync: Callable[..., Counts], monkeypatch: pytest.MonkeyPatch
) -> None:
    draw(root / "four.png", 9)
    sync()
    (root / "three.png").unlink()
    real = os.scandir

    def refuse(place: str) -> object:
        if str(place).endswith("/a"):
            raise PermissionError(13, "Permission denied", str(place))
        return real(place)

    monkeypatch.setattr(os, "scandir", refuse)
    assert sync().removed == 1
    kept = {row[0] for row in state(index, root).values()}
    assert kept == {"a/one.png", "a/two.png", "four.png"}


def test_file_that_is_no_picture_any_more_is_told_and_its_image_stays(
    index: Index, root: Path, sync: Callable[..., Counts]
) -> None:
    sync()
    whole = (root / "three.png").read_bytes()
    (root / "three.png").write_bytes(whole[:20])
    (root / "new.png").write_bytes(b"")
    seen = scan([root])
    folder_sync = FolderSync(index, seen, remove=True)
    folder_sync.dry_run(Encoders(lambda: pytest.fail("nothing is encoded"), ImageSource))
    assert [line.partition(":")[0] for line in folder_sync.scan.skipped.lines] == [
        "new.png",
        "three.png",
    ]
    assert folder_sync.plan.removed_images == []
    sync()
    assert set(state(index, root)) == {1, 2, 3}


def test_pictures_that_stay_damaged_do_not_load_the_model(
    index: Index, root: Path, sync: Callable[..., Counts]
) -> None:
    sync()
    whole = (root / "three.png").read_bytes()
    for name in ("cut.png", "too.png"):
        (root / name).write_bytes(whole[:200] + name.encode())  # its header is whole

    def load() -> Checkpoint:
        raise AssertionError("there is nothing to encode")

    folder_sync = FolderSync(index, scan([root], index_folder=index.folder), remove=True)
    assert folder_sync.apply(Encoders(load, ImageSource)) == Counts(present=3)
    assert folder_sync.scan.skipped.by_reason["damaged picture"] == 2
    draw(root / "new.png", 7)
    assert sync() == Counts(added=1, present=3)


def test_file_that_changes_while_it_is_read_is_added_by_the_next_sync(
    index: Index, root: Path, sync: Callable[..., Counts], monkeypatch: pytest.MonkeyPatch
) -> None:
    def changing(path: Path, *how: Any) -> DecodedPicture:
        found = decode(path, *how)
        if path.name == "three.png":
            draw(path, 9)
        return found

    with monkeypatch.context() as patch:
        patch.setattr(image_source, "decode", changing)
        assert sync().added == 2
    assert sync() == Counts(added=1, present=2)
    row = index.catalog.images([3])[3]
    assert row.sha256 == sha256(root / "three.png")


def test_files_of_the_index_in_the_folder_are_not_taken(
    index: Index, root: Path, sync: Callable[..., Counts]
) -> None:
    draw(index.folder / "pictures" / "ab" / "mine.png", 5)
    assert sync(root.parent).added == 3


def test_largest_id_of_64_bits_leaves_room_for_more(
    index: Index, root: Path, sync: Callable[..., Counts]
) -> None:
    largest = 2**63 - 1
    points = np.ones((1, index.model.dimension), np.float32)
    index.add([ImageRow(largest, "x", "x")], points, [CaptionRow(largest, largest, "a")], points)
    (root / "a/one.txt").write_text("a dog")
    sync()
    assert set(state(index, root)) == {1, 2, 3, largest}
    assert set(index.catalog.captions([1])) == {1}


def test_image_with_one_file_replaced_and_its_copy_broken_stays_with_the_copy(
    index: Index, root: Path, sync: Callable[..., Counts]
) -> None:
    (root / "three.txt").write_text("a dog")
    shutil.copy(root / "three.png", root / "copy.png")
    sync()
    three = next(id_ for id_, (*_, captions) in state(index, root).items() if captions)
    draw(root / "three.png", 9)
    (root / "copy.png").write_bytes(b"\x89PNG\r\n\x1a\n broken")
    assert sync(skipped=[]).added == 1
    assert state(index, root)[three][1] == ["copy.png"]
