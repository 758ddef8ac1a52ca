"""Ids for new rows: ids that no row has, and that no row had before it was deleted."""

from __future__ import annotations

from collections.abc import Iterator

import sqlalchemy as sql

from hasse.index.catalog.catalog import Catalog
from hasse.index.catalog.schema import CAPTIONS, DELETED, FAR_IDS, IMAGES
from hasse.index.types import Kind

LARGEST_ID = 2**53 - 1  # JSON readers with one type of number hold no larger one exactly


def free_ids(catalog: Catalog, kind: Kind, largest: int) -> Iterator[int]:
    """Yield ids that no row of `kind` has or had, in order; the first is after `largest`.

    `largest` is that of `Catalog.largest_ids`, or larger.
    """
    yield from range(largest + 1, FAR_IDS)
    table = IMAGES if kind == "image" else CAPTIONS
    gone = sql.select(DELETED.c.id).where(DELETED.c.kind == kind, DELETED.c.id >= FAR_IDS)
    with catalog.reading() as connection:
        used = set(
            connection.execute(sql.select(table.c.id).where(table.c.id >= FAR_IDS)).scalars()
        )
        used.update(connection.execute(gone).scalars())
    yield from (id_ for id_ in range(FAR_IDS, LARGEST_ID + 1) if id_ not in used)
