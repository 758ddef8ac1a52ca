"""From a caption to a chain: its first noun phrase, more and more of it, all of it."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from hasse.models.datasets import Image
from hasse.studies.photographs.chains import Chain
from hasse.studies.wordnet.lexicon import Lexicon
from hasse.studies.wordnet.phrases import Tag, phrases, tagged
from hasse.studies.wordnet.words import content_words, word_set

_COUNTED = frozenset({"two", "three", "four", "five"})
# A rare hypernym confuses more than it tells ("placental").
_USUAL = 20
# Words that are true of everything.
_EMPTY = word_set(
    """
    entity physical_entity abstraction abstract_entity object physical_object whole unit
    matter  thing causal_agent cause causal_agency living_thing animate_thing artifact
    artefact organism  being psychological_feature attribute relation group grouping  part
    portion
    """
)


def derive(
    images: Sequence[Image],
    lexicon: Lexicon,
    progress: Callable[[int, int], None] = lambda done, total: None,
) -> list[Chain]:
    """Return a chain for each caption that one follows from.

    A chain's `implied` are all words that hold of a word of any of its picture's captions.
    """
    chains: list[Chain] = []
    for number, image in enumerate(images, start=1):
        words = {word for one in image.captions for word in content_words(one.text)}
        implied = tuple(sorted({name for word in words for name in lexicon.implied(word)}))
        for caption in image.captions:
            texts = chain_of(caption.text, lexicon)
            if len(texts) > 1:
                chains.append(Chain(image.id, tuple(texts), implied))
        progress(number, len(images))
    return chains


def chain_of(caption: str, lexicon: Lexicon) -> list[str]:
    """Return texts that follow from a caption, from general to specific; the last is all of it.

    "A blue bird sitting on a branch in autumn" gives "animal", "bird", "a blue bird", "a blue bird
    sitting on a branch" and itself. There are none where no noun phrase is found.
    """
    words = tagged(caption, lexicon)
    found = phrases(words, lexicon)
    if not found:
        return []
    first = found[0]
    above = usual_hypernym(first.noun, lexicon)
    texts = [first.noun] if above is None else [above, first.noun]
    if first.modifiers or first.determiner in _COUNTED:
        texts.append(first.text)
    if len(found) > 1:
        texts.append(_text(words[first.start : found[1].end]))
    texts.append(_text(words))
    return list(dict.fromkeys(texts))


def usual_hypernym(noun: str, lexicon: Lexicon) -> str | None:
    """Return the nearest usual word for what a noun is a kind of, if there is one."""
    for synset in lexicon.hypernyms(noun):
        for word in lexicon.words[synset]:
            if word not in _EMPTY and lexicon.counts.get((word, "noun"), 0) >= _USUAL:
                return word.replace("_", " ")
    return None


def _text(words: Sequence[tuple[str, Tag]]) -> str:
    return " ".join(word for word, tag in words if tag != "mark")
