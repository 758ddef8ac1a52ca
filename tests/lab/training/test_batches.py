from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from hasse.lab.training.batches import Batches
from hasse.models.datasets import Caption, Dataset, Image
from hasse.models.vocabulary import END, PADDING, UNKNOWN

COUNTS = (3, 1, 5, 2, 4)


def batches(captions_per_image: int = 1, unknown_rate: float = 0.0, seed: int = 7) -> Batches:
    images, numbered = [], []
    for row, count in enumerate(COUNTS):
        captions = tuple(Caption(at, row, "words") for at in range(count))
        images.append(Image(row, f"{row}.png", Path(f"{row}.png"), captions=captions))
        numbered += [[10 * row + 3 + at] * (at + 1) + [END] for at in range(count)]
    return Batches(
        Dataset("drawn", tuple(images)),
        numbered,
        size=2,
        captions_per_image=captions_per_image,
        unknown_rate=unknown_rate,
        seed=seed,
    )


@pytest.mark.parametrize("take", [1, 2])
def test_captions_are_drawn_image_by_image(take: int) -> None:
    for epoch in range(5):
        draw = np.random.default_rng([7, epoch])
        order = draw.permutation(len(COUNTS))
        first = np.cumsum(COUNTS) - COUNTS
        drawn = [draw.choice(count, min(take, count), replace=False) for count in COUNTS]
        seen = list(batches(take).of_epoch(epoch, 0))
        assert np.concatenate([rows for _, rows, _, _ in seen]).tolist() == order.tolist()
        for _, rows, captions, owners in seen:
            expected = [first[row] + drawn[row] for row in rows]
            assert captions.tolist() == np.concatenate(expected).tolist()
            assert owners.tolist() == [at for at, own in enumerate(expected) for _ in own]


def test_an_epoch_goes_on_from_any_step() -> None:
    whole, rest = list(batches().of_epoch(3, 0)), list(batches().of_epoch(3, 1))
    assert len(whole) == batches().steps == 2, "the fifth image joins the second batch"
    assert [part.tolist() for part in whole[1][1:]] == [part.tolist() for part in rest[0][1:]]


def test_words_are_padded_and_the_last_caption_is_read_to_its_end() -> None:
    captions = np.array([14, 0])
    tokens, lengths = batches().tokens(captions, batches().draw(0, 0))
    assert lengths.tolist() == [5, 2]
    assert tokens.tolist() == [[46, 46, 46, 46, END], [3, END, PADDING, PADDING, PADDING]]


def test_some_words_are_forgotten_and_no_end_nor_padding() -> None:
    captions = np.repeat([14, 0], 300)
    plain, _ = batches().tokens(captions, batches().draw(0, 0))
    tokens, _ = batches(unknown_rate=0.25).tokens(captions, batches().draw(0, 0))
    forgotten = tokens != plain
    assert (tokens[forgotten] == UNKNOWN).all()
    assert (plain[forgotten] > END).all()
    assert 0.2 < forgotten.sum() / (plain > END).sum() < 0.3


def test_what_a_step_draws_is_its_own_and_the_same_again() -> None:
    def drawn(seed: int, epoch: int, step: int) -> float:
        return batches(seed=seed).draw(epoch, step).random()

    places = [(7, 0, 0), (8, 0, 0), (7, 1, 0), (7, 0, 1)]
    assert len({drawn(*place) for place in places}) == len(places)
    assert drawn(7, 1, 2) == drawn(7, 1, 2)
