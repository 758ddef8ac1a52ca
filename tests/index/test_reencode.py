"""An index brought over to another model: rows stay, points change, all at once."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import ArrayLike

from hasse.index.build import reencode
from hasse.index.errors import (
    BadRowsError,
    IndexLockedError,
    MissingIndexError,
    ModelMismatchError,
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

NEW = embeddings(np.random.default_rng(5), 40, 8)
OTHER = model(8, name="other")
CAPTIONS = captions(range(101, 125), range(1, 13))


class StopError(Exception):
    """Stands in for a kill: the call ends in the middle of its stream."""


def image_blocks(last: int = 12, stop: int = 100) -> ImageBlocks:
    def blocks(done: Ids) -> Iterator[tuple[list[ImageRow], Points]]:
        for id_ in range(len(done) + 1, last + 1):
            if id_ > stop:
                raise StopError
            yield images([id_]), NEW[[id_]]

    return blocks


def caption_blocks(rows: list[CaptionRow] = CAPTIONS) -> CaptionBlocks:
    def blocks(done: Ids) -> Iterator[tuple[list[CaptionRow], Points]]:
        rest = rows[len(done) :]
        yield rest, NEW[: len(rest)]

    return blocks


def run(folder: Path, last: int = 12, stop: int = 100, told: list[int] | None = None) -> int:
    kept = [row for row in CAPTIONS if row.image_id <= last]
    return reencode(
        folder,
        OTHER,
        changes(image_blocks(last, stop), caption_blocks(kept)),
        source="sample",
        total=36,
        progress=lambda done, total: None if told is None else told.append(done),
    )


def test_reencoding_changes_the_points_and_keeps_the_rows(tmp_path: Path) -> None:
    with small_index(tmp_path / "i") as index:
        rows, own = index.catalog.all_rows()
    assert run(tmp_path / "i") == 2
    with Index.open(tmp_path / "i", OTHER.fingerprint) as index:
        assert index.model == OTHER
        assert index.catalog.all_rows() == (rows, own)
        assert index.points("image", [5])[5].tolist() == NEW[5].tolist()
        assert index.search(Query("image", 1), NEW[7]).ids.tolist() == [7]
        index.add(images([50]), NEW[[20]])
    assert verify(tmp_path / "i").ok
    assert not (tmp_path / "i" / "staging").exists()


def test_image_that_is_not_encoded_is_removed_with_its_captions(tmp_path: Path) -> None:
    small_index(tmp_path / "i").close()
    run(tmp_path / "i", last=10)
    with Index.open(tmp_path / "i") as index:
        assert (index.info().images, index.info().captions) == (10, 20)
        assert index.catalog.largest_ids() == {"image": 12, "caption": 124}
    assert verify(tmp_path / "i").ok


def test_stopped_reencoding_leaves_the_old_points_and_goes_on(tmp_path: Path) -> None:
    with small_index(tmp_path / "i") as index:
        before = index.search(Query("image", 12), np.ones(16)).ids.tolist()
    with pytest.raises(StopError):
        run(tmp_path / "i", stop=7)
    with Index.open(tmp_path / "i", model().fingerprint) as index:
        assert index.search(Query("image", 12), np.ones(16)).ids.tolist() == before
        index.compact()
    told: list[int] = []
    run(tmp_path / "i", told=told)
    assert told[0] == 7
    assert verify(tmp_path / "i").ok


def test_reader_of_the_old_points_keeps_them_and_refuses_to_write(tmp_path: Path) -> None:
    with small_index(tmp_path / "i") as index:
        query = np.ones(16)
        before = index.search(Query("image", 12), query)
        run(tmp_path / "i")
        index.announce()
        after = index.search(Query("image", 12), query)
        assert (after.ids.tolist(), after.generation) == (before.ids.tolist(), 1)
        with pytest.raises(ModelMismatchError, match=r"re-encoded with the model 'other'.*again"):
            index.refresh()
        with pytest.raises(ModelMismatchError, match="re-encoded"):
            index.remove([3])
        with pytest.raises(ModelMismatchError, match="re-encoded"):
            index.add(images([50]), np.ones((1, 16)))
    assert verify(tmp_path / "i").ok


def test_nobody_writes_or_merges_while_an_index_is_encoded_anew(tmp_path: Path) -> None:
    small_index(tmp_path / "i").close()

    def blocks(done: Ids) -> Iterator[tuple[Sequence[ImageRow], ArrayLike]]:
        with Index.open(tmp_path / "i") as other:
            with pytest.raises(IndexLockedError, match="writing"):
                other.remove([3], timeout=0.0)
            with pytest.raises(IndexLockedError, match="compacting"):
                other.compact()
            assert other.search(Query("image", 1), np.ones(16)).searched == 12
        yield from image_blocks()(done)

    reencode(tmp_path / "i", OTHER, changes(blocks, caption_blocks()), source="s", total=36)


def test_rows_that_are_not_those_of_the_index_are_refused(tmp_path: Path) -> None:
    small_index(tmp_path / "i").close()
    for image_part, caption_part in (
        (image_blocks(13), caption_blocks()),
        (image_blocks(), caption_blocks(CAPTIONS[1:])),
    ):
        every = changes(image_part, caption_part)
        with pytest.raises(BadRowsError, match="was changed while it was re-encoded"):
            reencode(tmp_path / "i", OTHER, every, source="s", total=36)
        with Index.open(tmp_path / "i", model().fingerprint) as index:
            assert index.generation == 1
    assert verify(tmp_path / "i").ok


def test_index_without_images_is_brought_over_too(tmp_path: Path) -> None:
    with small_index(tmp_path / "i") as index:
        index.remove(range(1, 13))
    reencode(tmp_path / "i", OTHER, lambda _: [], source="s", total=0)
    with Index.open(tmp_path / "i", OTHER.fingerprint) as index:
        assert index.info().images == 0


def test_unfinished_or_missing_index_is_not_encoded_anew(tmp_path: Path) -> None:
    with pytest.raises(MissingIndexError):
        run(tmp_path / "nowhere")
    Index.create(tmp_path / "i", model()).close()
    (tmp_path / "i" / "staging").mkdir()
    with pytest.raises(UnfinishedIndexError):
        run(tmp_path / "i")


def test_index_of_another_model_is_refused_by_a_sentence_that_names_the_command(
    tmp_path: Path,
) -> None:
    small_index(tmp_path / "i").close()
    said = "or bring the library over with 'hasse use MODEL'"
    with pytest.raises(ModelMismatchError, match=said):
        Index.open(tmp_path / "i", OTHER.fingerprint)
