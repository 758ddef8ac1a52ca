"""Which texts of a picture contain the words of a query, and the excerpts that an answer shows."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TypeAlias

from hasse.index.catalog.text_search import ResolvedTerm, find_terms
from hasse.index.text.query import fold
from hasse.index.types import SourcedText
from hasse.service.questions.pipeline import Fields

Texts: TypeAlias = Mapping[int, Sequence[SourcedText]]  # by image id
# Texts of an image, each with the positions of the terms that it contains.
Matched: TypeAlias = Sequence[tuple[SourcedText, set[int]]]

_SNIPPET = 160  # characters
_MAX_TEXTS = 3  # texts that a hit lists


def terms_in(texts: Texts, terms: Sequence[ResolvedTerm]) -> dict[int, Matched]:
    """Return the texts of each image, each with the positions of the terms that it contains."""
    positions = iter(find_terms([text.text for of in texts.values() for text in of], terms))
    return {id_: [(text, next(positions)) for text in of_image] for id_, of_image in texts.items()}


def excerpts(matched: Matched, terms: Sequence[ResolvedTerm]) -> list[Fields]:
    """Return the texts with the terms: repeatedly the one with most of the missing terms."""
    missing, chosen = set(range(len(terms))), list[Fields]()
    while matched and missing and len(chosen) < _MAX_TEXTS:
        text, found = max(matched, key=lambda pair: len(missing & pair[1]))
        if not missing & found:
            break
        excerpt = _snippet(text.text, [terms[at] for at in sorted(missing)])
        chosen.append({"where": text.source, "text": excerpt})
        missing -= found
    return chosen


def _snippet(text: str, terms: Sequence[ResolvedTerm]) -> str:
    """Return the part of a text around the first word of one of the terms."""
    if len(text) <= _SNIPPET:
        return text
    at = next(_positions(text, terms), 0)
    start = max(0, at - _SNIPPET // 3)
    end = start + _SNIPPET
    return f"{'…' if start else ''}{text[start:end].strip()}{'…' if end < len(text) else ''}"


def _positions(text: str, terms: Sequence[ResolvedTerm]) -> Iterator[int]:
    """Yield the positions of words that contain the first word of a term."""
    at = 0
    for word in text.split(" "):
        folded = fold(word)
        if folded and any(term.text.split()[0] in folded for term in terms):
            yield at
        at += len(word) + 1
