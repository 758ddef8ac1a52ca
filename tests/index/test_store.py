"""What is added is found, what is removed is not, and what cannot be stored is named."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from hasse.index.errors import (
    BadPointsError,
    BadRowsError,
)
from hasse.index.search.query import Query
from hasse.index.store import Index
from hasse.index.types import KINDS, MODES, CaptionRow, Mode
from tests.index.samples import captions, embeddings, images, model, small_index, violations
from tests.oracle import best


def test_added_rows_are_found_and_described_after_opening_again(tmp_path: Path) -> None:
    with small_index(tmp_path / "i") as index:
        point = embeddings(np.random.default_rng(1), 1, 16)[0]
        before = [index.search(Query(kind, 5), point) for kind in KINDS]
    with Index.open(tmp_path / "i", model().fingerprint) as index:
        assert index.model == model()
        assert index.generation == 1
        for kind, answer in zip(KINDS, before, strict=True):
            again = index.search(Query(kind, 5), point)
            assert again.ids.tolist() == answer.ids.tolist()
            assert again.violations.tolist() == answer.violations.tolist()
        row = index.catalog.images([3])[3]
        assert row is not None
        assert row == images([3])[0]._replace(added=row.added)
        assert index.path_of(row) == (tmp_path / "i" / "pictures" / "3.jpg").resolve()
        assert index.catalog.captions([103, 99]) == {103: CaptionRow(103, 3, "caption 103")}
        assert [c.id for c in index.catalog.captions_of([3, 4])[3]] == [103, 115]
        assert not index.catalog.images([99])
        assert index.catalog.captions_of([99]) == {99: []}
        assert set(index.catalog.images([1, 2, 99])) == {1, 2}
        info = index.info()
        assert (info.images, info.captions, info.generation) == (12, 24, 1)
        assert info.bytes == sum(
            file.stat().st_size for file in (tmp_path / "i" / "segments").rglob("*.*")
        )


def test_search_speaks_for_all_segments_as_numpy_does(tmp_path: Path) -> None:
    rng = np.random.default_rng(2)
    points = embeddings(rng, 60, 16)
    with Index.create(tmp_path / "i", model()) as index:
        for at in range(0, 60, 20):
            index.add(images(range(at, at + 20)), points[at : at + 20])
        query = embeddings(rng, 1, 16)[0]
        answer = index.search(Query("image", 7), query)
        expected = violations("image", "order", points, query)
        assert answer.ids.tolist() == best(expected, np.arange(60), 7).tolist()
        assert answer.generation == index.generation == 3


def test_removed_images_and_their_captions_are_gone_from_every_search(tmp_path: Path) -> None:
    with small_index(tmp_path / "i") as index:
        query = np.zeros(16)
        index.remove([3, 7])
        for live in (index, Index.open(tmp_path / "i")):
            for mode in MODES:
                found = live.search(Query("image", 100, mode), query)
                assert found.ids.tolist() == [1, 2, 4, 5, 6, 8, 9, 10, 11, 12]
                assert found.searched == 10
                found = live.search(Query("caption", 100, mode), np.ones(16))
                assert not {103, 107, 115, 119} & set(found.ids.tolist())
                assert found.searched == 20
            assert live.catalog.images([3]).get(3) is None
            assert live.catalog.captions([103]) == {}
            live.close()


def test_adding_then_removing_changes_no_answer(tmp_path: Path) -> None:
    rng = np.random.default_rng(3)
    query = embeddings(rng, 1, 16)[0]
    with small_index(tmp_path / "i") as index:
        before = [index.search(Query(kind, 40), query) for kind in KINDS]
        index.add(
            images([50, 51]),
            embeddings(rng, 2, 16),
            captions([500, 501], [50]),
            embeddings(rng, 2, 16),
        )
        index.remove([50, 51])
        assert index.generation == 3
        for kind, old in zip(KINDS, before, strict=True):
            new = index.search(Query(kind, 40), query)
            assert new.ids.tolist() == old.ids.tolist()
            assert new.violations.tolist() == old.violations.tolist()
            assert new.searched == old.searched


def test_id_can_come_back_with_another_point(tmp_path: Path) -> None:
    with small_index(tmp_path / "i") as index:
        for corner in range(3):
            index.remove([5])
            point = np.zeros((1, 16))
            point[0, corner] = 1
            index.add(images([5]), point)
            with Index.open(tmp_path / "i") as again:
                for live in (index, again):
                    answer = live.search(Query("image", 1), point[0])
                    assert (answer.ids[0], answer.violations[0]) == (5, 0)
                    assert answer.searched == 12


@pytest.mark.parametrize("mode", MODES)
def test_joint_search_scores_an_id_that_came_back_by_its_new_point(
    mode: Mode, tmp_path: Path
) -> None:
    rng = np.random.default_rng(4)
    with small_index(tmp_path / "i", rows=4) as index:
        for _ in range(3):
            point, parts = embeddings(rng, 1, 16), embeddings(rng, 2, 16)
            index.remove([2])
            index.add(images([2]), point)
            answer = index.search_jointly(Query("image", 4, mode), parts)
            assert sorted(answer.ids.tolist()) == [1, 2, 3, 4]
            wanted = [violations("image", "order", point, part)[0] for part in parts]
            assert answer.parts is not None
            assert answer.parts[answer.ids.tolist().index(2)] == pytest.approx(wanted, rel=1e-5)


def test_stored_points_are_read_back_by_id_and_the_dead_are_not(tmp_path: Path) -> None:
    with small_index(tmp_path / "i") as index:
        point = embeddings(np.random.default_rng(3), 1, 16)
        index.remove([5, 6])
        index.add(images([5]), point)
        found = index.points("image", [4, 5, 6, 99])
        assert sorted(found) == [4, 5]
        assert found[5].tolist() == point[0].tolist()
        assert index.points("caption", []) == {}


def test_ids_that_were_removed_count_among_the_largest(tmp_path: Path) -> None:
    with small_index(tmp_path / "i") as index:
        index.remove([12])
        assert index.catalog.largest_ids() == {"image": 12, "caption": 124}


@pytest.mark.parametrize(
    ("ids", "caption_ids", "of", "named"),
    [
        ([3], [], 1, "image 3 is in the index already"),
        ([60, 60], [], 1, "image 60 occurs twice"),
        ([60, 61.5], [], 1, "the id of one image is not a whole number of 64 bits"),
        ([2**63], [], 1, "the id of one image is not a whole number of 64 bits"),
        ([60], [101], 60, "caption 101 is in the index already"),
        ([60], [600], 61, "captions of image 61, which is not in the index"),
    ],
)
def test_rows_that_cannot_be_added_are_named_and_nothing_changes(
    ids: list[int], caption_ids: list[int], of: int, named: str, tmp_path: Path
) -> None:
    with small_index(tmp_path / "i") as index:
        with pytest.raises(BadRowsError, match=named):
            index.add(
                images(ids),
                np.zeros((len(ids), 16)),
                captions(caption_ids, [of]),
                np.zeros((len(caption_ids), 16)),
            )
        with pytest.raises(BadRowsError, match="image 99 is not in the index"):
            index.remove([1, 99])
        half = images([60])[0]._replace(file_name="\ud800.jpg")
        with pytest.raises(BadRowsError, match="the text of image 60 is not Unicode"):
            index.add([half], np.zeros((1, 16)))
        lost = images([60])[0]._replace(path="a\0b.jpg")
        with pytest.raises(BadRowsError, match="the text of image 60 holds a NUL character"):
            index.add([lost], np.zeros((1, 16)))
        cut = captions([61], [1])[0]._replace(text="a dog\0 runs")
        with pytest.raises(BadRowsError, match="the text of caption 61 holds a NUL character"):
            index.add([], np.zeros((0, 16)), [cut], np.zeros((1, 16)))
        with pytest.raises(BadPointsError, match=r"image 60 .row 0. has nan"):
            index.add(images([60]), np.full((1, 16), np.nan))
        assert index.generation == 1
        assert index.info().images == 12
        assert len(list((tmp_path / "i" / "segments").iterdir())) == 2


def test_captions_can_be_added_to_an_image_that_is_there(tmp_path: Path) -> None:
    with small_index(tmp_path / "i") as index:
        index.add([], np.empty((0, 16)), captions([900], [4]), np.zeros((1, 16)))
        assert index.search(Query("caption", 1), np.zeros(16)).ids[0] == 900
        assert [row.id for row in index.catalog.captions_of([4])[4]] == [104, 116, 900]


def test_many_small_additions_keep_few_files_open(tmp_path: Path) -> None:
    descriptors = Path("/proc/self/fd")
    with Index.create(tmp_path / "i", model()) as index:
        index.add(images([0]), np.ones((1, 16)))
        before = len(list(descriptors.iterdir()))
        for id_ in range(1, 30):
            index.add(images([id_]), np.ones((1, 16)))
        assert index.search(Query("image", 100), np.ones(16)).searched == 30
        assert len(list(descriptors.iterdir())) <= before + 2
