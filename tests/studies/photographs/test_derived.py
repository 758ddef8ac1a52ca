"""Derived texts hold of the images whose captions say or imply all of their words."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from hasse.models.datasets import Caption, Image
from hasse.studies.photographs.chains import Chain
from hasse.studies.photographs.derived import DerivedTexts


def image(number: int, caption: str) -> Image:
    path = Path(f"/nowhere/{number}.png")
    return Image(number, path.name, path, "train", 9, 9, (Caption(number, number, caption),))


IMAGES = (image(1, "a black dog runs"), image(2, "a cat"), image(3, "a man"), image(4, "a dog"))
CHAINS = (
    Chain(1, ("animal", "a black dog", "a black dog runs"), ("animal", "dog")),
    Chain(2, ("animal", "a cat"), ("animal",)),
    Chain(4, ("a dog", "a dog sleeps"), ("animal", "dog")),
    Chain(9, ("of no image", "here"), ()),
)


def test_derived_texts_are_all_but_the_captions() -> None:
    assert set(DerivedTexts(IMAGES, CHAINS).texts) == {"animal", "a black dog", "a dog"}


def test_draw_tells_which_texts_hold_of_which_images() -> None:
    derived = DerivedTexts(IMAGES, CHAINS)
    for seed in range(8):
        draw = np.random.default_rng(seed)
        at, texts, holds = derived.draw(np.array([2, 0, 1, 3]), draw)
        assert at.tolist() == [1, 2, 3], "the man has none"
        black = derived.texts[texts[0]] == "a black dog"
        assert holds[:, 0].tolist() == [True, not black, not black]
        assert holds[:, 1].tolist() == [True, True, True], "all are animals"
        assert holds[:, 2].tolist() == [True, False, True], "both are dogs"
