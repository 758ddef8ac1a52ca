"""The noun phrases of a caption, by rules that look at one word after the other."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from hasse.studies.wordnet.lexicon import PARTS_OF_SPEECH, Lexicon
from hasse.studies.wordnet.words import DETERMINERS, FUNCTION_WORDS, TOKEN, word_set

Tag = Literal["determiner", "adjective", "noun", "verb", "function", "other", "mark"]


# Nouns that say where something is or how much of it there is, and not what.
VAGUE = word_set(
    """
    front top side background group couple bunch number kind type part bit lot middle edge back
    set pair piece end view right left way time day air area distance foreground picture photo
    image row line crowd variety something someone another others one
    """
)


@dataclass(frozen=True, slots=True)
class Phrase:
    """A noun phrase.

    Attributes:
        start, end: its place among the words of the caption.
        determiner: "a", "two" or "".
        modifiers: the words between determiner and noun.
        noun: one word, or several that WordNet knows together.
    """

    start: int
    end: int
    determiner: str
    modifiers: tuple[str, ...]
    noun: str

    @property
    def text(self) -> str:
        """The whole phrase, without "the"."""
        determiner = () if self.determiner in {"", "the"} else (self.determiner,)
        return " ".join((*determiner, *self.modifiers, self.noun))


def tagged(caption: str, lexicon: Lexicon) -> list[tuple[str, Tag]]:
    """Return the words and marks of a caption with their parts of speech."""
    tags: list[tuple[str, Tag]] = []
    for word in TOKEN.findall(caption.lower()):
        before: Tag = tags[-1][1] if tags else "mark"
        tags.append((word, _tag(word, before, lexicon)))
    return tags


def _tag(word: str, before: Tag, lexicon: Lexicon) -> Tag:
    """Return the part of speech of a word after one of another."""
    if not word[0].isalnum():
        return "mark"
    if word in DETERMINERS:
        return "determiner"
    return "function" if word in FUNCTION_WORDS else _content_tag(word, before, lexicon)


def _content_tag(word: str, before: Tag, lexicon: Lexicon) -> Tag:
    noun, verb, adjective = (lexicon.frequency(word, part) for part in PARTS_OF_SPEECH)
    described = before in {"determiner", "adjective"}
    third_person = word.endswith("s") and not word.endswith("ss")
    tag: Tag
    if word.endswith("ing") and verb and not (described and noun > verb):
        tag = "verb" if not described else "noun" if noun > 2 * verb else "adjective"
    elif word.endswith("ed") and verb:
        opens = before in {"function", "mark"} and adjective > 0
        tag = "adjective" if described or opens else "verb"
    elif before == "noun" and third_person and verb and verb >= 0.3 * noun:
        tag = "verb"
    elif adjective and adjective >= noun and (adjective > verb or described):
        tag = "adjective"
    elif noun and (described or noun >= 0.7 * verb):
        tag = "noun"
    elif verb or adjective:
        tag = "verb" if verb else "adjective"
    else:
        tag = "noun" if described else "other"
    return tag


def phrases(words: list[tuple[str, Tag]], lexicon: Lexicon) -> list[Phrase]:
    """Return the noun phrases of a tagged caption that say what something is."""
    phrases_found: list[Phrase] = []
    at = 0
    while at < len(words):
        first = _past(words, at, {"determiner"})
        last = _past(words, first, {"adjective", "noun"})
        end = last
        while end > first and words[end - 1][1] != "noun":
            end -= 1
        if end > first:
            names = [word for word, _ in words[first:end]]
            together = "_".join(names[-2:]) in lexicon.senses["noun"]
            head = 2 if len(names) > 1 and words[end - 2][1] == "noun" and together else 1
            phrase = Phrase(
                at,
                end,
                words[first - 1][0] if first > at else "",
                tuple(names[:-head]),
                " ".join(names[-head:]),
            )
            # "black and white dog": half of its modifiers would be false of it alone.
            halved = phrase.modifiers and at > 1 and words[at - 1][0] == "and"
            halved = halved and words[at - 2][1] == "adjective"
            if names[-1] not in VAGUE and not halved:
                phrases_found.append(phrase)
        at = max(last, at + 1)
    return phrases_found


def _past(words: list[tuple[str, Tag]], at: int, tags: set[Tag]) -> int:
    while at < len(words) and words[at][1] in tags:
        at += 1
    return at
