"""The structure of a caption: a part of speech for each of its words.

WordNet knows nouns, verbs and adjectives. All other words are few: they are listed here and in
`hasse.studies.wordnet.words`.
"""

from __future__ import annotations

from hasse.models.vocabulary import words
from hasse.studies.wordnet.lexicon import Lexicon
from hasse.studies.wordnet.phrases import tagged
from hasse.studies.wordnet.words import word_set

# Names of parts of speech in a structure.
ACTIONS = frozenset({"verb", "verb-ing", "verb-ed", "verb-s"})
NOUNS = frozenset({"noun", "nouns"})
CONTENT = ACTIONS | NOUNS | {"adjective"}

_AUXILIARIES = word_set("is are was were be been being has have had")
_CONJUNCTIONS = word_set("and or but while as because if so when where than")
_PRONOUNS = word_set(
    """
    who which whose it there he she they them him himself herself itself themselves
    """
)
_ADVERBS = word_set("away back not no very too also just only together apart")
# They say how somebody looks, not what is done.
_ATTIRE = word_set("wearing wears wear worn dressed dressing clad clothed")


def structure(caption: str, lexicon: Lexicon) -> tuple[list[str], list[str]]:
    """Return the words of a caption and their parts of speech; both are empty for other scripts."""
    split = words(caption)
    pairs = tagged(" ".join(split), lexicon)
    if [word for word, _ in pairs] != split:
        return [], []
    return split, [_finer(word, tag, lexicon) for word, tag in pairs]


def _finer(word: str, tag: str, lexicon: Lexicon) -> str:
    if word in _ATTIRE:
        return "attire"
    if tag == "verb":
        return next((f"verb-{end}" for end in ("ing", "ed", "s") if word.endswith(end)), tag)
    if tag == "noun":
        return "nouns" if word.endswith("s") and lexicon.base(word, "noun") != word else tag
    if tag != "function":
        return tag
    for name, listed in (
        ("auxiliary", _AUXILIARIES),
        ("conjunction", _CONJUNCTIONS),
        ("pronoun", _PRONOUNS),
        ("adverb", _ADVERBS),
    ):
        if word in listed:
            return name
    return "preposition"
