"""Find the images that say something: SQL conditions on documents, and how words are resolved.

Both databases answer from the same folded documents and by the same rules, in order of image ids,
the newest first. So they give the same answers.
"""

from __future__ import annotations

import string
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from math import log1p
from typing import Any, Literal, TypeAlias

import sqlalchemy as sql
from sqlalchemy import Connection
from sqlalchemy.dialects.postgresql import TSQUERY

from hasse.index.catalog.documents import TRIGRAMS, WORDS
from hasse.index.catalog.schema import DOCUMENTS, IMAGES, WRITTEN
from hasse.index.text.query import Term, TextQuery

Form: TypeAlias = Literal["word", "beginning", "part"]
Column: TypeAlias = Literal["human", "written"]

FORMS: tuple[Form, ...] = ("word", "beginning", "part")
_SHORTEST_PART = 3  # characters of a beginning or a part of a word: one trigram
_SHORTEST_CORRECTED = 4
_COMMON = 1_000  # documents: a word of more tells one picture from others no better
_SHARE = 0.4  # of the weight of a query that a document must say at least
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
    resolved = [one for term in query.terms if (one := _resolved(look, term, knows(term.written)))]
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


def saying(
    dialect: str, text: str, form: Form = "word", column: Column = "human"
) -> sql.Select[Any]:
    """Return the statement for the ids of the documents that say a folded text."""
    return _documents_with(dialect, [(text, form)], column)


class _Look:
    """Looks for documents in one transaction."""

    def __init__(
        self, connection: Connection, limit: int, selected: Sequence[sql.ColumnElement[bool]]
    ) -> None:
        self._connection = connection
        self._dialect = connection.dialect.name
        self._limit = limit
        self._selected = selected

    def count(self, text: str, form: Form) -> int:
        """Return how many documents say a text, up to `_COMMON`."""
        found = saying(self._dialect, text, form).limit(_COMMON).subquery()
        counted = sql.select(sql.func.count()).select_from(found)
        return int(self._connection.execute(counted).scalar_one())

    def all_of(self, terms: Sequence[Resolved]) -> tuple[int, ...]:
        """Return the newest documents that say all terms."""
        return self.newest([(one.text, one.form) for one in terms])

    def written(self, terms: Sequence[Term]) -> tuple[int, ...]:
        """Return the newest documents in which a model says all terms."""
        by_models = sql.select(WRITTEN.c.caption_id).limit(1)
        if self._connection.execute(by_models).first() is None:
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
            found = saying(self._dialect, word).limit(1)
            if self._connection.execute(found).first() is not None:
                return word
        return None

    def newest(
        self, wanted: Sequence[tuple[str, Form]], column: Column = "human"
    ) -> tuple[int, ...]:
        """Return the newest of the selected documents that say all of some folded texts."""
        found = _documents_with(self._dialect, wanted, column)
        (id_,) = found.selected_columns
        if self._selected:
            found = found.where(sql.exists().where(IMAGES.c.id == id_, *self._selected))
        found = found.order_by(id_.desc()).limit(self._limit)
        return tuple(self._connection.execute(found).scalars())


def _resolved(look: _Look, term: Term, known: bool) -> Resolved | None:
    """Return how a term is said: as a word, else as the beginning or a part of one.

    Where nobody says it, a word that differs by one letter takes its place.
    """
    forms = FORMS if len(term.folded) >= _SHORTEST_PART else FORMS[:1]
    for form in forms:
        if documents := look.count(term.folded, form):
            return Resolved(term, term.folded, form, documents, known)
    if len(term.folded) >= _SHORTEST_CORRECTED and " " not in term.folded:
        near = look.first_of(list(_off_by_one(term.folded)))
        if near is not None:
            return Resolved(term, near, "word", look.count(near, "word"), known)
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
    dialect: str, wanted: Iterable[tuple[str, Form]], column: Column
) -> sql.Select[Any]:
    """Return the statement for the ids of documents that say all texts, each folded."""
    texts = list(wanted)
    words = [(text, form) for text, form in texts if form != "part"]
    parts = [text for text, form in texts if form == "part"]
    if dialect == "sqlite":
        return _in_fts(words, parts, column)
    return _in_server(words, parts, column)


def _in_fts(
    words: Sequence[tuple[str, Form]], parts: Sequence[str], column: Column
) -> sql.Select[Any]:
    if not words:
        return sql.select(TRIGRAMS.c.rowid).where(*(_like(TRIGRAMS.c.human, one) for one in parts))
    match = " AND ".join(
        f'"{word}"' + ("*" if form == "beginning" and at == text.count(" ") else "")
        for text, form in words
        for at, word in enumerate(text.split())
    )
    found = sql.select(WORDS.c.rowid).where(
        WORDS.c.documents_words.op("MATCH")(f"{{{column}}} : ({match})")
    )
    for text in parts:
        some = sql.select(TRIGRAMS.c.rowid).where(_like(TRIGRAMS.c.human, text))
        found = found.where(WORDS.c.rowid.in_(some))
    return found.where(*_phrases(sql.literal_column(column, sql.Text), words))


def _in_server(
    words: Sequence[tuple[str, Form]], parts: Sequence[str], column: Column
) -> sql.Select[Any]:
    text = DOCUMENTS.c[column]
    found = sql.select(DOCUMENTS.c.image_id).where(*(_like(text, one) for one in parts))
    if words:
        query = " & ".join(
            f"'{word}'" + (":*" if form == "beginning" and at == one.count(" ") else "")
            for one, form in words
            for at, word in enumerate(one.split())
        )
        split = sql.func.string_to_array(text, sql.literal_column("' '"))
        vector = sql.func.array_to_tsvector(split)
        found = found.where(vector.op("@@")(sql.cast(query, TSQUERY)))
    return found.where(*_phrases(text, words))


def _like(column: sql.ColumnElement[str], text: str) -> sql.ColumnElement[bool]:
    return column.like(f"%{text}%")  # folded: it holds no wildcard


def _phrases(
    column: sql.ColumnElement[str], words: Sequence[tuple[str, Form]]
) -> Iterator[sql.ColumnElement[bool]]:
    """Yield the conditions that words of one text stand one after the other."""
    padded = sql.literal(" ").concat(column).concat(" ")
    for text, form in words:
        if " " in text:
            before, after = _spaces(form)
            yield padded.like(f"%{before}{text}{after}%")
