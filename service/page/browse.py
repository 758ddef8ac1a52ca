"""Pictures of a folder or a time without a search, the last added first."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from hasse.index.catalog.selection import Selection
from hasse.service.addresses import thumbnail_url
from hasse.service.core.engine import Engine
from hasse.service.page.query import PageQuery
from hasse.service.page.rendering import View
from hasse.service.plural import count
from hasse.service.questions.pipeline import selection_of
from hasse.service.questions.requests import SearchOptions


@dataclass(frozen=True, slots=True)
class BrowsedImage:
    """An image as a card shows it; nothing was asked of it, so no reasons and no probability."""

    image_id: int
    file_name: str
    path: str
    width: int | None
    height: int | None
    captions: list[str]
    written_captions: list[str]
    thumbnail_url: str
    probability: None = None
    says: tuple[()] = ()


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


def _read(engine: Engine, query: PageQuery, selection: Selection) -> tuple[int, list[BrowsedImage]]:
    index = engine.index
    ids = np.sort(selection.ids(index.catalog, index.folder, "image", index.snapshot.ids("image")))
    wanted = ids[::-1][query.offset : query.offset + query.k].tolist()
    rows, _ = index.catalog.image_hits(wanted)
    paths = engine.paths.of_hits(rows)
    return len(ids), [
        BrowsedImage(
            image_id=row.id,
            file_name=row.file_name,
            path=paths[row.id][0],
            width=row.width,
            height=row.height,
            captions=[text or "" for text, by in row.captions if by is None],
            written_captions=[text or "" for text, by in row.captions if by is not None],
            thumbnail_url=thumbnail_url(row.id),
        )
        for image_id in wanted
        if (row := rows.get(image_id)) is not None
    ]
