"""Phrases of drawn scenes."""

from __future__ import annotations

import pytest

from hasse.models.checkpoints import checkpoint, named_models
from hasse.scenes.reading import read
from hasse.scenes.scene import Entity, Scene, Situation
from hasse.studies.scenes.usual_phrases import USUAL, is_true_of


def test_phrases_of_scenes_are_read_as_statements() -> None:
    places = [place.split(" ", 1)[1] for place in USUAL.places]
    texts = [text for text in USUAL.texts if text not in USUAL.places]
    assert [text for text in (*texts, *places) if read(text) is None] == []


def test_phrases_of_scenes_have_no_word_that_the_model_does_not_know() -> None:
    model = checkpoint.load(named_models.pretrained("scenes"), with_pictures=False).model
    assert {word for text in USUAL.texts for word in model.vocabulary.unknown_words(text)} == set()


@pytest.mark.parametrize(
    ("text", "true"),
    [
        ("a poodle", True),
        ("in a park", True),
        ("a dog in a park", True),
        ("in a kitchen", False),
        ("a cat", False),
        ("nothing that a caption says", False),
    ],
)
def test_truth_of_a_phrase_is_that_of_the_scene(text: str, true: bool) -> None:
    scene = Scene(Situation((Entity("poodle"),), place="park"))
    assert is_true_of(text, scene) is true
