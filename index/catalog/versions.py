"""What the catalog knows of versions of pictures; see `VersionRow`."""

from __future__ import annotations

import sqlalchemy as sql

from hasse.index.catalog.catalog import Catalog
from hasse.index.catalog.schema import VERSION_FACTS
from hasse.index.types import VersionRow


def version_rows(catalog: Catalog) -> dict[int, VersionRow]:
    """Return what is noted of each image that has been looked at, by its id."""
    with catalog.reading() as connection:
        rows = connection.execute(sql.select(*VERSION_FACTS))
        return {row.image_id: VersionRow._make(row) for row in rows}
