"""Words of several senses in the built-in model: the other words of a caption decide."""

from __future__ import annotations

import json

import pytest

from hasse.models.checkpoints.checkpoint import BASE
from hasse.models.checkpoints.model_folder import VOCABULARY
from hasse.models.checkpoints.named_models import pretrained
from hasse.models.grounding.demands import Demands

# Captions, made before the table of senses, and the domain of the sense of the word.
CAPTIONS = (
    ("a yellow crane on top of a skyscraper", "crane", "building"),
    ("workers watch the crane move a container in the harbour", "crane", "building"),
    ("a crane stands on one leg in shallow water", "crane", "animal"),
    ("a crane with long legs and grey feathers", "crane", "animal"),
    ("a crane builds a nest among the reeds", "crane", "animal"),
    ("a laptop, a mouse and a cup of coffee", "mouse", "computer"),
    ("a man clicks the mouse while looking at the screen", "mouse", "computer"),
    ("an office desk with a monitor, a phone and a mouse", "mouse", "computer"),
    ("a mouse with a long tail eats seeds", "mouse", "animal"),
    ("a snake swallows a mouse", "mouse", "animal"),
    ("a tiny brown mouse hides in a hole", "mouse", "animal"),
    ("a batter holds a bat and waits for the pitch", "bat", "sport"),
    ("a baseball player with a bat and a helmet", "bat", "sport"),
    ("a furry bat sleeps in a dark cave", "bat", "animal"),
    ("a fruit bat eats a mango in a tree", "bat", "animal"),
    ("a seal balances a ball on its nose", "seal", "animal"),
    ("a seal on a rock near the ocean", "seal", "animal"),
    ("a glass of juice and half an orange", "orange", "eating"),
    ("an orange hangs from a tree branch", "orange", "eating"),
    ("a bowl of apples and an orange", "orange", "eating"),
    ("a man in orange runs", "orange", "color"),
    ("a tank with plants, gravel and fish", "tank", "container"),
    ("an army tank drives through the mud", "tank", "weapon"),
    ("an archer draws his bow at a target", "bow", "weapon"),
    ("a gift with a red ribbon and a bow", "bow", "clothing"),
    ("a hunter with a bow and arrows in the forest", "bow", "weapon"),
    ("a violin player holds the bow", "bow", "music"),
    ("a drill makes a hole in a wall", "drill", "tool"),
    ("a turtle swims over a reef", "turtle", "animal"),
    ("a lizard called a monitor climbs a rock", "monitor", "animal"),
    ("a screen and a monitor connected to a computer", "monitor", "computer"),
    ("a woman in an evening dress with a feather boa", "boa", "clothing"),
    ("a boa swallows a rat", "boa", "animal"),
    ("a jet plane lands on the runway", "plane", "traffic"),
    ("a plane and a chisel on the workbench of a carpenter", "plane", "tool"),
    ("tourists ride in a gondola in Venice", "gondola", "boat"),
    ("she plays the horn in a brass band", "horn", "music"),
    ("a bull with a broken horn", "horn", "animal"),
    ("a cardigan and a skirt hang in the closet", "cardigan", "clothing"),
    ("a corgi and a cardigan run on the lawn", "cardigan", "animal"),
)


@pytest.fixture(scope="module")
def demands() -> Demands:
    folder = pretrained("photographs")
    known = json.loads((folder / BASE / VOCABULARY).read_bytes())
    return Demands.from_json(json.loads((folder / VOCABULARY).read_bytes()), known)


def demanded(demands: Demands, text: str, word: str) -> set[int]:
    """Return the coordinates that a word of a text demands."""
    return {
        at
        for phrase in demands.phrases(text)
        if phrase.text.split()[-1].removesuffix("s") == word
        for at in phrase.coordinates
    }


def test_senses_follow_the_other_words_of_a_caption(demands: Demands) -> None:
    right = 0
    for text, word, domain in CAPTIONS:
        (sense,) = (one for one in demands.senses[word] if one.domain == domain)
        right += demanded(demands, text, word) == set(demands.rows[sense.row])
    assert right >= 0.9 * len(CAPTIONS)


@pytest.mark.parametrize(
    ("word", "domain"), [("crane", "building"), ("mouse", "animal"), ("turtle", "animal")]
)
def test_a_word_alone_has_its_likeliest_sense(demands: Demands, word: str, domain: str) -> None:
    first = demands.senses[word][0]
    assert first.domain == domain
    assert demanded(demands, f"two {word}s", word) == set(demands.rows[first.row])


def test_a_word_whose_likeliest_sense_no_class_tells_demands_nothing(demands: Demands) -> None:
    assert not demands.of("a dog with big ears").row[list(_corn(demands))].any()
    assert demanded(demands, "an ear with ripe kernels", "ear") == _corn(demands)


@pytest.mark.parametrize("text", ["a plate", "a mirror", "a plant", "water", "a toilet", "a field"])
def test_a_word_that_no_class_is_like_demands_nothing(demands: Demands, text: str) -> None:
    by_classes = demands.of(text).row[: demands.size - demands.learned]
    assert by_classes.max() < 0.1  # at most what follows from a taught word


def _corn(demands: Demands) -> set[int]:
    return set(demands.rows[demands.senses["ear"][1].row])
