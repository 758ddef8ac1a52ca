"""Find the images that say something: SQL conditions on documents, and how words are resolved.

Both databases answer from the same folded documents and by the same rules, in order of image ids,
the newest first. So they give the same answers.
"""

from __future__ import annotations

import json
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
_MOST_KEPT = 20_000  # counts: queries hardly have more different words
_LIST = "(SELECT {} FROM ({}) AS list{})"
_IF_WRITTEN = "CASE WHEN EXISTS (SELECT 1 FROM written) THEN {} END"  # by any model
_LISTED = {"sqlite": "json_group_array(id)", "postgresql": "CAST(json_agg(id) AS TEXT)"}
_COUNT = "(SELECT count(*) FROM ({} LIMIT {}) AS c{})"
_BLOCK = 64  # letters of other alphabets stand in blocks of about this size


Wanted: TypeAlias = tuple[str, Form]  # a folded text, and how documents have to say it


@dataclass(frozen=True, slots=True)
class Resolved:
    """How a term is said in the collection.

    Attributes:
        text: folded; the correction, where nobody says the term as it was written.
        form: whether it is a word there, the beginning of one, or a part of one.
        known: whether the model knows the term.
    """

    term: Term
    text: str
    form: Form
    known: bool

    @property
    def is_corrected(self) -> bool:
        """Whether another word is said than was written."""
        return self.text != self.term.folded

    @property
    def wanted(self) -> Wanted:
        """What documents have to say, and how."""
        return self.text, self.form

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


class Counts(NamedTuple):
    """About how many images there are, and how many documents say a text, up to `_COMMON`.

    Texts that no document says are not in it.
    """

    images: int
    documents: dict[Wanted, int]


class CountCache:
    """The counts of one generation, as far as searches needed them.

    That no document says a text is found out each time: another process may have added one, in a
    generation that this process does not know of yet.
    """

    def __init__(self) -> None:
        self._kept: tuple[int, dict[Wanted, int]] = -1, {}

    def of(self, generation: int, images: int) -> Counts:
        """Return the counts of a generation, to which a search adds others."""
        kept = self._kept
        if kept[0] != generation or len(kept[1]) > _MOST_KEPT:
            kept = self._kept = generation, {}
        return Counts(images, kept[1])


