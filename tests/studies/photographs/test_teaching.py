"""Words learned from captions and features."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from hasse.models.datasets import DatasetError
from hasse.models.encoders.regions import REGIONS
from hasse.models.grounding.taught import TaughtWords
from hasse.studies.photographs.everyday import EverydayWords
from hasse.studies.photographs.teaching import Lessons, Taught, teach
from hasse.studies.wordnet.lexicon import Lexicon
from tests.wordnet import write_wordnet

PICTURES, FEATURES = 1200, 6


@pytest.fixture
def words(tmp_path: Path) -> EverydayWords:
    return EverydayWords(Lexicon.read(write_wordnet(tmp_path / "wordnet")))


def lesson() -> tuple[list[list[str]], np.ndarray[tuple[int, ...], np.dtype[np.float16]]]:
    """Return captions of dogs, birds and branches, and features with one of them in a window."""
    draw = np.random.default_rng(0)
    features = draw.normal(0, 0.3, (PICTURES, REGIONS, FEATURES))
    captions = []
    for row in range(PICTURES):
        kind = row % 3
        features[row, draw.integers(REGIONS), kind] += 4
        captions.append([("a dog walks", "two birds and an animal", "a branch")[kind]])
    return captions, features.astype(np.float16)


def test_words_are_learned_from_one_window_and_a_general_word_holds_of_its_kinds(
    words: EverydayWords, tmp_path: Path
) -> None:
    captions, features = lesson()
    lessons = Lessons.of(captions, words)
    taught = teach(lessons, features, epochs=40)
    assert {"dog/noun", "bird/noun", "animal/noun"} <= set(taught.lemmas)
    assert (taught.auc > 0.9).all()
    taught.write(tmp_path / "words.npz")
    read = Taught.read(tmp_path / "words.npz")
    assert read.forms["birds"] == read.lemmas.index("bird/noun")
    model = TaughtWords(read.weight, read.bias, read.kinds)
    dog, bird, animal = (read.lemmas.index(f"{word}/noun") for word in ("dog", "bird", "animal"))
    odds = np.stack([model.log_odds(row.astype(np.float32)) for row in features[:60]])
    assert (odds[::3, dog, None] > odds[1::3, dog]).mean() > 0.9
    assert (odds[:, animal] >= np.maximum(odds[:, dog], odds[:, bird])).all()
    assert (odds[1::3, animal, None] > odds[2::3, animal]).mean() > 0.9


def test_words_that_pictures_kept_apart_do_not_confirm_are_left_out(words: EverydayWords) -> None:
    captions, features = lesson()
    draw = np.random.default_rng(1)
    unseen = [[f"{texts[0]} in autumn"] if draw.random() < 0.3 else texts for texts in captions]
    taught = teach(Lessons.of(unseen, words), features, epochs=10)
    assert "autumn/noun" not in taught.lemmas
    assert "dog/noun" in taught.lemmas


def test_too_few_pictures_are_refused(words: EverydayWords) -> None:
    with pytest.raises(DatasetError, match="give more pictures"):
        Lessons.of([["a dog"]], words)


def test_a_file_of_another_kind_is_refused(tmp_path: Path) -> None:
    (tmp_path / "words.npz").write_bytes(b"words")
    with pytest.raises(DatasetError, match="does not hold taught words"):
        Taught.read(tmp_path / "words.npz")
