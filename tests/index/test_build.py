from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import ArrayLike

from hasse.index.build import build
from hasse.index.errors import (
    BadPointsError,
    BadRowsError,
    IndexExistsError,
    IndexLockedError,
    UnfinishedIndexError,
)
from hasse.index.search.query import Query
from hasse.index.store import Index
from hasse.index.types import CaptionRow, Ids, ImageRow, Points
from hasse.index.verify import verify
from tests.index.samples import (
    CaptionBlocks,
    ImageBlocks,
    captions,
    changes,
    embeddings,
    images,
    model,
    small_index,
)

IMAGES = embeddings(np.random.default_rng(0), 20, 16)
CAPTIONS = embeddings(np.random.default_rng(1), 60, 16)


class StopError(Exception):
    """Stands in for a kill: the build ends in the middle of its stream."""


def image_blocks(stop: int = 100, rows: int = 4) -> ImageBlocks:
    def blocks(done: Ids) -> Iterator[tuple[list[ImageRow], Points]]:
        for at in range(len(done), len(IMAGES), rows):
            if at >= stop:
                raise StopError
            part = range(at, min(at + rows, len(IMAGES)))
            yield images(part), IMAGES[part.start : part.stop]

    return blocks


def caption_blocks(stop: int = 100, rows: int = 7) -> CaptionBlocks:
    def blocks(done: Ids) -> Iterator[tuple[list[CaptionRow], Points]]:
        for at in range(len(done), len(CAPTIONS), rows):
            if at >= stop:
                raise StopError
            part = range(at, min(at + rows, len(CAPTIONS)))
            rows_ = [row._replace(image_id=row.id % len(IMAGES)) for row in captions(part, [0])]
            yield rows_, CAPTIONS[part.start : part.stop]

    return blocks


def run(
    folder: Path,
    image_stop: int = 100,
    caption_stop: int = 100,
    source: str = "sample",
    told: list[tuple[int, int]] | None = None,
) -> Index:
    return build(
        folder,
        model(),
        changes(image_blocks(image_stop), caption_blocks(caption_stop)),
        source=source,
        total=80,
        progress=lambda done, total: None if told is None else told.append((done, total)),
        rows_per_segment=25,
        threads=1,
    )


def check(index: Index) -> None:
    assert index.generation == 1
    for at, point in enumerate(IMAGES):
        answer = index.search(Query("image", 1), point)
        assert (answer.ids[0], answer.violations[0]) == (at, 0)
    for at, point in enumerate(CAPTIONS):
        answer = index.search(Query("caption", 1), point)
        assert (answer.ids[0], answer.violations[0]) == (at, 0)
    assert index.catalog.captions_of([3])[3][0] == CaptionRow(3, 3, "caption 3")
    index.close()
    assert verify(index.folder).ok


def test_build_shows_everything_at_once_and_leaves_nothing_behind(tmp_path: Path) -> None:
    told: list[tuple[int, int]] = []
    index = run(tmp_path / "i", told=told)
    assert told[0] == (0, 80)
    assert told[-1] == (80, 80)
    assert told == sorted(told)
    assert len(index.info().segments) == 1 + 3
    check(index)
    assert {path.name for path in (tmp_path / "i").iterdir()} == {
        "catalog.db",
        "generation",
        "segments",
        "lock",
        "readers",
        "notifications",
    }


def test_build_that_was_stopped_shows_nothing_and_goes_on_where_it_was(tmp_path: Path) -> None:
    folder = tmp_path / "i"
    reached = []
    for image_stop, caption_stop in ((8, 0), (12, 0), (100, 14), (100, 42), (100, 100)):
        told: list[tuple[int, int]] = []
        try:
            index = run(folder, image_stop, caption_stop, told=told)
        except StopError:
            for look in (Index.open, verify):
                with pytest.raises(
                    UnfinishedIndexError, match="run the same 'hasse lab index build'"
                ):
                    look(folder)
        reached.append(told[0][0])
    assert reached == [0, 8, 12, 20 + 14, 20 + 42]
    check(index)


def test_build_of_another_source_or_model_starts_anew(tmp_path: Path) -> None:
    for source, identity in (("other", model()), ("sample", model(name="elder"))):
        folder = tmp_path / f"{source}-{identity.name}"
        with pytest.raises(StopError):
            build(
                folder,
                identity,
                changes(image_blocks(), caption_blocks(56)),
                source=source,
                total=80,
                rows_per_segment=25,
            )
        told: list[tuple[int, int]] = []
        index = run(folder, told=told)
        assert told[0][0] == 0
        assert index.model == model()
        assert len(list((folder / "segments").iterdir())) == 4
        check(index)


def test_index_that_holds_something_is_not_built_over(tmp_path: Path) -> None:
    small_index(tmp_path / "i").close()
    with pytest.raises(IndexExistsError, match=r"already holds an index.*hasse add"):
        run(tmp_path / "i")
    with Index.open(tmp_path / "i") as index:
        assert index.info().images == 12


def test_two_builds_of_one_index_do_not_meet(tmp_path: Path) -> None:
    with (
        Index.create(tmp_path / "i", model()) as index,
        index.writing(),
        pytest.raises(IndexLockedError, match="another process is writing"),
    ):
        run(tmp_path / "i")


def test_build_without_images_is_refused(tmp_path: Path) -> None:
    with pytest.raises(BadRowsError, match="no images to index: name a dataset with pictures"):
        build(tmp_path / "i", model(), lambda _: [], source="s", total=0)


