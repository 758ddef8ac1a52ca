"""What people gave to pictures: captions and keywords, by the SHA-256 of a picture's bytes.

The rows need no image. They stay when an image is removed, for whatever reason, and its texts come
back with its bytes. Only people delete them: text by text, or by `forget_absent`.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping

import sqlalchemy as sql
from sqlalchemy import Connection

from hasse.index.catalog.schema import (
    CAPTIONS,
    GIVEN,
    HAS_SHA256,
    IMAGES,
    PATHS,
    TEXTS,
    WRITTEN,
    batched,
    row_of,
)
from hasse.index.text.sources import SourcedText

_ABSENT = GIVEN.c.sha256.not_in(sql.select(IMAGES.c.sha256))


def make_table(connection: Connection) -> None:
    """Make the table in a library of 0.3.0, with what people gave to the pictures that are there.

    A human caption was given by people if no file of a folder holds it.
    """
    if _is_missing(connection):
        GIVEN.create(connection)
        _insert(connection, _given_before(connection))


def texts_of(connection: Connection, sha256s: Iterable[str]) -> dict[str, list[SourcedText]]:
    """Return what people gave to pictures, by SHA-256; nothing for pictures without texts."""
    texts: dict[str, list[SourcedText]] = {}
    if _is_missing(connection):
        return texts
    rows = sql.select(GIVEN.c.sha256, GIVEN.c.source, GIVEN.c.text)
    rows = rows.order_by(GIVEN.c.source, GIVEN.c.position)
    for batch in batched(sorted({*sha256s} - {""})):
        for sha256, *text in connection.execute(rows.where(GIVEN.c.sha256.in_(batch))):
            texts.setdefault(sha256, []).append(SourcedText._make(text))
    return texts


def replace(connection: Connection, texts: Mapping[str, Iterable[SourcedText]]) -> None:
    """Replace all that people gave to pictures, by SHA-256; each text counts once."""
    for batch in batched(texts):
        connection.execute(GIVEN.delete().where(GIVEN.c.sha256.in_(batch)))
    _insert(connection, texts)


def inherit(connection: Connection, sha256s: Mapping[str, str]) -> None:
    """Give the texts of former pictures to those in their place, by the former SHA-256."""
    if not sha256s:
        return
    texts = texts_of(connection, (*sha256s, *sha256s.values()))
    replace(
        connection,
        {
            new: dict.fromkeys((*texts.get(new, ()), *texts[old]))
            for old, new in sha256s.items()
            if old in texts
        },
    )


def count_absent(connection: Connection) -> tuple[int, int]:
    """Return how many texts are kept of pictures that are not in the index, and of how many."""
    if _is_missing(connection):
        return 0, 0
    counts = sql.func.count(), sql.func.count(GIVEN.c.sha256.distinct())
    texts, pictures = connection.execute(sql.select(*counts).where(_ABSENT)).one()
    return texts, pictures


def forget_absent(connection: Connection) -> None:
    """Delete the texts of pictures that are not in the index."""
    connection.execute(GIVEN.delete().where(_ABSENT))


def _is_missing(connection: Connection) -> bool:
    return not sql.inspect(connection).has_table(GIVEN.name)


def _given_before(connection: Connection) -> dict[str, dict[SourcedText, None]]:
    is_ours = sql.or_(PATHS.c.folder != "", ~PATHS.c.path.startswith("/"))
    images = sql.select(IMAGES.c.id, IMAGES.c.sha256).join(PATHS).where(is_ours, HAS_SHA256)
    sha256s: dict[int, str] = dict(connection.execute(images).all())
    files = sql.select(PATHS.c.image_id, PATHS.c.captions).where(PATHS.c.captions != "{}")
    of_files = {
        (id_, "caption", text)
        for id_, captions in connection.execute(files)
        for texts in json.loads(captions).values()
        for text in texts
    }
    human = sql.select(CAPTIONS.c.image_id, sql.literal("caption"), CAPTIONS.c.text)
    human = human.outerjoin(WRITTEN).where(WRITTEN.c.caption_id.is_(None))
    keywords = sql.select(TEXTS.c.image_id, TEXTS.c.source, TEXTS.c.text)
    keywords = keywords.where(TEXTS.c.source == "added keyword")
    texts: dict[str, dict[SourcedText, None]] = {}
    for id_, *text in connection.execute(human.union_all(keywords)):
        if id_ in sha256s and (id_, *text) not in of_files:
            texts.setdefault(sha256s[id_], {})[SourcedText._make(text)] = None
    return texts


def _insert(connection: Connection, texts: Mapping[str, Iterable[SourcedText]]) -> None:
    rows = (
        (sha256, text.source, at, text.text)
        for sha256, each in texts.items()
        for at, text in enumerate(dict.fromkeys(each))
    )
    for block in batched(rows):
        connection.execute(GIVEN.insert(), [row_of(GIVEN, row) for row in block])
