"""Find the images that say something: SQL conditions on documents, and how words are resolved.

Both databases answer from the same folded documents and by the same rules, in order of image ids,
the newest first. So they give the same answers.
"""

from __future__ import annotations

import re
import string
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from math import log1p
from typing import Any, Literal, NamedTuple, TypeAlias

import sqlalchemy as sql
from sqlalchemy import Connection

from hasse.index.catalog.schema import IMAGES
from hasse.index.text.query import Term, TextQuery

Form: TypeAlias = Literal["word", "beginning", "part"]
Column: TypeAlias = Literal["human", "written"]

FORMS: tuple[Form, ...] = ("word", "beginning", "part")
_SHORTEST_PART = 3  # characters of a beginning or a part of a word: one trigram
_SHORTEST_CORRECTED = 4
_COMMON = 1_000  # documents: a word of more tells one picture from others no better
_SHARE = 0.4  # of the weight of a query that a document must say at least
_NAME = re.compile(":([a-z][a-z0-9_]*)")  # of a value, in the text of a statement
_ID = sql.column("id", sql.BigInteger)
_BY_WORDS = "SELECT rowid AS id FROM documents_words"
_BY_TRIGRAMS = "SELECT rowid AS id FROM documents_trigrams"
_COUNT = "(SELECT count(*) FROM ({} LIMIT {}) AS c{})"
_BLOCK = 64  # letters of other alphabets stand in blocks of about this size


@dataclass(frozen=True, slots=True)
class Resolved:
    """How a term is said in the collection.

    Attributes:
        text: folded; the correction, where nobody says the term as it was written.
        form: whether it is a word there, the beginning of one, or a part of one.
        documents: how many say it, up to `_COMMON`.
        known: whether the model knows the term.
    """

    term: Term
    text: str
    form: Form
    documents: int
    known: bool

    @property
    def is_corrected(self) -> bool:
        """Whether another word is said than was written."""
        return self.text != self.term.folded

    def is_said(self, padded: str) -> bool:
        """Tell whether a folded text with a space before and after it says the term."""
        before, after = _spaces(self.form)
        return f"{before}{self.text}{after}" in padded


@dataclass(frozen=True, slots=True)
class Said:
    """The images that say a query, by id, the newest first.

    Attributes:
        everything: they say all words.
        names: they say all words that the model does not know.
        something: they say the words less well: by parts of words, by captions that a model wrote,
            or only some of the words; the best first.
        resolved: the terms that anybody says.
    """

    everything: tuple[int, ...] = ()
    names: tuple[int, ...] = ()
    something: tuple[int, ...] = ()
    resolved: tuple[Resolved, ...] = ()

    def by(self, versions: Callable[[Iterable[int]], Mapping[int, Sequence[int]]]) -> Said:
        """Return these with the first of the versions of each image in its place."""
        known = versions((*self.everything, *self.names, *self.something))
        kinds = (self.everything, self.names, self.something)
        everything, names, something = (
            tuple(dict.fromkeys(known.get(id_, (id_,))[0] for id_ in ids)) for ids in kinds
        )
        return Said(everything, names, something, self.resolved)


def said(
    connection: Connection,
    query: TextQuery,
    knows: Callable[[str], bool],
    limit: int,
    images: int,
    selected: Sequence[sql.ColumnElement[bool]] = (),
) -> Said:
    """Return the images that say a query, up to `limit` of each kind.

    `knows` tells whether the model knows a word. `images` is about how many there are, `selected`
    are conditions on `IMAGES`.
    """
    if not query.terms:
        return Said()
    look = _Look(connection, limit, selected)
    resolved = _resolved(look, query.terms, [knows(term.written) for term in query.terms])
    strong = [one for one in resolved if one.form == "word" or not one.known]
    whole = len(resolved) == len(query.terms)
    written = look.written(query.terms)
    everything = look.all_of(resolved) if whole and len(strong) == len(resolved) else ()
    unknown = [one for one in resolved if not one.known]
    names = look.all_of(unknown) if unknown else ()
    parts = look.all_of(resolved) if whole and not everything else ()
    some = look.some_of(resolved, len(query.terms), images) if len(query.terms) > 1 else ()
    fresh = dict.fromkeys(everything)
    names = tuple(id_ for id_ in names if id_ not in fresh)
    fresh |= dict.fromkeys(names)
    something = tuple(id_ for id_ in dict.fromkeys((*parts, *written, *some)) if id_ not in fresh)
    return Said(everything, names, something[:limit], tuple(resolved))


