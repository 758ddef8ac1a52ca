"""Pictures of a folder or a time without a search, the last added first."""

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
    found, hits = await engine.in_catalog(lambda: _read(engine, query, selection))
    shown = query.offset + len(hits)
    return View(
        "browse.html",
        title="Pictures · Hasse",
        announcement=f"{count(found, 'picture')}.",
        context={
            "found": found,
            "hits": hits,
            "more": query.page_url(shown) if hits and shown < found else "",
        },
    )


def _read(engine: Engine, query: PageQuery, selection: Selection) -> tuple[int, list[Fields]]:
    """Return how many pictures there are, and the fields of those to show, as of hits."""
    index = engine.index
    ids = np.sort(selection.ids(index.catalog, index.folder, "image", index.snapshot.ids("image")))
    wanted = ids[::-1][query.offset : query.offset + query.k].tolist()
    rows, _ = index.catalog.image_hits(wanted)
    # Nothing was asked of them, so there is no violation and no probability.
    shown = ((rows[image_id], None, None) for image_id in wanted if image_id in rows)
    return len(ids), image_hit_fields(shown, engine.paths, query.offset, {})