def said(
    connection: Connection,
    query: TextQuery,
    knows: Callable[[str], bool],
    limit: int,
    counts: Counts,
    selected: Sequence[sql.ColumnElement[bool]] = (),
) -> Said:
    """Return the images that say a query, up to `limit` of each kind.

    `knows` tells whether the model knows a word. `selected` are conditions on `IMAGES`.
    """
    if not query.terms:
        return Said()
    look = _Look(connection, limit, counts, selected)
    resolved = _resolved(look, query.terms, [knows(term.written) for term in query.terms])
    every = [one.wanted for one in resolved]
    unknown = [one.wanted for one in resolved if not one.known]
    is_whole = len(resolved) == len(query.terms)
    rare = [one for one in every if counts.documents[one] < _COMMON]
    together, names, written, *each = look.newest(
        (every if is_whole else (), "human"),
        # Where every word is a name, these are the same.
        (() if is_whole and unknown == every else unknown, "human"),
        ([(term.folded, "word") for term in query.terms], "written"),
        *(([one], "human") for one in rare if len(query.terms) > 1),
    )
    is_strong = all(one.form == "word" or not one.known for one in resolved)
    everything, parts = (together, ()) if is_strong else ((), together)
    unsaid = len(query.terms) - len(resolved)
    some = _said_in_part(every, dict(zip(rare, each, strict=False)), unsaid, counts)
    fresh = dict.fromkeys(everything)
    names = tuple(id_ for id_ in names if id_ not in fresh)
    fresh |= dict.fromkeys(names)
    less = dict.fromkeys((*parts, *written, *some[:limit]))
    something = tuple(id_ for id_ in less if id_ not in fresh)
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
    does. And ids come as one text in JSON, as in `index.catalog.lookups`: before each row SQLite
    would wait for the other threads of a busy service.
    """

    def __init__(
        self,
        connection: Connection,
        limit: int,
        counts: Counts,
        selected: Sequence[sql.ColumnElement[bool]],
    ) -> None:
        self._connection = connection
        self._cursor = connection.connection.cursor()
        self._dialect = connection.dialect.name
        self._limit = limit
        self._counted = counts.documents
        self._selected = selected

    def counts(self, wanted: Sequence[Wanted]) -> list[int]:
        """Return how many documents say each text, up to `_COMMON`."""
        missing = [one for one in wanted if one not in self._counted]
        parts, values = [], dict[str, str | int]()
        for at, one in enumerate(missing):
            found = _documents_with(self._dialect, [one], "human", f"t{at}_")
            parts.append(_COUNT.format(found.text, _COMMON, at))
            values |= found.values
        if parts:
            counts = self._row(_Statement(f"SELECT {', '.join(parts)}", values))
            each = zip(missing, counts, strict=True)
            self._counted.update((one, number) for one, number in each if number)
        return [self._counted.get(one, 0) for one in wanted]

    def newest(self, *lists: tuple[Sequence[Wanted], Column]) -> list[tuple[int, ...]]:
        """Return for each list the newest of the selected documents that say all of its texts.

        Those of no text are none. All are found by one statement.
        """
        asked = [
            (at, wanted, column, _documents_with(self._dialect, wanted, column, f"t{at}_"))
            for at, (wanted, column) in enumerate(lists)
            if wanted
        ]
        found: list[tuple[int, ...]] = [()] * len(lists)
        if not asked:
            return found
        if self._selected:
            each = (self._selected_list(statement) for *_, statement in asked)
            row: Sequence[Any] = self._connection.execute(sql.select(*each)).one()
        else:
            parts = (self._list(*one) for one in asked)
            values = {name: value for *_, by in asked for name, value in by.values.items()}
            row = self._row(_Statement(f"SELECT {', '.join(parts)}", values))
        for (at, *_), ids in zip(asked, row, strict=True):
            found[at] = tuple(sorted(json.loads(ids or "[]"), reverse=True)[: self._limit])
        return found

    def first_of(self, words: Sequence[str]) -> str | None:
        """Return the first of some words that any document says."""
        for word in words:
            found = _documents_with(self._dialect, [(word, "word")], "human")
            if self._row(found._replace(text=f"{found.text} LIMIT 1")):
                return word
        return None

    def _list(
        self, at: int, wanted: Sequence[Wanted], column: Column, statement: _Statement
    ) -> str:
        text = statement.text
        are_few = any(self._counted.get(one, _COMMON) < _COMMON for one in wanted)
        # Backwards, SQLite takes twice as long for documents of several words.
        if column == "written" or len(wanted) == 1 or not are_few:
            text = f"{text} ORDER BY id DESC LIMIT {self._limit}"
        ids = _LIST.format(_LISTED[self._dialect], text, at)
        return _IF_WRITTEN.format(ids) if column == "written" else ids

    def _selected_list(self, found: _Statement) -> sql.ScalarSelect[Any]:
        ids = found.part().subquery()
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


def _said_in_part(
    wanted: Sequence[Wanted],
    documents: Mapping[Wanted, Sequence[int]],
    unsaid: int,
    counts: Counts,
) -> list[int]:
    """Return those of the documents of some texts that say enough of all, the rarest first.

    The weight of a text grows the fewer documents say it. That of each of the texts that nobody
    says is the largest: a document that lacks it says little of the query.
    """
    weights: dict[int, float] = {}
    total = unsaid * log1p(counts.images)
    for one in wanted:
        weight = log1p(counts.images / counts.documents[one])
        total += weight
        for id_ in documents.get(one, ()):
            weights[id_] = weights.get(id_, 0.0) + weight
    enough = (id_ for id_, weight in weights.items() if weight >= _SHARE * total)
    return sorted(enough, key=lambda id_: (-weights[id_], -id_))


def _resolved(look: _Look, terms: Sequence[Term], known: Sequence[bool]) -> list[Resolved]:
    """Return how each term is said, of those that anybody says."""
    counts = look.counts([(term.folded, "word") for term in terms])
    each = zip(terms, known, counts, strict=True)
    found = (
        Resolved(term, term.folded, "word", knows) if number else _said_otherwise(look, term, knows)
        for term, knows, number in each
    )
    return [one for one in found if one is not None]


def _said_otherwise(look: _Look, term: Term, known: bool) -> Resolved | None:
    """Return how a term is said that is no word: as the beginning or a part of one.

    Where nobody says it, a word that differs by one letter takes its place.
    """
    if len(term.folded) >= _SHORTEST_PART:
        for form in FORMS[1:]:
            if any(look.counts([(term.folded, form)])):
                return Resolved(term, term.folded, form, known)
    if len(term.folded) >= _SHORTEST_CORRECTED and " " not in term.folded:
        near = look.first_of(list(_off_by_one(term.folded)))
        if near is not None and any(look.counts([(near, "word")])):
            return Resolved(term, near, "word", known)
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
