"""SQL statements that find the documents with folded texts, for SQLite and PostgreSQL.

PostgreSQL's planner guesses how many documents match, and behind LIMIT it would read all documents
until it has found enough. So ids are materialized, by the text index, before they are sorted or
cut. Before the text index lists a word of very many documents, the newest documents are read.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Sequence
from typing import Any, Literal, NamedTuple, TypeAlias

import sqlalchemy as sql

from hasse.index.catalog.database import STATEMENTS
from hasse.index.text.query import SPACES, Form, TextPattern

Column: TypeAlias = Literal["human", "written"]

_ID = sql.column("id", sql.BigInteger)
_NAME = re.compile(":([a-z][a-z0-9_]*)")  # of a parameter
_BY_WORDS = "SELECT rowid AS id FROM documents_words"
_BY_TRIGRAMS = "SELECT rowid AS id FROM documents_trigrams"
_IF_GENERATED = "CASE WHEN EXISTS (SELECT 1 FROM written) THEN {} END"  # captions
_MATERIALIZED = "WITH found AS MATERIALIZED ({}) SELECT id FROM found"
_NEWEST = 500  # documents that PostgreSQL reads first: they take 1 ms
_RECENT_FIRST = (
    "WITH recent AS MATERIALIZED ({recent}), "
    "older AS MATERIALIZED ({found} AND (SELECT count(*) FROM recent) < {limit}) "
    "SELECT id FROM recent UNION SELECT id FROM older"
)
_RECENT = "FROM (SELECT * FROM documents ORDER BY image_id DESC LIMIT {}) AS documents"
_LISTED = {"sqlite": "json_group_array(id)", "postgresql": "CAST(json_agg(id) AS TEXT)"}
_LIST = "(SELECT {} FROM ({}) AS list)"
_COUNT = "(SELECT count(*) FROM ({} LIMIT {}) AS c{})"
_SAID = {
    "sqlite": "SELECT json_group_array(term) FROM temp.documents_vocabulary "
    "WHERE col = 'human' AND term IN (SELECT value FROM json_each(:words))",
    "postgresql": "SELECT CAST(json_agg(term) AS TEXT) FROM documents_vocabulary "
    "WHERE term = ANY(ARRAY(SELECT json_array_elements_text(CAST(:words AS JSON))))",
}


class Statement(NamedTuple):
    """A statement with named parameters, and their values."""

    text: str
    values: dict[str, str | int]

    def ids(self, dialect: str) -> str:
        """Return the text of a statement for ids so that the text index finds all of them."""
        return _MATERIALIZED.format(self.text) if dialect == "postgresql" else self.text

    def subquery(self, dialect: str) -> sql.TextualSelect:
        """Return the statement for ids as a subquery with unique parameter names."""
        bound: list[sql.BindParameter[Any]] = [
            sql.bindparam(name, value, unique=True) for name, value in self.values.items()
        ]
        return sql.text(self.ids(dialect)).bindparams(*bound).columns(_ID)

    def row(self, cursor: Any, dialect: str) -> Sequence[Any]:
        """Return the one row, from a cursor of the driver."""
        text = _NAME.sub(r"%(\1)s", self.text) if dialect == "postgresql" else self.text
        cursor.execute(text, self.values)
        STATEMENTS.sent += 1
        row: Sequence[Any] = cursor.fetchone() or ()
        return row


class Documents(NamedTuple):
    """The documents whose column matches all patterns; `are_few`: less than some thousand."""

    patterns: Sequence[TextPattern]
    column: Column
    are_few: bool


def says(dialect: str, image_id: sql.ColumnElement[int], *texts: str) -> sql.ColumnElement[bool]:
    """Return the condition that the document of an image has one of some folded texts.

    SQLite finds them once for IN. PostgreSQL joins; where it expects many, it would search for each
    image in a list for IN.
    """
    each = [find(dialect, [(text, "word")], "human", f"t{at}_") for at, text in enumerate(texts)]
    values = {name: value for one in each for name, value in one.values.items()}
    found = Statement(" UNION ".join(one.text for one in each), values).subquery(dialect)
    if dialect == "sqlite":
        return image_id.in_(found)
    ids = found.subquery()
    return sql.exists().where(ids.c.id == image_id)


def listed(dialect: str) -> sql.ColumnClause[Any]:
    """Return the column that aggregates ids to one JSON list."""
    return sql.literal_column(_LISTED[dialect])


def said_words(dialect: str, words: Sequence[str]) -> Statement:
    """Return the statement for the JSON list of those words that the vocabulary has."""
    return Statement(_SAID[dialect], {"words": json.dumps(words)})


def count_each(dialect: str, patterns: Sequence[TextPattern], limit: int) -> Statement:
    """Return the statement for one row with the number of documents of each pattern."""
    parts, values = list[str](), dict[str, str | int]()
    for at, pattern in enumerate(patterns):
        statement = find(dialect, [pattern], "human", f"t{at}_")
        parts.append(_COUNT.format(statement.ids(dialect), limit, at))
        values |= statement.values
    return Statement(f"SELECT {', '.join(parts)}", values)


def newest_first(dialect: str, lists: Sequence[Documents], limit: int) -> Statement:
    """Return the statement for one row with a JSON list of the newest documents of each list."""
    parts, values = list[str](), dict[str, str | int]()
    for at, (patterns, column, are_few) in enumerate(lists):
        found = find(dialect, patterns, column, f"t{at}_")
        values |= found.values
        if are_few:
            text = found.ids(dialect)
        else:  # in descending order, SQLite takes twice as long for documents with several words
            if dialect == "postgresql":
                recent = found.text.replace("FROM documents", _RECENT.format(_NEWEST), 1)
                found = found._replace(
                    text=_RECENT_FIRST.format(recent=recent, found=found.text, limit=limit)
                )
            text = f"{found.text} ORDER BY id DESC LIMIT {limit}"
        ids = _LIST.format(_LISTED[dialect], text)
        parts.append(_IF_GENERATED.format(ids) if column == "written" else ids)
    return Statement(f"SELECT {', '.join(parts)}", values)


def find(
    dialect: str, patterns: Iterable[TextPattern], column: Column, name: str = "t"
) -> Statement:
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
            before, after = SPACES[form]
            conditions.append(f"' ' || {column} || ' ' LIKE :{name}phrase{at}")
            values[f"{name}phrase{at}"] = f"%{before}{text}{after}%"
    return Statement(f"{begin} WHERE {' AND '.join(conditions)}", values)


_Parts: TypeAlias = tuple[str, list[str], dict[str, str | int]]  # of a `Statement`


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
