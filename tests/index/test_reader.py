"""The next search of every process sees an announced change; what cannot be sent is no error."""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np
import pytest

from hasse.index.catalog.selection import Selection
from hasse.index.reader import NOTIFICATIONS, Notifications
from hasse.index.search.query import Query
from hasse.index.segments.change import Change
from hasse.index.store import Index
from tests.index.samples import images, small_index

POINT = np.ones(16, np.float32)


def open_files(folder: Path) -> int:
    links = (path for path in list(Path("/proc/self/fd").iterdir()) if path.is_symlink())
    return sum(link.readlink().is_relative_to(folder) for link in links)


def test_each_notification_differs_and_is_seen_by_all(tmp_path: Path) -> None:
    one, other = Notifications(tmp_path), Notifications(tmp_path)
    seen = [one.latest()]
    for sender in (one, other, one):
        sender.send()
        assert one.latest() == other.latest() == Notifications(tmp_path).latest()
        seen.append(one.latest())
    assert len(set(seen)) == 4


def test_notifications_that_cannot_be_written_are_still_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    writer = Notifications(tmp_path)
    writer.send()
    opened = os.open

    def read_only(path: Path, flags: int, mode: int = 0o777) -> int:
        if flags & os.O_RDWR:
            raise PermissionError
        return opened(path, flags, mode)

    monkeypatch.setattr(os, "open", read_only)
    reader = Notifications(tmp_path)
    assert reader.latest() == writer.latest()
    reader.send()
    assert reader.latest() == writer.latest()
    writer.send()
    assert reader.latest() == writer.latest()


def test_notifications_without_a_file_are_never_sent(tmp_path: Path) -> None:
    absent = Notifications(tmp_path / "absent")
    absent.send()
    assert absent.latest() == b""
    absent.close()


def test_every_kind_of_search_follows_an_announced_change(tmp_path: Path) -> None:
    with small_index(tmp_path / "i") as writer:
        readers = [Index.open(tmp_path / "i") for _ in range(4)]
        writer.add(images([70]), POINT[None])
        assert [reader.search(Query("image", 1), POINT).ids[0] == 70 for reader in readers] == [
            False
        ] * 4
        writer.announce()
        assert readers[0].search(Query("image", 1), POINT).ids[0] == 70
        assert readers[1].search_jointly(Query("image", 1), POINT[None]).ids[0] == 70
        assert list(readers[2].points("image", [70])) == [70]
        own = Selection(image_ids=(70,))
        assert readers[3].search(Query("image", 1, selection=own), POINT).ids.tolist() == [70]
        writer.change(Change(removed_by_name=[70]))
        writer.announce()
        assert [reader.search(Query("image", 1), POINT).ids[0] == 70 for reader in readers] == [
            False
        ] * 4
        for reader in readers:
            reader.close()


def test_announced_change_is_looked_for_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with small_index(tmp_path / "i") as writer, Index.open(tmp_path / "i") as reader:
        looked: list[int] = []
        generation = reader.catalog.generation

        def look() -> int:
            looked.append(generation())
            return looked[-1]

        monkeypatch.setattr(reader.catalog, "generation", look)
        reader.search(Query("image", 1), POINT)
        assert not looked
        writer.announce()
        for _ in range(3):
            reader.search(Query("image", 1), POINT)
        assert len(looked) == 1


def test_reader_failed_load_keeps_the_generation_and_tries_again(
    tmp_path: Path,
) -> None:
    with small_index(tmp_path / "i") as writer, Index.open(tmp_path / "i") as reader:
        before = set((tmp_path / "i" / "segments").iterdir())
        writer.add(images([70]), POINT[None])
        (added,) = set((tmp_path / "i" / "segments").iterdir()) - before
        added.rename(tmp_path / "elsewhere")
        writer.announce()
        assert reader.search(Query("image", 1), POINT).ids[0] != 70
        (tmp_path / "elsewhere").rename(added)
        assert reader.search(Query("image", 1), POINT).ids[0] == 70


def test_closed_index_leaves_no_file_open(tmp_path: Path) -> None:
    small_index(tmp_path / "i").close()
    assert (tmp_path / "i" / NOTIFICATIONS).exists()
    assert open_files(tmp_path) == 0
