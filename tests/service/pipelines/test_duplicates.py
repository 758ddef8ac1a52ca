"""Files that hold the same picture, and bursts, in a library on the disk."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import pytest
from PIL import ExifTags, Image

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


def spare(folder: Path, images: list[list[str]]) -> list[str]:
    """Return the names of the files that can go."""
    with library(folder, images) as made:
        return [Path(file.path).name for group in look(made) for file in group.files if file.spare]


# How a second path leads to the file of a first one.
ONE_FILE: dict[str, Callable[[Path, Path], object]] = {
    "a link": lambda first, second: second.symlink_to(first.name),
    "a hard link": lambda first, second: second.hardlink_to(first),
    "a link by its absolute path": lambda first, second: second.symlink_to(first.absolute()),
}


@pytest.mark.parametrize("how", ONE_FILE)
@pytest.mark.parametrize("names_", [("a.png", "b.png"), ("b.png", "a.png")])
def test_one_file_with_two_paths_is_no_duplicate(
    tmp_path: Path, how: str, names_: tuple[str, str]
) -> None:
    photograph(0).save(tmp_path / names_[0])
    ONE_FILE[how](tmp_path / names_[0], tmp_path / names_[1])
    assert spare(tmp_path, [["a.png", "b.png"]]) == []


def test_folder_that_is_a_link_holds_no_duplicates(tmp_path: Path) -> None:
    (tmp_path / "z").mkdir()
    photograph(0).save(tmp_path / "z" / "a.png")
    (tmp_path / "a").symlink_to("z")
    assert spare(tmp_path, [["a/a.png", "z/a.png"]]) == []


def test_picture_that_the_library_stores_itself_is_in_no_group(tmp_path: Path) -> None:
    photograph(0).save(tmp_path / "a.png")
    with library(tmp_path, [["a.png"]]) as made:
        own = made.folder / "pictures" / "a.png"
        own.parent.mkdir()
        own.write_bytes((tmp_path / "a.png").read_bytes())
        made.change(Change(paths={1: [stamped(1, tmp_path / "a.png"), stamped(1, own)]}))
        assert look(made) == []


def test_file_with_a_date_a_place_or_an_originals_format_never_goes(tmp_path: Path) -> None:
    picture, exif = photograph(0), Image.Exif()
    picture.save(tmp_path / "large.png")
    picture.resize((200, 150)).save(tmp_path / "scan.tif")
    exif[ExifTags.Base.DateTime] = "2001:02:03 04:05:06"
    picture.resize((200, 150)).save(tmp_path / "dated.jpg", exif=exif)
    picture.resize((160, 120)).save(tmp_path / "small.jpg")
    picture.resize((180, 135)).save(tmp_path / "captioned.jpg")
    names_ = ["large.png", "scan.tif", "dated.jpg", "small.jpg", "captioned.jpg"]
    with library(tmp_path, [[name] for name in names_]) as made:
        made.change(Change(texts={"added keyword": {5: ["the only words"]}}))
        (group,) = look(made)
        assert [Path(file.path).name for file in group.files if file.spare] == ["small.jpg"]


def test_pictures_that_a_person_called_different_stay_apart(index: Index) -> None:
    (group,) = look(index)
    ids = [file.image_id for file in group.files]
    duplicates.note_different(index, [1, 3])
    after = look(index)
    assert ids == [1, 1, 3, 2]
    assert not any({1, 3} <= {file.image_id for file in group.files} for group in after)
    assert any({1, 2} <= {file.image_id for file in group.files} for group in after)
    index.remove([3])
    made = ImageRow(9, "t", str(index.folder.parent / "turned.jpg"), 300, 400, sha256="3" * 64)
    row = stamped(9, index.folder.parent / "turned.jpg")
    index.change(Change([made], np.ones((1, DIMENSION)), paths={9: [row]}))
    assert not any({1, 9} <= {file.image_id for file in group.files} for group in look(index))
