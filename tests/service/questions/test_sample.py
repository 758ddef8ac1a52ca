"""The sample that the first page shows."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from hasse.index.segments.compaction import everything
from hasse.index.store import Index
from hasse.index.types import CaptionRow, ImageRow, ModelIdentity
from hasse.service.questions.sample import SHOWN, draw, pick_examples

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


def test_draw_twice_gives_the_same_sample_without_repeats(index: Index) -> None:
    fill(index, list(range(7, 7000, 7)))
    first = draw(index)
    assert draw(index) == first
    ids = [image.id for image in first.images]
    assert len(ids) == len(set(ids)) == SHOWN
    assert all(image_id % 7 == 0 for image_id in ids)
    assert ids != sorted(ids)


def test_draw_from_ids_with_wide_gaps_is_even(index: Index) -> None:
    fill(index, [*range(500), *range(10**6, 10**6 + 500), 2**63 - 1])
    ids = [image.id for image in draw(index).images]
    assert len(ids) == SHOWN
    assert 6 <= sum(image_id < 500 for image_id in ids) <= SHOWN - 6


def test_draw_after_compaction_gives_the_same_images(index: Index) -> None:
    fill(index, list(range(400)))
    fill(index, list(range(600, 800)))
    index.remove([draw(index).images[0].id])
    before = draw(index)
    index.compact(everything)
    assert index.generation > before.generation
    assert draw(index).images == before.images


def test_draw_after_one_more_image_changes_little(index: Index) -> None:
    fill(index, list(range(1000)))
    before = draw(index).images
    fill(index, [5000])
    assert len(set(before) & set(draw(index).images)) >= SHOWN - 1


def test_draw_from_small_collection_gives_all_images(index: Index) -> None:
    fill(index, [5, 900, 2**40])
    assert {image.id for image in draw(index).images} == {5, 900, 2**40}


def test_draw_from_empty_collection_gives_no_images(index: Index) -> None:
    drawn = draw(index)
    assert (drawn.images, drawn.examples) == ((), ())
    assert drawn.facts == "0 pictures and 0 captions, answered by the model tiny."


def test_draw_gives_image_without_captions_a_description(index: Index) -> None:
    index.add([ImageRow(3, "3.jpg", "3.jpg")], np.ones((1, 4), np.float32))
    assert draw(index).images == ((3, (None, None), "picture 3"),)


def test_pick_examples_goes_from_short_to_long_and_repeats_no_topic() -> None:
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
    picked = pick_examples(captions)
    assert picked[0] == "an animal outside"
    assert picked[-1] == "a girl with a red kite"
    assert len(picked) == 3
    assert sum("dog" in text for text in picked) == 1


def test_pick_examples_skips_captions_without_a_topic() -> None:
    assert pick_examples(["it is there", "", "a the of"]) == []
