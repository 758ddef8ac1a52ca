"""Find the images whose texts contain the words of a query.

SQLite and PostgreSQL search the same folded documents by the same rules, and return the newest
images first. So both give the same answers.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain
from math import log1p
from typing import Any, NamedTuple

import sqlalchemy as sql
from sqlalchemy import Connection

from hasse.index.catalog.schema import IMAGES
from hasse.index.catalog.text_statements import (
    Column,
    Documents,
    count_each,
    find,
    listed,
    newest_first,
    said_words,
)
from hasse.index.text.query import Form, ResolvedTerm, Term, TextPattern, TextQuery, is_hangul
from hasse.index.text.spelling import inflections, off_by_one

_SHORTEST_PART = 3  # characters of a beginning or a part of a word: one trigram
_SHORTEST_HANGUL = 2  # syllables: each is a letter or two more in other scripts
_SHORTEST_CORRECTED = 4
_MOST_CORRECTED = 4  # words of a query: each has hundreds of near spellings
_COMMON = 1_000  # documents: more frequent words distinguish pictures no better
_SHARE = 0.4  # minimum share of the weight of a query that a document must have
_CACHE_LIMIT = 20_000  # counts: queries rarely have more different words


@dataclass(frozen=True, slots=True)
class TextMatches:
    """The ids of images whose texts match a query, the newest first.

    Attributes:
        all_words: images with all words.
        unknown_words: images with all words that the model does not know.
        partial: images with weaker matches: generated captions, or only some of the words; the best
            first.
        resembling: images with words that only resemble those of the query.
        terms: the terms that any document contains.
    """

    all_words: tuple[int, ...] = ()
    unknown_words: tuple[int, ...] = ()
    partial: tuple[int, ...] = ()
    resembling: tuple[int, ...] = ()
    terms: tuple[ResolvedTerm, ...] = ()

    def merge_versions(
        self, versions: Callable[[Iterable[int]], Mapping[int, Sequence[int]]]
    ) -> TextMatches:
        """Return the matches with each image replaced by the first of its versions."""
        kinds = (self.all_words, self.unknown_words, self.partial, self.resembling)
        versions_of = versions([*chain.from_iterable(kinds)])
        all_words, unknown_words, partial, resembling = (
            tuple(dict.fromkeys(versions_of.get(id_, (id_,))[0] for id_ in ids)) for ids in kinds
        )
        return TextMatches(all_words, unknown_words, partial, resembling, self.terms)


class DocumentCounts(NamedTuple):
    """The approximate number of images, and of documents for each pattern, up to `_COMMON`.

    Patterns without a document are missing.
    """

    images: int
    documents: dict[TextPattern, int]


class CountCache:
    """Caches the counts of one generation that searches needed.

    Zero counts are not cached: another process may have added a document, in a generation that this
    process has not loaded yet.
    """

    def __init__(self) -> None:
        self._cached: tuple[int, dict[TextPattern, int]] = -1, {}

    def of(self, generation: int, images: int) -> DocumentCounts:
        """Return the counts of a generation; searches add to them."""
        cached = self._cached
        if cached[0] != generation or len(cached[1]) > _CACHE_LIMIT:
            cached = self._cached = generation, {}
        return DocumentCounts(images, cached[1])


def match_texts(
    connection: Connection,
    query: TextQuery,
    knows: Callable[[str], bool],
    limit: int,
    counts: DocumentCounts,
    selected: Sequence[sql.ColumnElement[bool]] = (),
) -> TextMatches:
    """Return the images whose texts match a query, up to `limit` of each kind.

    `knows` returns whether the model knows a word. `selected` has conditions on `IMAGES`.
    """
    if not query.terms:
        return TextMatches()
    lookup = _DocumentLookup(connection, limit, counts, selected)
    terms = _resolve(lookup, query.terms, [knows(term.written) for term in query.terms])
    exact = [term.pattern for term in terms if not term.only_resembles]
    unknown = [term.pattern for term in terms if not term.known]
    is_exact = len(exact) == len(terms)
    patterns = exact if is_exact else [term.pattern for term in terms]
    whole_patterns = exact if is_exact and len(terms) == len(query.terms) else []
    rare = [pattern for pattern in exact if counts.documents[pattern] < _COMMON]
    whole, unknown_words, resembling, written, *by_pattern = lookup.newest(
        (whole_patterns, "human"),
        (unknown if is_exact and unknown != whole_patterns else (), "human"),
        (() if is_exact else unknown, "human"),
        ([(term.folded, "word") for term in query.terms], "written"),
        *(([pattern], "human") for pattern in rare if len(query.terms) > 1),
    )
    missing = len(query.terms) - len(terms)
    some = _rank_some(patterns, dict(zip(rare, by_pattern, strict=False)), missing, counts)
    names = _without(unknown_words, whole)
    partial = _without((*written, *some[:limit]), whole, names)
    last = _without(resembling, whole, names, partial)
    return TextMatches(whole, names, partial[:limit], last, tuple(terms))


def _without(ids: Iterable[int], *others: Iterable[int]) -> tuple[int, ...]:
    """Return ids, each once, that are in none of the others."""
    listed = {*chain.from_iterable(others)}
    return tuple(id_ for id_ in dict.fromkeys(ids) if id_ not in listed)


class _DocumentLookup:
    """Finds documents in one transaction.

    Statements go directly to the driver: SQLAlchemy needs more time for one than SQLite. Ids come
    as one JSON text, as in `index.catalog.lookups`: before each row, SQLite would wait for the
    other threads of a busy service.
    """

    def __init__(
        self,
        connection: Connection,
        limit: int,
        counts: DocumentCounts,
        selected: Sequence[sql.ColumnElement[bool]],
    ) -> None:
        self._connection = connection
        self._cursor = connection.connection.cursor()
        self._dialect = connection.dialect.name
        self._limit = limit
        self._counted = counts.documents
        self._selected = selected

    def counts(self, patterns: Sequence[TextPattern]) -> list[int]:
        """Return the number of documents for each pattern, up to `_COMMON`."""
        missing = [pattern for pattern in patterns if pattern not in self._counted]
        if missing:
            statement = count_each(self._dialect, missing, _COMMON)
            row = statement.row(self._cursor, self._dialect)
            counts = zip(missing, row, strict=True)
            self._counted.update((pattern, count) for pattern, count in counts if count)
        return [self._counted.get(pattern, 0) for pattern in patterns]

    def is_counted(self, word: str) -> bool:
        """Return whether a document with a word was counted."""
        return (word, "word") in self._counted

    def said(self, words: Sequence[str]) -> set[str]:
        """Return those words that any document contains, or that one has contained."""
        (said,) = said_words(self._dialect, words).row(self._cursor, self._dialect)
        return set(json.loads(said or "[]"))

    def newest(self, *lists: tuple[Sequence[TextPattern], Column]) -> list[tuple[int, ...]]:
        """Return, for each list of patterns, the newest selected documents that match them all.

        An empty list has no documents; at least one is not empty. One statement finds all.
        """
        wanted = [
            Documents(patterns, column, self._are_few(patterns, column))
            for patterns, column in lists
            if patterns
        ]
        if self._selected:
            columns = [self._selected_list(at, one) for at, one in enumerate(wanted)]
            row: Sequence[Any] = self._connection.execute(sql.select(*columns)).one()
        else:
            statement = newest_first(self._dialect, wanted, self._limit)
            row = statement.row(self._cursor, self._dialect)
        found = (sorted(json.loads(ids or "[]"), reverse=True) for ids in row)
        return [tuple(next(found)[: self._limit]) if patterns else () for patterns, _ in lists]

    def _are_few(self, patterns: Sequence[TextPattern], column: Column) -> bool:
        few = column == "human" and len(patterns) > 1
        return few and any(self._counted.get(pattern, _COMMON) < _COMMON for pattern in patterns)

    def _selected_list(self, at: int, documents: Documents) -> sql.ScalarSelect[Any]:
        found = find(self._dialect, documents.patterns, documents.column, f"t{at}_")
        ids = found.subquery(self._dialect).subquery()
        chosen = sql.exists().where(IMAGES.c.id == ids.c.id, *self._selected)
        newest = sql.select(ids.c.id).where(chosen).order_by(ids.c.id.desc()).limit(self._limit)
        return sql.select(listed(self._dialect)).select_from(newest.subquery()).scalar_subquery()


def _rank_some(
    patterns: Sequence[TextPattern],
    documents: Mapping[TextPattern, Sequence[int]],
    missing: int,
    counts: DocumentCounts,
) -> list[int]:
    """Return documents that match enough of the patterns, by descending weight.

    The fewer documents match a pattern, the larger is its weight. A pattern that matches none has
    the largest weight: documents without it match little of the query.
    """
    weights: dict[int, float] = {}
    total = missing * log1p(counts.images)
    for pattern in patterns:
        weight = log1p(counts.images / counts.documents[pattern])
        total += weight
        for id_ in documents.get(pattern, ()):
            weights[id_] = weights.get(id_, 0.0) + weight
    enough = (id_ for id_, weight in weights.items() if weight >= _SHARE * total)
    return sorted(enough, key=lambda id_: (-weights[id_], -id_))


def _resolve(
    lookup: _DocumentLookup, terms: Sequence[Term], known: Sequence[bool]
) -> list[ResolvedTerm]:
    """Return the terms that any document contains, each in its form there.

    A term that the model knows is spelt right: documents contain it or an inflection of it. A term
    that neither the model nor any text knows may be the beginning or a part of a word, or misspelt.
    One statement looks up all terms in each form.
    """
    resolved: dict[Term, ResolvedTerm] = {}
    known_terms = dict(zip(terms, known, strict=True))

    def resolve(form: Form, texts: Mapping[Term, str]) -> None:
        counts = lookup.counts([(text, form) for text in texts.values()])
        for (term, text), count in zip(texts.items(), counts, strict=True):
            if count:
                resolved[term] = ResolvedTerm(term, text, form, known_terms[term])

    def unresolved(is_tried: Callable[[Term], bool]) -> list[Term]:
        return [term for term in known_terms if term not in resolved and is_tried(term)]

    resolve("word", {term: term.folded for term in terms})
    forms: tuple[Form, ...] = ("beginning", "part")
    for form in forms:
        beginnings = unresolved(lambda term: not known_terms[term] and _is_beginning(term.folded))
        resolve(form, {term: term.folded for term in beginnings})
    known_words = unresolved(lambda term: known_terms[term])
    misspelt = unresolved(lambda term: not known_terms[term] and _may_be_misspelt(term.folded))
    others = {term: inflections(term.folded) for term in known_words}
    others |= {term: list(off_by_one(term.folded)) for term in misspelt[:_MOST_CORRECTED]}
    if words := [*chain.from_iterable(others.values())]:
        said = lookup.said(words)
        lookup.counts([(word, "word") for word in words if word in said])
        for term, each in others.items():
            if word := next((word for word in each if lookup.is_counted(word)), None):
                resolved[term] = ResolvedTerm(term, word, "word", known_terms[term])
    return [resolved[term] for term in terms if term in resolved]


def _is_beginning(folded: str) -> bool:
    shortest = _SHORTEST_HANGUL if is_hangul(folded[0]) else _SHORTEST_PART
    return len(folded) >= shortest


def _may_be_misspelt(folded: str) -> bool:
    return len(folded) >= _SHORTEST_CORRECTED and " " not in folded
