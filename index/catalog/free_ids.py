"""Ids for new rows: after the largest there is, or where there is no larger one, in the gaps."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import count

import sqlalchemy as sql

from hasse.index.catalog.catalog import Catalog
from hasse.index.catalog.schema import CAPTIONS, DELETED, IMAGES
from hasse.index.types import Kind

LARGEST_ID = 2**63 - 1  # the largest SQL BIGINT


def free_ids(catalog: Catalog, kind: Kind, largest: int) -> Iterator[int]:
    """Yield ids that no row of `kind` has, in order, beginning after `largest`.

    Ids of what was removed are not given again, as far as they are remembered.
    """
    yield from range(largest + 1, LARGEST_ID + 1)
    table = IMAGES if kind == "image" else CAPTIONS
    with catalog.reading() as connection:
        taken = set(connection.execute(sql.select(table.c.id)).scalars())
        gone = sql.select(DELETED.c.id).where(DELETED.c.kind == kind)
        taken.update(connection.execute(gone).scalars())
    yield from (id_ for id_ in count(1) if id_ not in taken)
