"""What a first visit shows."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from index.segments.compaction import everything
from index.store import Index
from index.types import CaptionRow, ImageRow, ModelIdentity
from service.page.sample import SHOWN, draw, inviting, linked
from service.page.views import Query

MODEL = ModelIdentity("tiny", "0" * 64, 4, "order")


@pytest.fixture
def index(tmp_path: Path) -> Iterator[Index]:
    """An empty index."""
    with Index.create(tmp_path / "index", MODEL, threads=1) as index:
        yield index


def fill(index: Index, image_ids: list[int]) -> None:
    """Add images with one caption each."""
    points = np.full((len(image_ids), 4), 0.5, np.float32)
    rows = [ImageRow(n, f"{n}.jpg", f"{n}.jpg") for n in image_ids]
    index.add(rows, points, [CaptionRow(n, n, f"thing {n}") for n in image_ids], points)


def test_the_sample_is_the_same_every_time_and_without_repeats(index: Index) -> None:
    fill(index, list(range(7, 7000, 7)))
    first = draw(index, None)
    assert draw(index, None) == first
    ids = [image_id for image_id, _ in first.images]
    assert len(ids) == len(set(ids)) == SHOWN
    assert all(image_id % 7 == 0 for image_id in ids)
    assert ids != sorted(ids)


def test_ids_with_wide_gaps_are_sampled_as_evenly_as_others(index: Index) -> None:
    fill(index, [*range(500), *range(10**6, 10**6 + 500), 2**63 - 1])
    ids = [image_id for image_id, _ in draw(index, None).images]
    assert len(ids) == SHOWN
    assert 6 <= sum(image_id < 500 for image_id in ids) <= SHOWN - 6


def test_the_sample_is_the_same_however_segments_were_merged(index: Index) -> None:
    fill(index, list(range(400)))
    fill(index, list(range(600, 800)))
    index.remove([draw(index, None).images[0][0]])
    before = draw(index, None)
    index.compact(everything)
    assert index.generation > before.generation
    assert draw(index, None).images == before.images


def test_a_picture_more_changes_little_of_the_sample(index: Index) -> None:
    fill(index, list(range(1000)))
    before = draw(index, None).images
    fill(index, [5000])
    assert len(set(before) & set(draw(index, None).images)) >= SHOWN - 1


def test_the_sample_of_a_small_collection_is_all_of_it(index: Index) -> None:
    fill(index, [5, 900, 2**40])
    assert {image_id for image_id, _ in draw(index, None).images} == {5, 900, 2**40}


def test_an_empty_collection_has_a_first_view(index: Index) -> None:
    drawn = draw(index, None)
    assert (drawn.images, drawn.examples) == ((), ())
    assert drawn.facts == "0 pictures and 0 captions, answered by the model tiny."


def test_a_picture_without_captions_has_words_for_those_who_cannot_see_it(index: Index) -> None:
    index.add([ImageRow(3, "3.jpg", "3.jpg")], np.ones((1, 4), np.float32))
    assert draw(index, None).images == ((3, "picture 3"),)


def test_the_first_view_keeps_the_options_in_its_links(index: Index) -> None:
    fill(index, [3])
    shown = linked(draw(index, None), Query(k=48))
    assert shown.images[0].url == "/?image=3&k=48"


def test_examples_go_from_the_general_to_the_particular_and_never_repeat_a_thing() -> None:
    captions = [
        "a dog and a dog",
        "a girl with a red kite",
        "a dog on grass",
        "an animal outside",
        "a person",
        "the dog runs",
        "A CAT SITS",
        "a very long caption that tells of everything there is to see",
    ]
    found = inviting(captions)
    assert found[0] == "an animal outside"
    assert found[-1] == "a girl with a red kite"
    assert len(found) == 3
    assert sum("dog" in text for text in found) == 1


def test_captions_of_nothing_in_particular_are_no_examples() -> None:
    assert inviting(["it is there", "", "a the of"]) == []
