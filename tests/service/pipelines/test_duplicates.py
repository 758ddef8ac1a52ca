"""Files that hold the same picture, and bursts, in a library on the disk."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from hasse.index.kernels.threads import Workers
from hasse.index.segments.change import Change
from hasse.index.store import Index
from hasse.index.types import ImageRow, PathRow
from hasse.models.images.decoding import picture_size
from hasse.models.images.limits import DEFAULT_LIMITS
from hasse.service.pipelines import duplicates
from hasse.service.pipelines.duplicates import Group
from tests.index.samples import model
from tests.models.images.test_perceptual_hash import photograph

DIMENSION = 8
DAY = 1_700_000_000_000  # milliseconds


@pytest.fixture
def index(tmp_path: Path) -> Iterator[Index]:
    """A large picture with a copy, a smaller and a rotated version, and two other pictures."""
    picture = photograph(0)
    picture.save(tmp_path / "a.png")
    (tmp_path / "copy.png").write_bytes((tmp_path / "a.png").read_bytes())
    picture.resize((200, 150)).save(tmp_path / "small.jpg")
    picture.rotate(90, expand=True).save(tmp_path / "turned.jpg", quality=70)
    photograph(1).save(tmp_path / "b.png")
    photograph(2).save(tmp_path / "c.png")
    with library(
        tmp_path, [["a.png", "copy.png"], ["small.jpg"], ["turned.jpg"], ["b.png"], ["c.png"]]
    ) as made:
        yield made


def library(folder: Path, images: list[list[str]]) -> Index:
    """An index of images, each with its files, the first taken a second before the next."""
    made = Index.create(folder / "index", model(DIMENSION), threads=1)
    rows, paths = [], {}
    for id_, names in enumerate(images, start=1):
        size = picture_size(folder / names[0])
        rows.append(
            ImageRow(
                id_,
                names[0],
                str(folder / names[0]),
                *size,
                sha256=f"{id_}" * 64,
                taken=DAY + 1000 * id_,
            )
        )
        paths[id_] = [stamped(id_, folder / name) for name in names]
    # Images 4 and 5 are near each other as points, and far from all others.
    points = np.eye(len(images), DIMENSION) + np.where(np.arange(len(images)) > 2, 0.9, 0.0)[
        :, None
    ] * (np.arange(DIMENSION) > 5)
    if len(images) > 4:
        points[4] = points[3] + 0.01
    made.change(Change(rows, points, paths=paths))
    return made


def stamped(image_id: int, path: Path) -> PathRow:
    facts = path.stat()
    return PathRow(image_id, str(path), "", facts.st_size, facts.st_mtime_ns, facts.st_ctime_ns)


def look(index: Index) -> list[Group]:
    duplicates.hash_pictures(index, DEFAULT_LIMITS, lambda done, total: None)
    duplicates.find_versions(index, DEFAULT_LIMITS, lambda done, total: None)
    return duplicates.same_files(index)


def names(groups: list[Group]) -> list[tuple[str, list[str]]]:
    return [(group.same, [Path(file.path).name for file in group.files]) for group in groups]


def test_same_bytes_are_a_group_before_any_picture_was_looked_at(index: Index) -> None:
    assert names(duplicates.same_files(index)) == [("bytes", ["a.png", "copy.png"])]


def test_versions_of_a_picture_are_a_group_the_largest_first(index: Index) -> None:
    (group,) = look(index)
    assert names([group]) == [("picture", ["a.png", "copy.png", "turned.jpg", "small.jpg"])]
    assert (group.files[0].width, group.files[0].height) == (400, 300)
    assert group.files[0].bytes == (index.folder.parent / "a.png").stat().st_size


def test_pictures_that_were_looked_at_are_not_read_again(
    index: Index, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = look(index)
    monkeypatch.setattr(duplicates, "open_picture", lambda *given: pytest.fail("read again"))
    generation = index.generation
    assert look(index) == first
    assert index.generation == generation


def test_work_that_was_stopped_keeps_what_was_done(index: Index) -> None:
    def stop(done: int, total: int) -> None:
        if done == 2:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        duplicates.hash_pictures(index, DEFAULT_LIMITS, stop)
    assert len(index.catalog.versions()) == 2
    assert len(look(index)[0].files) == 4


def test_file_that_is_gone_or_was_changed_is_in_no_group(index: Index) -> None:
    look(index)
    folder = index.folder.parent
    (folder / "a.png").unlink()
    (folder / "small.jpg").write_bytes(b"another file")
    assert names(duplicates.same_files(index)) == [("picture", ["copy.png", "turned.jpg"])]


def test_file_that_is_no_picture_any_more_stops_nothing(index: Index) -> None:
    (index.folder.parent / "b.png").write_bytes(b"no picture")
    (index.folder.parent / "c.png").unlink()
    assert len(look(index)) == 1
    assert set(index.catalog.versions()) == {1, 2, 3}


def test_burst_is_near_in_time_and_nearly_the_same(index: Index) -> None:
    look(index)
    workers = Workers(1)
    assert names(duplicates.bursts(index, workers, 1)) == [("burst", ["b.png", "c.png"])]
    assert duplicates.bursts(index, workers, 0.5) == []


def test_empty_library_has_no_groups(tmp_path: Path) -> None:
    with library(tmp_path, []) as made:
        assert look(made) == []
        assert duplicates.bursts(made, Workers(1), 10) == []
