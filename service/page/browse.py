"""Lists the pictures that filters select, without a search; the last added first."""

from __future__ import annotations

import numpy as np

from hasse.index.catalog.selection import Selection
from hasse.service.core.engine import Engine
from hasse.service.core.searching import image_hit_fields
from hasse.service.page.query import PageQuery
from hasse.service.page.rendering import View
from hasse.service.plural import count
from hasse.service.questions.pipeline import Fields, selection_of
from hasse.service.questions.requests import SearchOptions


async def browse(engine: Engine, query: PageQuery) -> View:
    """Return the view of the pictures that the filters of a query select."""
    selection = selection_of(engine, "image", SearchOptions(**query.options)) or Selection()
    total, hits = await engine.in_catalog(lambda: _read(engine, query, selection))
    end = query.offset + len(hits)
    return View(
        "browse.html",
        title="Pictures · Hasse",
        announcement=f"{count(total, 'picture')}.",
        context={
            "total": total,
            "hits": hits,
            "more": query.page_url(end) if hits and end < total else "",
        },
    )


def _read(engine: Engine, query: PageQuery, selection: Selection) -> tuple[int, list[Fields]]:
    """Return the number of pictures, and the fields of hits for those on this page."""
    index = engine.index
    ids = np.sort(selection.ids(index.catalog, index.folder, "image", index.snapshot.ids("image")))
    page_ids = ids[::-1][query.offset : query.offset + query.k].tolist()
    rows, _ = index.catalog.image_hits(page_ids)
    # There is no caption to compare with, so there is no violation and no probability.
    hits = ((rows[image_id], None, None) for image_id in page_ids if image_id in rows)
    return len(ids), image_hit_fields(hits, engine.paths, query.offset, {}, rows)
