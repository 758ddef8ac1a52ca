"""Find the images whose texts contain the words of a query.

SQLite and PostgreSQL search the same folded documents by the same rules, and return the newest
images first. So both give the same answers.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain
from math import log1p
from typing import Any, Literal, NamedTuple, TypeAlias

import sqlalchemy as sql
from sqlalchemy import Connection

from hasse.index.catalog.schema import IMAGES
from hasse.index.text.query import Term, TextQuery, fold
from hasse.index.text.spelling import off_by_one

Form: TypeAlias = Literal["word", "beginning", "part"]
Column: TypeAlias = Literal["human", "written"]

FORMS: tuple[Form, ...] = ("word", "beginning", "part")
_SHORTEST_PART = 3  # characters of a beginning or a part of a word: one trigram
_SHORTEST_CORRECTED = 4
_COMMON = 1_000  # documents: more frequent words distinguish pictures no better
_SHARE = 0.4  # minimum share of the weight of a query that a document must have
_NAME = re.compile(":([a-z][a-z0-9_]*)")  # of a parameter of a statement
_ID = sql.column("id", sql.BigInteger)
_BY_WORDS = "SELECT rowid AS id FROM documents_words"
_BY_TRIGRAMS = "SELECT rowid AS id FROM documents_trigrams"
_CACHE_LIMIT = 20_000  # counts: queries rarely have more different words
_LIST = "(SELECT {} FROM ({}) AS list{})"
_IF_GENERATED = "CASE WHEN EXISTS (SELECT 1 FROM written) THEN {} END"  # captions
_LISTED = {"sqlite": "json_group_array(id)", "postgresql": "CAST(json_agg(id) AS TEXT)"}
_COUNT = "(SELECT count(*) FROM ({} LIMIT {}) AS c{})"


TextPattern: TypeAlias = tuple[str, Form]  # a folded text, and the form to match in documents


@dataclass(frozen=True, slots=True)
class ResolvedTerm:
    """A term of a query in the form that documents contain.

    Attributes:
        text: the folded term; a correction of it if no document contains the term.
        form: whether it matches words, beginnings of words, or parts of words.
        known: whether the model knows the term.
    """

    term: Term
    text: str
    form: Form
    known: bool

    @property
    def is_corrected(self) -> bool:
        """Whether `text` is a correction."""
        return self.text != self.term.folded

    @property
    def pattern(self) -> TextPattern:
        """The pattern that documents must match."""
        return self.text, self.form


@dataclass(frozen=True, slots=True)
class TextMatches:
    """The ids of images whose texts match a query, the newest first.

    Attributes:
        all_words: images with all words.
        unknown_words: images with all words that the model does not know.
        partial: images with weaker matches: parts of words, generated captions, or only some of the
            words; the best first.
        terms: the terms that any document contains.
    """

    all_words: tuple[int, ...] = ()
    unknown_words: tuple[int, ...] = ()
    partial: tuple[int, ...] = ()
    terms: tuple[ResolvedTerm, ...] = ()

    def merge_versions(
        self, versions: Callable[[Iterable[int]], Mapping[int, Sequence[int]]]
    ) -> TextMatches:
        """Return the matches with each image replaced by the first of its versions."""
        kinds = (self.all_words, self.unknown_words, self.partial)
        versions_of = versions([*chain.from_iterable(kinds)])
        all_words, unknown_words, partial = (
            tuple(dict.fromkeys(versions_of.get(id_, (id_,))[0] for id_ in ids)) for ids in kinds
        )
        return TextMatches(all_words, unknown_words, partial, self.terms)


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
    patterns = [term.pattern for term in terms]
    unknown = [term.pattern for term in terms if not term.known]
    is_whole = len(terms) == len(query.terms)
    rare = [pattern for pattern in patterns if counts.documents[pattern] < _COMMON]
    whole, unknown_words, written, *by_pattern = lookup.newest(
        (patterns if is_whole else (), "human"),
        # If the model knows no word, these are the same.
        (() if is_whole and unknown == patterns else unknown, "human"),
        ([(term.folded, "word") for term in query.terms], "written"),
        *(([pattern], "human") for pattern in rare if len(query.terms) > 1),
    )
    is_strong = all(term.form == "word" or not term.known for term in terms)
    all_words, parts = (whole, ()) if is_strong else ((), whole)
    missing = len(query.terms) - len(terms)
    some = _rank_some(patterns, dict(zip(rare, by_pattern, strict=False)), missing, counts)
    strong = dict.fromkeys(all_words)
    unknown_words = tuple(id_ for id_ in unknown_words if id_ not in strong)
    strong |= dict.fromkeys(unknown_words)
    weak = dict.fromkeys((*parts, *written, *some[:limit]))
    partial = tuple(id_ for id_ in weak if id_ not in strong)
    return TextMatches(all_words, unknown_words, partial[:limit], tuple(terms))


def find_terms(texts: Sequence[str], terms: Sequence[ResolvedTerm]) -> list[set[int]]:
    """Return for each text the positions in `terms` of the terms that it contains."""
    spaces = [_spaces(term.form) for term in terms]
    folded = [
        f"{before}{term.text}{after}" for term, (before, after) in zip(terms, spaces, strict=True)
    ]
    padded = [f" {words} " for words in map(fold, texts)]
    return [{at for at, term in enumerate(folded) if term in words} for words in padded]


def documents_with(dialect: str, text: str) -> sql.TextualSelect:
    """Return the statement for the ids of the documents with a folded text."""
    return _statement(dialect, [(text, "word")], "human").subquery()


class _Statement(NamedTuple):
    """A statement for ids of documents, and the values of its parameters."""

    text: str
    values: dict[str, str | int]

    def subquery(self) -> sql.TextualSelect:
        """Return the statement as a subquery with unique parameter names."""
        bound: list[sql.BindParameter[Any]] = [
            sql.bindparam(name, value, unique=True) for name, value in self.values.items()
        ]
        return sql.text(self.text).bindparams(*bound).columns(_ID)


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
        parts, values = [], dict[str, str | int]()
        for at, pattern in enumerate(missing):
            statement = _statement(self._dialect, [pattern], "human", f"t{at}_")
            parts.append(_COUNT.format(statement.text, _COMMON, at))
            values |= statement.values
        if parts:
            row = self._row(_Statement(f"SELECT {', '.join(parts)}", values))
            counts = zip(missing, row, strict=True)
            self._counted.update((pattern, count) for pattern, count in counts if count)
        return [self._counted.get(pattern, 0) for pattern in patterns]

    def newest(self, *lists: tuple[Sequence[TextPattern], Column]) -> list[tuple[int, ...]]:
        """Return, for each list of patterns, the newest selected documents that match them all.

        An empty list has no documents. One statement finds all.
        """
        statements = [
            (at, patterns, column, _statement(self._dialect, patterns, column, f"t{at}_"))
            for at, (patterns, column) in enumerate(lists)
            if patterns
        ]
        newest: list[tuple[int, ...]] = [()] * len(lists)
        if not statements:
            return newest
        if self._selected:
            columns = (self._selected_list(statement) for *_, statement in statements)
            row: Sequence[Any] = self._connection.execute(sql.select(*columns)).one()
        else:
            parts = (self._list(*arguments) for arguments in statements)
            values = {name: value for *_, one in statements for name, value in one.values.items()}
            row = self._row(_Statement(f"SELECT {', '.join(parts)}", values))
        for (at, *_), ids in zip(statements, row, strict=True):
            newest[at] = tuple(sorted(json.loads(ids or "[]"), reverse=True)[: self._limit])
        return newest

    def first_of(self, words: Sequence[str]) -> str | None:
        """Return the first of some words that any document contains."""
        for word in words:
            statement = _statement(self._dialect, [(word, "word")], "human")
            if self._row(statement._replace(text=f"{statement.text} LIMIT 1")):
                return word
        return None

    def _list(
        self, at: int, patterns: Sequence[TextPattern], column: Column, statement: _Statement
    ) -> str:
        text = statement.text
        are_few = any(self._counted.get(pattern, _COMMON) < _COMMON for pattern in patterns)
        # In descending order, SQLite takes twice as long for documents with several words.
        if column == "written" or len(patterns) == 1 or not are_few:
            text = f"{text} ORDER BY id DESC LIMIT {self._limit}"
        ids = _LIST.format(_LISTED[self._dialect], text, at)
        return _IF_GENERATED.format(ids) if column == "written" else ids

    def _selected_list(self, statement: _Statement) -> sql.ScalarSelect[Any]:
        ids = statement.subquery().subquery()
        chosen = sql.exists().where(IMAGES.c.id == ids.c.id, *self._selected)
        newest = sql.select(ids.c.id).where(chosen).order_by(ids.c.id.desc()).limit(self._limit)
        listed: sql.ColumnClause[Any] = sql.literal_column(_LISTED[self._dialect])
        return sql.select(listed).select_from(newest.subquery()).scalar_subquery()

    def _row(self, statement: _Statement) -> Sequence[Any]:
        text = statement.text
        if self._dialect == "postgresql":
            text = _NAME.sub(r"%(\1)s", text)
        self._cursor.execute(text, statement.values)
        row: Sequence[Any] = self._cursor.fetchone() or ()
        return row


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
    """Return the terms that any document contains, each in its form there."""
    counts = lookup.counts([(term.folded, "word") for term in terms])
    resolved = (
        ResolvedTerm(term, term.folded, "word", knows)
        if count
        else _resolve_otherwise(lookup, term, knows)
        for term, knows, count in zip(terms, known, counts, strict=True)
    )
    return [term for term in resolved if term is not None]


def _resolve_otherwise(lookup: _DocumentLookup, term: Term, known: bool) -> ResolvedTerm | None:
    """Resolve a term that is no word in any document, as the beginning or a part of a word.

    If no document contains it at all, a word that differs by one letter replaces it.
    """
    if len(term.folded) >= _SHORTEST_PART:
        for form in FORMS[1:]:
            if any(lookup.counts([(term.folded, form)])):
                return ResolvedTerm(term, term.folded, form, known)
    if len(term.folded) >= _SHORTEST_CORRECTED and " " not in term.folded:
        near = lookup.first_of(list(off_by_one(term.folded)))
        if near is not None and any(lookup.counts([(near, "word")])):
            return ResolvedTerm(term, near, "word", known)
    return None


def _spaces(form: Form) -> tuple[str, str]:
    return "" if form == "part" else " ", " " if form == "word" else ""


def _statement(
    dialect: str, patterns: Iterable[TextPattern], column: Column, name: str = "t"
) -> _Statement:
    """Return the statement for the ids of documents that match all patterns.

    Names of parameters begin with `name`.
    """
    texts = list(patterns)
    words = [(text, form) for text, form in texts if form != "part"]
    parts = [text for text, form in texts if form == "part"]
    compose = _for_sqlite if dialect == "sqlite" else _for_postgresql
    begin, conditions, values = compose(words, parts, column, name)
    for at, (text, form) in enumerate(words):
        if " " in text:  # its words must be adjacent
            before, after = _spaces(form)
            conditions.append(f"' ' || {column} || ' ' LIKE :{name}phrase{at}")
            values[f"{name}phrase{at}"] = f"%{before}{text}{after}%"
    return _Statement(f"{begin} WHERE {' AND '.join(conditions)}", values)


_Parts: TypeAlias = tuple[str, list[str], dict[str, str | int]]  # of a `_Statement`


def _for_sqlite(
    words: Sequence[tuple[str, Form]], parts: Sequence[str], column: Column, name: str
) -> _Parts:
    conditions, values = _likes(parts, name)
    if not words:
        return _BY_TRIGRAMS, conditions, values
    match = " AND ".join(
        f'"{word}"' + ("*" if form == "beginning" and at == text.count(" ") else "")
        for text, form in words
        for at, word in enumerate(text.split())
    )
    conditions = [f"rowid IN ({_BY_TRIGRAMS} WHERE {condition})" for condition in conditions]
    conditions.insert(0, f"documents_words MATCH :{name}words")
    values[f"{name}words"] = f"{{{column}}} : ({match})"
    return _BY_WORDS, conditions, values


def _for_postgresql(
    words: Sequence[tuple[str, Form]], parts: Sequence[str], column: Column, name: str
) -> _Parts:
    conditions, values = _likes(parts, name)
    if words:
        values[f"{name}words"] = " & ".join(
            f"'{word}'" + (":*" if form == "beginning" and at == text.count(" ") else "")
            for text, form in words
            for at, word in enumerate(text.split())
        )
        vector = f"array_to_tsvector(string_to_array({column}, ' '))"
        conditions.append(f"{vector} @@ CAST(:{name}words AS tsquery)")
    return "SELECT image_id AS id FROM documents", conditions, values


def _likes(parts: Sequence[str], name: str) -> tuple[list[str], dict[str, str | int]]:
    """Return conditions for parts of words. Folded text has no wildcards."""
    values: dict[str, str | int] = {f"{name}part{at}": f"%{text}%" for at, text in enumerate(parts)}
    return [f"human LIKE :{key}" for key in values], values
