"""Texts derived from the captions of training images, and the images they are true of."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np
from numpy.typing import NDArray

from hasse.models.datasets import Image
from hasse.studies.photographs.chains import Chain
from hasse.studies.wordnet.words import content_words

Rows = NDArray[np.int64]


class DerivedTexts:
    """The texts that follow from each image's captions, without the captions themselves.

    A text is true of an image if the image's captions have or imply all its content words.
    Otherwise it counts as false.

    Attributes:
        texts: the distinct texts.
    """

    def __init__(self, images: Sequence[Image], chains: Iterable[Chain]) -> None:
        """Collect the texts of chains, except the last of each, which is a caption."""
        row_of = {image.id: row for row, image in enumerate(images)}
        kept = [chain for chain in chains if chain.image_id in row_of]
        numbers: dict[str, int] = {}
        own: list[set[int]] = [set() for _ in images]
        for chain in kept:
            rows = (numbers.setdefault(text, len(numbers)) for text in chain.texts[:-1])
            own[row_of[chain.image_id]].update(rows)
        self.texts = tuple(numbers)
        self._own = [np.array(sorted(rows), dtype=np.int64) for rows in own]
        content = [sorted(set(content_words(text))) for text in self.texts]
        words = {word: at for at, word in enumerate(sorted({w for one in content for w in one}))}
        # The words of each text, padded with one that is known of every image.
        always = len(words)
        self._words = np.full((len(content), max(map(len, content), default=0)), always)
        for row, one in enumerate(content):
            self._words[row, : len(one)] = [words[word] for word in one]
        self._known = np.zeros((len(images), always + 1), np.bool_)
        self._known[:, always] = True
        for row, image in enumerate(images):
            self._know(row, words, (w for one in image.captions for w in content_words(one.text)))
        for chain in kept:
            self._know(row_of[chain.image_id], words, chain.implied)

    def _know(self, row: int, words: dict[str, int], known: Iterable[str]) -> None:
        self._known[row, [words[word] for word in known if word in words]] = True

    def draw(self, images: Rows, draw: np.random.Generator) -> tuple[Rows, Rows, NDArray[np.bool_]]:
        """Return the images of a batch with a text, a text of each, and which are true of which.

        (B,) -> (D,) places in the batch, (D,) rows of `texts`, (D, D).
        """
        at = np.array([i for i, row in enumerate(images) if len(self._own[row])], dtype=np.int64)
        chosen = np.array([draw.choice(self._own[images[i]]) for i in at], dtype=np.int64)
        holds: NDArray[np.bool_] = np.all(self._known[images[at]][:, self._words[chosen]], axis=-1)
        holds[np.arange(len(at)), np.arange(len(at))] = True
        return at, chosen, holds
