from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from hasse.index.errors import BadRowsError
from hasse.index.search.query import Query
from hasse.index.segments.change import Change
from hasse.index.types import CaptionRow, FolderRow, ImageRow, PathRow
from hasse.index.verify import verify
from tests.index.samples import images, small_index

NOTHING = np.zeros(16)
POINTS = np.eye(16, dtype=np.float32)


def test_image_has_the_path_it_was_added_with(tmp_path: Path) -> None:
    with small_index(tmp_path / "i") as index:
        assert index.catalog.paths_of([3]) == {3: [PathRow(3, "pictures/3.jpg")]}
        (hits, _) = index.catalog.image_hits([3])
        assert hits[3].paths == [["pictures/3.jpg", ""]]


def test_change_adds_replaces_and_removes_in_one_generation(tmp_path: Path) -> None:
    replaced = ImageRow(3, "3.jpg", "pictures/3.jpg", 10, 20, "val", "ab" * 32, 5, 6)
    moved = ImageRow(4, "four.jpg", "pictures/four.jpg", 640, 480, "val", added=7)
    paths = {
        4: [PathRow(4, "pictures/copy.jpg", "pictures", 1, 2, 3), PathRow(4, "pictures/four.jpg")],
        50: [PathRow(50, "pictures/50.jpg", "pictures", 9, 8, 7, '{"": ["a dog"]}')],
    }
    change = Change(
        [replaced, *images([50])],
        POINTS[:2],
        [CaptionRow(500, 3, "a dog")],
        POINTS[:1],
        replaced_images=frozenset([3]),
        rows=[moved],
        paths=paths,
        removed_images=[5],
        removed_captions=[101],
        folders=[FolderRow("/pictures", "/pictures", "../pictures", 17)],
    )
    with small_index(tmp_path / "i") as index:
        assert index.change(change) == 2
        found = index.search(Query("image", 100), NOTHING).ids.tolist()
        assert sorted(found) == [1, 2, 3, 4, *range(6, 13), 50]
        assert index.points("image", [3])[3].tolist() == np.eye(16)[0].tolist()
        described = index.catalog.described_images([3, 4, 5])
        assert {id_: image.row for id_, image in described.items()} == {3: replaced, 4: moved}
        assert [row.id for row in described[3].captions] == [103, 115, 500]
        assert index.catalog.captions([101]) == {}
        assert index.catalog.paths_of([4, 5, 50]) == paths | {5: []}
        assert index.locations.folders == {"/pictures": change.folders[0]}
    assert verify(tmp_path / "i").ok


def test_change_of_an_absent_image_is_refused_and_changes_nothing(tmp_path: Path) -> None:
    with small_index(tmp_path / "i") as index:
        for change in (Change(removed_images=[99]), Change(rows=images([99]))):
            with pytest.raises(BadRowsError, match="image 99 is not in the index"):
                index.change(change)
        assert index.generation == 1