def saying(dialect: str, text: str) -> sql.TextualSelect:
    """Return the statement for the ids of the documents that say a folded text."""
    return _documents_with(dialect, [(text, "word")], "human").part()


class _Statement(NamedTuple):
    """The text of a statement for ids of documents, and the values of its names."""

    text: str
    values: dict[str, str | int]

    def part(self) -> sql.TextualSelect:
        """Return the statement as a part of others, in which its names are its own."""
        bound: list[sql.BindParameter[Any]] = [
            sql.bindparam(name, value, unique=True) for name, value in self.values.items()
        ]
        return sql.text(self.text).bindparams(*bound).columns(_ID)


class _Look:
    """Looks for documents in one transaction.

    Statements go to the driver as they are: what SQLAlchemy does for one takes longer than SQLite
    does.
    """

    def __init__(
        self, connection: Connection, limit: int, selected: Sequence[sql.ColumnElement[bool]]
    ) -> None:
        self._connection = connection
        self._cursor = connection.connection.cursor()
        self._dialect = connection.dialect.name
        self._limit = limit
        self._selected = selected

    def counts(self, texts: Sequence[str], form: Form = "word") -> list[int]:
        """Return how many documents say each text, up to `_COMMON`."""
        parts, values = [], dict[str, str | int]()
        for at, text in enumerate(texts):
            found = _documents_with(self._dialect, [(text, form)], "human", f"t{at}_")
            parts.append(_COUNT.format(found.text, _COMMON, at))
            values |= found.values
        (counts,) = self._rows(_Statement(f"SELECT {', '.join(parts)}", values))
        return list(counts)

    def all_of(self, terms: Sequence[Resolved]) -> tuple[int, ...]:
        """Return the newest documents that say all terms."""
        return self.newest([(one.text, one.form) for one in terms])

    def written(self, terms: Sequence[Term]) -> tuple[int, ...]:
        """Return the newest documents in which a model says all terms."""
        if not self._rows(_Statement("SELECT 1 FROM written LIMIT 1", {})):
            return ()
        return self.newest([(term.folded, "word") for term in terms], "written")

    def some_of(self, terms: Sequence[Resolved], wanted: int, images: int) -> list[int]:
        """Return documents that say a part of the terms, the rarest first.

        The weight of a term grows the fewer documents say it. That of a term that nobody says
        is the largest: a document that lacks it says little of the query.
        """
        weights: dict[int, float] = {}
        total = (wanted - len(terms)) * log1p(images)
        for one in terms:
            weight = log1p(images / one.documents)
            total += weight
            if one.documents < _COMMON:
                for id_ in self.newest([(one.text, one.form)]):
                    weights[id_] = weights.get(id_, 0.0) + weight
        enough = (id_ for id_, weight in weights.items() if weight >= _SHARE * total)
        return sorted(enough, key=lambda id_: (-weights[id_], -id_))[: self._limit]

    def first_of(self, words: Sequence[str]) -> str | None:
        """Return the first of some words that any document says."""
        for word in words:
            found = _documents_with(self._dialect, [(word, "word")], "human")
            if self._rows(found._replace(text=f"{found.text} LIMIT 1")):
                return word
        return None

    def newest(
        self, wanted: Sequence[tuple[str, Form]], column: Column = "human"
    ) -> tuple[int, ...]:
        """Return the newest of the selected documents that say all of some folded texts."""
        found = _documents_with(self._dialect, wanted, column)
        if not self._selected:
            limited = f"{found.text} ORDER BY id DESC LIMIT {self._limit}"
            return tuple(id_ for (id_,) in self._rows(found._replace(text=limited)))
        ids = found.part().subquery()
        chosen = sql.exists().where(IMAGES.c.id == ids.c.id, *self._selected)
        newest = sql.select(ids.c.id).where(chosen).order_by(ids.c.id.desc()).limit(self._limit)
        return tuple(self._connection.execute(newest).scalars())

    def _rows(self, statement: _Statement) -> Sequence[Any]:
        text = statement.text
        if self._dialect == "postgresql":
            text = _NAME.sub(r"%(\1)s", text)
        self._cursor.execute(text, statement.values)
        found: Sequence[Any] = self._cursor.fetchall()
        return found


