"""Orders of images without a search, and numbers of images by day."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pytest

from hasse.index.catalog.lookups import without_ids
from hasse.index.catalog.ordering import DAY, Order, counts_by_day, ordered_ids
from hasse.index.catalog.schema import IMAGES
from hasse.index.segments.change import Change
from hasse.index.store import Index
from hasse.index.types import ImageRow, Metadata, ModelIdentity

TAKEN = {1: 5 * DAY + 7, 2: -1, 3: None, 4: 5 * DAY, 5: 9 * DAY}
RATINGS = {1: 3, 2: 5, 3: -1, 4: 3}


@pytest.fixture(scope="module")
def index(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Index]:
    """Five images, of which one has no date, and another no metadata."""
    model = ModelIdentity("tiny", "f" * 64, 4, "order")
    with Index.create(tmp_path_factory.mktemp("made") / "index", model, threads=1) as index:
        paths = {1: "b/1.jpg", 2: "a/2.jpg", 3: "b/0.jpg", 4: "a/1.jpg", 5: "c.jpg"}
        rows = [ImageRow(at, path, path, taken=TAKEN[at]) for at, path in paths.items()]
        metadata = {at: Metadata(rating=rating) for at, rating in RATINGS.items()}
        index.change(Change(rows, np.ones((5, 4), np.float32), metadata=metadata))
        yield index


@pytest.mark.parametrize(
    ("order", "ids"),
    [
        ("newest", [5, 1, 4, 2, 3]),
        ("oldest", [2, 4, 1, 5, 3]),
        ("added", [5, 4, 3, 2, 1]),
        ("rating", [2, 1, 4, 5, 3]),
        ("folder", [4, 2, 3, 1, 5]),
    ],
)
def test_ordered_ids_follow_the_order_and_pages_divide_it(
    index: Index, order: Order, ids: list[int]
) -> None:
    with index.catalog.reading() as connection:
        assert ordered_ids(connection, order, []) == ids
        assert ordered_ids(connection, order, [], 1, 2) == ids[1:3]
        some = IMAGES.c.id.in_([1, 3])
        assert ordered_ids(connection, order, [some]) == [id_ for id_ in ids if id_ in (1, 3)]


def test_counts_by_day_put_times_before_1970_on_their_own_day(index: Index) -> None:
    with index.catalog.reading() as connection:
        counts = counts_by_day(connection, [])
        assert list(counts.items()) == [(9, 1), (5, 2), (-1, 1), (None, 1)]
        assert counts_by_day(connection, [IMAGES.c.id == 1]) == {5: 1}


def test_without_ids_takes_more_ids_than_a_statement_has_parameters(index: Index) -> None:
    with index.catalog.reading() as connection:
        others = without_ids([1, 2, 3, *range(10, 50_000)])
        assert ordered_ids(connection, "added", [others]) == [5, 4]
