"""Captions: five to a scene, at different levels, each text with one meaning."""

from __future__ import annotations

import itertools
from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hasse.scenes import (
    Scene,
    SceneTable,
    Situation,
    Statement,
    compose,
    entails,
    sample_statements,
    scene_and_captions,
)
from hasse.scenes.wording import write

SEEDS = st.integers(0, 2**32)


@given(SEEDS)
@settings(max_examples=100)
def test_scene_has_five_distinct_captions_and_one_says_everything(seed: int) -> None:
    _, found = scene_and_captions(seed, "train", 0)
    assert len({caption.text for caption in found}) == 5
    assert [caption.full for caption in found] == [True, False, False, False, False]
    assert found[-1].concepts() <= 2
    assert all(found[0].concepts() >= caption.concepts() for caption in found[3:])


@given(SEEDS)
@settings(max_examples=60)
def test_full_caption_entails_the_others(seed: int) -> None:
    scene, found = scene_and_captions(seed, "train", 0)
    if scene.situation.place != "forest":  # its trees go without saying
        assert all(entails(found[0], caption) or _plain(caption) for caption in found)


def _plain(caption: Statement) -> bool:
    """Standing still is the one thing that a full caption may leave out."""
    return any(entity.action == "standing" for entity in caption.situation.entities)


def test_text_has_one_meaning() -> None:
    meanings: dict[str, Statement] = {}
    for index in range(1500):
        for caption in scene_and_captions(3, "test", index)[1]:
            other = meanings.setdefault(caption.text, caption)
            assert entails(other, caption), caption.text
            assert entails(caption, other), caption.text


def test_texts_are_plain_english_sentences_without_slips() -> None:
    vowels = "aeiou"
    for index in range(500):
        for caption in scene_and_captions(4, "test", index)[1]:
            words = caption.text.replace(",", "").split()
            assert caption.text == caption.text.lower().strip()
            assert "  " not in caption.text
            for article, word in itertools.pairwise(words):
                assert article not in ("a", "an") or (article == "an") == (word[0] in vowels)
            assert all(word != after for word, after in itertools.pairwise(words))


@given(SEEDS)
@settings(max_examples=60)
def test_scenes_and_statements_survive_json(seed: int) -> None:
    scene, found = scene_and_captions(seed, "val", 1)
    assert Scene.from_json(scene.to_json()) == scene
    for caption in found:
        again = Statement.from_json(caption.to_json())
        assert (again, again.text, again.full) == (caption, caption.text, caption.full)


@pytest.mark.parametrize("concepts", [1, 2, 3])
def test_sampled_statements_differ_and_have_the_number_of_concepts(concepts: int) -> None:
    found = sample_statements(Random(5), 50, concepts)
    assert len(found) == 50
    assert len({each.situation for each in found}) == 50
    assert {each.concepts() for each in found} == {concepts}
    table = SceneTable([compose(Random(index)) for index in range(500)])
    assert sum(bool(table.holds(each).any()) for each in found) >= 45


def test_language_that_runs_out_gives_what_it_has() -> None:
    found = sample_statements(Random(6), 1000, 1)
    assert 50 <= len(found) < 100


def test_meaning_has_several_texts() -> None:
    scene = compose(Random(7))
    situation: Situation = scene.situation
    assert len({write(situation, Random(seed)) for seed in range(40)}) > 5
