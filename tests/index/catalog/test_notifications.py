"""What is announced the next search of every process sees; what cannot be said is no error."""

from __future__ import annotations

import os
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

from index.catalog.notifications import NEWS, News
from index.catalog.selection import Selection
from index.errors import DamagedIndexError
from index.store import Index
from tests.index.samples import images, small_index

POINT = np.ones(16, np.float32)


def open_files(folder: Path) -> int:
    links = (path for path in list(Path("/proc/self/fd").iterdir()) if path.is_symlink())
    return sum(link.readlink().is_relative_to(folder) for link in links)


def test_every_word_is_another_and_is_heard_by_all(tmp_path: Path) -> None:
    one, other = News(tmp_path), News(tmp_path)
    heard = [one.word()]
    for speaker in (one, other, one):
        speaker.spread()
        assert one.word() == other.word() == News(tmp_path).word()
        heard.append(one.word())
    assert len(set(heard)) == 4


def test_who_may_not_write_hears_all_the_same(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    writer = News(tmp_path)
    writer.spread()
    opened = os.open

    def read_only(path: Path, flags: int, mode: int = 0o777) -> int:
        if flags & os.O_RDWR:
            raise PermissionError
        return opened(path, flags, mode)

    monkeypatch.setattr(
        "index.catalog.notifications.os", SimpleNamespace(**vars(os) | {"open": read_only})
    )
    reader = News(tmp_path)
    assert reader.word() == writer.word()
    reader.spread()
    assert reader.word() == writer.word()
    writer.spread()
    assert reader.word() == writer.word()


def test_without_a_file_there_is_no_news(tmp_path: Path) -> None:
    absent = News(tmp_path / "absent")
    absent.spread()
    assert absent.word() == b""
    absent.close()


def test_every_kind_of_question_follows_what_was_announced(tmp_path: Path) -> None:
    with small_index(tmp_path / "i") as writer:
        readers = [Index.open(tmp_path / "i") for _ in range(4)]
        writer.add(images([70]), POINT[None])
        assert [reader.search("image", POINT, 1).ids[0] == 70 for reader in readers] == [False] * 4
        writer.announce()
        assert readers[0].search("image", POINT, 1).ids[0] == 70
        assert readers[1].search_jointly("image", POINT[None], 1).ids[0] == 70
        assert list(readers[2].points("image", [70])) == [70]
        own = Selection(image_ids=(70,))
        assert readers[3].search("image", POINT, 1, selection=own).ids.tolist() == [70]
        writer.remove([70])
        writer.announce()
        assert [reader.search("image", POINT, 1).ids[0] == 70 for reader in readers] == [False] * 4
        for reader in readers:
            reader.close()


def test_what_was_announced_is_looked_for_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with small_index(tmp_path / "i") as writer, Index.open(tmp_path / "i") as reader:
        looked: list[int] = []
        generation = reader.catalog.generation

        def look() -> int:
            looked.append(generation())
            return looked[-1]

        monkeypatch.setattr(reader.catalog, "generation", look)
        reader.search("image", POINT, 1)
        assert not looked
        writer.announce()
        for _ in range(3):
            reader.search("image", POINT, 1)
        assert len(looked) == 1


def test_a_search_goes_on_without_what_it_cannot_load_and_asks_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with small_index(tmp_path / "i") as writer, Index.open(tmp_path / "i") as reader:
        writer.add(images([70]), POINT[None])
        writer.announce()
        with monkeypatch.context() as broken:

            def load(before: object) -> object:
                raise DamagedIndexError("cannot be opened")

            broken.setattr(reader._loader, "load", load)
            assert reader.search("image", POINT, 1).ids[0] != 70
        assert reader.search("image", POINT, 1).ids[0] == 70


def test_an_index_leaves_no_file_open(tmp_path: Path) -> None:
    small_index(tmp_path / "i").close()
    assert (tmp_path / "i" / NEWS).exists()
    assert open_files(tmp_path) == 0