def _resolved(look: _Look, terms: Sequence[Term], known: Sequence[bool]) -> list[Resolved]:
    """Return how each term is said, of those that anybody says."""
    counts = look.counts([term.folded for term in terms])
    each = zip(terms, known, counts, strict=True)
    found = (
        Resolved(term, term.folded, "word", number, knows)
        if number
        else _said_otherwise(look, term, knows)
        for term, knows, number in each
    )
    return [one for one in found if one is not None]


def _said_otherwise(look: _Look, term: Term, known: bool) -> Resolved | None:
    """Return how a term is said that is no word: as the beginning or a part of one.

    Where nobody says it, a word that differs by one letter takes its place.
    """
    if len(term.folded) >= _SHORTEST_PART:
        for form in FORMS[1:]:
            (documents,) = look.counts([term.folded], form)
            if documents:
                return Resolved(term, term.folded, form, documents, known)
    if len(term.folded) >= _SHORTEST_CORRECTED and " " not in term.folded:
        near = look.first_of(list(_off_by_one(term.folded)))
        if near is not None:
            (documents,) = look.counts([near])
            return Resolved(term, near, "word", documents, known)
    return None


def _off_by_one(word: str) -> Iterator[str]:
    """Yield the words that differ by one letter, first those in which two are exchanged."""
    letters = _letters(word)
    found = dict.fromkeys(
        [
            *(word[:at] + word[at + 1] + word[at] + word[at + 2 :] for at in range(len(word) - 1)),
            *(word[:at] + word[at + 1 :] for at in range(len(word))),
            *(word[:at] + each + word[at:] for at in range(len(word) + 1) for each in letters),
            *(word[:at] + each + word[at + 1 :] for at in range(len(word)) for each in letters),
        ]
    )
    yield from (one for one in found if one != word)


def _letters(word: str) -> str:
    blocks = sorted({ord(letter) // _BLOCK for letter in word if not letter.isascii()})
    others = (chr(block * _BLOCK + at) for block in blocks for at in range(_BLOCK))
    ascii_letters = string.ascii_lowercase if word.isascii() else ""
    return ascii_letters + "".join(one for one in others if one.isalpha() and one.islower())


def _spaces(form: Form) -> tuple[str, str]:
    return "" if form == "part" else " ", " " if form == "word" else ""


def _documents_with(
    dialect: str, wanted: Iterable[tuple[str, Form]], column: Column, name: str = "t"
) -> _Statement:
    """Return the statement for the ids of documents that say all texts, each folded.

    Names of values begin with `name`.
    """
    texts = list(wanted)
    words = [(text, form) for text, form in texts if form != "part"]
    parts = [text for text, form in texts if form == "part"]
    say = _in_fts if dialect == "sqlite" else _in_server
    begin, conditions, values = say(words, parts, column, name)
    for at, (text, form) in enumerate(words):
        if " " in text:  # its words stand one after the other
            before, after = _spaces(form)
            conditions.append(f"' ' || {column} || ' ' LIKE :{name}phrase{at}")
            values[f"{name}phrase{at}"] = f"%{before}{text}{after}%"
    return _Statement(f"{begin} WHERE {' AND '.join(conditions)}", values)


_Parts: TypeAlias = tuple[str, list[str], dict[str, str | int]]  # of a `_Statement`


def _in_fts(
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
    conditions = [f"rowid IN ({_BY_TRIGRAMS} WHERE {one})" for one in conditions]
    conditions.insert(0, f"documents_words MATCH :{name}words")
    values[f"{name}words"] = f"{{{column}}} : ({match})"
    return _BY_WORDS, conditions, values


def _in_server(
    words: Sequence[tuple[str, Form]], parts: Sequence[str], column: Column, name: str
) -> _Parts:
    conditions, values = _likes(parts, name)
    if words:
        values[f"{name}words"] = " & ".join(
            f"'{word}'" + (":*" if form == "beginning" and at == one.count(" ") else "")
            for one, form in words
            for at, word in enumerate(one.split())
        )
        vector = f"array_to_tsvector(string_to_array({column}, ' '))"
        conditions.append(f"{vector} @@ CAST(:{name}words AS tsquery)")
    return "SELECT image_id AS id FROM documents", conditions, values


def _likes(parts: Sequence[str], name: str) -> tuple[list[str], dict[str, str | int]]:
    """Return conditions that documents hold parts of words; folded, they hold no wildcard."""
    values: dict[str, str | int] = {f"{name}part{at}": f"%{one}%" for at, one in enumerate(parts)}
    return [f"human LIKE :{each}" for each in values], values