@pytest.mark.parametrize(
    ("image_ids", "caption_ids", "of", "named"),
    [
        ([1, 1, 2], [0], 1, "image 1 occurs twice"),
        ([1, 2, 1], [0], 1, "image 1 occurs twice"),
        ([1, 2, 3], [4, 5, 4], 1, "caption 4 occurs twice"),
        ([1, 2, 3], [0], 9, "caption 0 is of image 9"),
        ([1, 2, 4], [0], 3, "caption 0 is of image 3"),
    ],
)
@pytest.mark.parametrize("rows_per_segment", [2, 100])
def test_rows_that_do_not_fit_together_are_named_and_the_next_build_starts_anew(
    image_ids: list[int],
    caption_ids: list[int],
    of: int,
    named: str,
    rows_per_segment: int,
    tmp_path: Path,
) -> None:
    def some_images(done: Ids) -> Iterator[tuple[list[ImageRow], Points]]:
        return ((images([id_]), IMAGES[[id_]]) for id_ in image_ids[len(done) :])

    def some_captions(done: Ids) -> Iterator[tuple[list[CaptionRow], Points]]:
        return ((captions([id_], [of]), CAPTIONS[[id_]]) for id_ in caption_ids[len(done) :])

    for _ in range(2):
        with pytest.raises(BadRowsError, match=named):
            build(
                tmp_path / "i",
                model(),
                changes(some_images, some_captions),
                source="sample",
                total=4,
                rows_per_segment=rows_per_segment,
            )
    check(run(tmp_path / "i"))


def test_text_that_cannot_be_stored_is_named_and_what_came_before_is_kept(tmp_path: Path) -> None:
    def broken(done: Ids) -> Iterator[tuple[list[CaptionRow], Points]]:
        for block, points in caption_blocks()(done):
            cut = [row._replace(text="a\0b") if row.id == 8 else row for row in block]
            yield cut, np.asarray(points, np.float32)

    with pytest.raises(BadRowsError, match="the text of caption 8 holds a NUL character"):
        build(
            tmp_path / "i",
            model(),
            changes(image_blocks(), broken),
            source="sample",
            total=80,
        )
    told: list[tuple[int, int]] = []
    check(run(tmp_path / "i", told=told))
    assert told[0] == (20 + 7, 80)


Damage = Callable[[Path], object]


def shortened(path: Path) -> None:
    os.truncate(path, path.stat().st_size // 2)


def garbled(path: Path) -> None:
    content = bytearray(path.read_bytes())
    content[-2] ^= 1
    path.write_bytes(content)


def misplaced(path: Path) -> None:
    path.unlink()
    path.mkdir()


@pytest.mark.parametrize(
    ("name", "damage"),
    [
        *(
            (f"staging/{name}.block", damage)
            for name in ("000000000001", "000000000006", "000000000010")
            for damage in (shortened, garbled, misplaced)
        ),
        *((f"staging/{at:012}.block", Path.unlink) for at in (0, 5)),
        ("staging/build.json", Path.unlink),
        *(
            ("staging/build.json", lambda path, text=text: path.write_text(text))
            for text in ("", "[]", "{}", "[" * 100_000)
        ),
    ],
)
def test_build_starts_anew_where_what_was_finished_is_not_what_was_written(
    name: str, damage: Damage, tmp_path: Path
) -> None:
    folder = tmp_path / "i"
    with pytest.raises(StopError):
        run(folder, caption_stop=42)
    (path,) = folder.glob(name)
    damage(path)
    told: list[tuple[int, int]] = []
    index = run(folder, told=told)
    assert told[0] == (0, 80)
    assert len(list((folder / "segments").iterdir())) == 4
    check(index)


def test_point_that_cannot_be_stored_is_named_and_what_came_before_is_kept(
    tmp_path: Path,
) -> None:
    def broken(done: Ids) -> Iterator[tuple[Sequence[ImageRow], ArrayLike]]:
        for block, points in image_blocks()(done):
            yield block, np.asarray(points) - (1 if block[0].id == 8 else 0)

    with pytest.raises(BadPointsError, match=r"image 8 .row 0. has -"):
        build(
            tmp_path / "i",
            model(),
            changes(broken, caption_blocks()),
            source="sample",
            total=80,
        )
    told: list[tuple[int, int]] = []
    check(run(tmp_path / "i", told=told))
    assert told[0] == (8, 80)


def test_images_may_come_in_any_order_of_their_ids(tmp_path: Path) -> None:
    def backwards(done: Ids) -> Iterator[tuple[list[ImageRow], Points]]:
        yield images(range(len(IMAGES))[::-1][len(done) :]), IMAGES[::-1][len(done) :]

    every = changes(backwards, caption_blocks())
    build(tmp_path / "i", model(), every, source="s", total=80).close()
    with Index.open(tmp_path / "i") as index:
        assert index.info().images == len(IMAGES)


def test_build_goes_on_where_a_block_was_half_written(tmp_path: Path) -> None:
    with pytest.raises(StopError):
        run(tmp_path / "i", image_stop=8)
    (tmp_path / "i" / "staging" / "000000000002.block.partial").write_bytes(b"123\n[[8")
    told: list[tuple[int, int]] = []
    check(run(tmp_path / "i", told=told))
    assert told[0] == (8, 80)
