from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from pathlib import Path
from threading import Event, Thread

import pytest

from hasse.index.errors import IndexLockedError
from hasse.index.store import Index
from hasse.models.checkpoints.checkpoint import Checkpoint
from hasse.service.writing import indexing
from hasse.service.writing.folders.encoders import Encoders
from hasse.service.writing.folders.forget import forget
from hasse.service.writing.folders.scan import FileStamp
from hasse.service.writing.folders.watch import FolderWatch, is_on_network
from hasse.service.writing.image_source import ImageSource
from tests.service.writing.folders.folder import State, draw, remember, state


@pytest.fixture
def root(tmp_path: Path) -> Path:
    draw(tmp_path / "pictures" / "one.png", 1)
    return tmp_path / "pictures"


@pytest.fixture
def index(root: Path, model: Checkpoint) -> Iterator[Index]:
    # In the folder that is followed: what it writes itself must not wake it.
    with Index.create(root / "index", indexing.identity_of(model), threads=1) as made:
        remember(made, root)
        yield made


def make(index: Index, model: Checkpoint, lines: list[str]) -> FolderWatch:
    encoders = Encoders(lambda: model, ImageSource)
    return FolderWatch(index, encoders, warn=lines.append)


@pytest.fixture
def lines(index: Index, root: Path, model: Checkpoint) -> Iterator[list[str]]:
    """Follow the folder during a test, and give what is said of it."""
    said: list[str] = []
    stop = Event()
    watch = make(index, model, said)
    thread = Thread(target=watch.run, args=(stop,))
    thread.start()
    yield said
    stop.set()
    thread.join(120)
    assert not thread.is_alive()


def until(index: Index, root: Path, reached: Callable[[State], bool]) -> State:
    deadline = time.monotonic() + 120
    while not reached(found := state(index, root)):
        assert time.monotonic() < deadline, found
        time.sleep(0.05)
    return found


def test_watch_follows_new_moved_and_removed_files(
    index: Index, root: Path, lines: list[str]
) -> None:
    until(index, root, lambda found: len(found) == 1)
    for at in range(2, 5):  # a burst
        draw(root / "more" / f"{at}.png", at)
    until(index, root, lambda found: len(found) == 4)
    (root / "one.png").rename(root / "first.png")
    moved = until(index, root, lambda found: found[1][1] == ["first.png"])
    assert len(moved) == 4
    (root / "first.png").unlink()
    (root / "more" / "2.txt").write_text("a dog")
    found = until(index, root, lambda found: 1 not in found)
    until(index, root, lambda found: [row[2] for row in found.values()].count(["a dog"]) == 1)
    assert len(found) == 3
    assert lines == []


def test_watch_keeps_what_is_in_a_folder_that_goes_missing_and_comes_back(
    index: Index, root: Path, lines: list[str]
) -> None:
    until(index, root, lambda found: len(found) == 1)
    (root / "one.png").rename(root.parent / "one.png")
    deadline = time.monotonic() + 120
    while not any("holds no pictures" in line for line in lines):
        assert time.monotonic() < deadline
        time.sleep(0.05)
    assert set(state(index, root)) == {1}
    (root.parent / "one.png").rename(root / "back.png")
    until(index, root, lambda found: found[1][1] == ["back.png"])


def test_watch_names_a_broken_picture_once(index: Index, root: Path, lines: list[str]) -> None:
    until(index, root, lambda found: len(found) == 1)
    draw(root / "broken.png", 2)
    whole = (root / "broken.png").read_bytes()
    (root / "broken.png").write_bytes(whole[: len(whole) // 2])
    draw(root / "3.png", 3)
    until(index, root, lambda found: len(found) == 2)
    draw(root / "4.png", 4)
    until(index, root, lambda found: len(found) == 3)
    assert [line.partition(" (")[0] for line in lines] == ["broken.png: damaged or cut short"]


def test_watch_follows_folders_that_are_added_and_leaves_those_that_are_removed(
    index: Index, root: Path, model: Checkpoint, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    watch = make(index, model, [])
    monkeypatch.setattr(watch, "is_still", lambda *_: True)
    watch._sync_and_schedule()
    draw(tmp_path / "more" / "two.png", 2)
    remember(index, tmp_path / "more")
    watch._sync_and_schedule()
    assert len(state(index, root)) == 2
    assert forget(index, index.locations.folders[str(root)]) == 1
    draw(root / "three.png", 3)
    watch._sync_and_schedule()
    assert [name for name, _, _ in state(index, root).values()] == ["two.png"]


def test_watch_goes_on_after_an_error(
    index: Index, root: Path, model: Checkpoint, monkeypatch: pytest.MonkeyPatch
) -> None:
    said: list[str] = []

    def refuse(*_: object, **__: object) -> None:
        raise IndexLockedError("another process is writing")

    watch = make(index, model, said)
    monkeypatch.setattr(watch, "is_still", lambda *_: True)
    monkeypatch.setattr(index, "writing", refuse)
    watch._sync_and_schedule()
    watch._sync_and_schedule()
    assert said == ["another process is writing; it is tried again"]


def test_file_is_still_once_it_has_not_changed_for_a_second(
    index: Index, root: Path, model: Checkpoint, monkeypatch: pytest.MonkeyPatch
) -> None:
    watch = make(index, model, [])
    now = time.time_ns()
    monkeypatch.setattr(time, "time", lambda: now / 1e9)
    assert watch.is_still("a", FileStamp(1, 10**9, now - 2 * 10**9))
    fresh = FileStamp(1, now, now)
    assert not watch.is_still("a", fresh)
    clock = time.monotonic() + 1.1
    monkeypatch.setattr(time, "monotonic", lambda: clock)
    assert watch.is_still("a", fresh)
    assert not watch.is_still("a", FileStamp(2, now, now))


def test_folder_on_a_network_share_is_recognized_by_its_mount(tmp_path: Path) -> None:
    mounts = tmp_path / "mounts"
    mounts.write_text(
        "/dev/sda1 / ext4 rw 0 0\nnas:/p /mnt/my\\040share nfs4 rw 0 0\n"
        "x /mnt/my\\040share/local ext4 rw 0 0\nu@h: /ssh fuse.sshfs rw 0 0\n"
    )
    network = [
        place
        for place in ("/home", "/mnt/my share/2024", "/mnt/my share/local/a", "/ssh/b", "/mnt")
        if is_on_network(Path(place), mounts)
    ]
    assert network == ["/mnt/my share/2024", "/ssh/b"]
    assert not is_on_network(Path("/home"), tmp_path / "none")
