"""Renders views as a whole document or, for htmx, as the fragment that changes."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import partial
from json import dumps
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from fastapi import Request
from jinja2 import Environment, FileSystemLoader, StrictUndefined
from starlette.responses import HTMLResponse, Response

from hasse.service.addresses import address, preview_url, thumbnail_url
from hasse.service.core.answer_threads import run_in_thread
from hasse.service.errors import ServiceError
from hasse.service.http.services import services_of
from hasse.service.page.query import FILTERS, PageQuery
from hasse.service.page.results import distinct, images_of
from hasse.service.page.sources import shape, srcset
from hasse.service.page.static_files import static
from hasse.service.telemetry.stages import Stages
from hasse.service.verdict import WHERE_WORDS, hit_word, percent, verdict

HERE = Path(__file__).parent
KEEP_URL = ""

_HTMX = {
    "allowEval": False,
    "allowScriptTags": False,
    "includeIndicatorStyles": False,
    "historyCacheSize": 20,
    "historyRestoreAsHxRequest": False,
    "responseHandling": [
        {"code": "204", "swap": False},
        {"code": "[23]..", "swap": True},
        {"code": "...", "swap": True, "error": True},  # errors are views, too
    ],
}
_MODES = (
    ("certified", "Sure", "nothing better is missed"),
    ("exact", "Picture by picture", "looks at every single one, which takes longer"),
    ("fast", "Quick", "a good picture may be missed"),
)
_KEYS = (
    ("/", "search"),
    ("Esc", "close what is open, leave the search field"),
    ("← →", "the picture before, the next picture"),
    ("↑ ↓", "the picture above, the picture below"),
    ("Enter", "see a picture large"),
    ("Z", "zoom"),
    ("I", "what is known of the picture"),
    ("?", "this list"),
)


@dataclass(frozen=True, slots=True)
class View:
    """A template and its variables.

    Attributes:
        announcement: text for screen readers.
        url: the new address, if it differs from the query's; `KEEP_URL` leaves it unchanged.
        error: gives the response its status.
    """

    template: str
    title: str = "Hasse"
    announcement: str = ""
    context: Mapping[str, Any] = field(default_factory=dict)
    url: str | None = None
    stages: Stages | None = None
    error: ServiceError | None = None


_TEMPLATES = Environment(
    loader=FileSystemLoader(HERE / "templates"),
    autoescape=True,
    undefined=StrictUndefined,
    trim_blocks=True,
    auto_reload=False,
    lstrip_blocks=True,
)
_EVIDENCES = (
    ("any", "All that fits"),
    ("shows", "What they show"),
    ("says", "What is said about them"),
)
_SORTS = (
    ("best", "Best first"),
    ("newest", "Newest first"),
    ("oldest", "Oldest first"),
    ("added", "Last added first"),
    ("rating", "Most stars first"),
    ("folder", "By folder"),
)
_TEMPLATES.globals.update(
    sorts=_SORTS,
    evidences=_EVIDENCES,
    where_words=WHERE_WORDS,
    address=address,
    static=static,
    filters=tuple(FILTERS),
    hit_word=hit_word,
    htmx_config=dumps(_HTMX),
    keys=_KEYS,
    modes=_MODES,
    percent=percent,
    preview_url=preview_url,
    shape=shape,
    srcset=srcset,
    thumbnail_url=thumbnail_url,
    verdict=verdict,
)
_TEMPLATES.filters.update(distinct=distinct, images=images_of)


async def render(request: Request, query: PageQuery, view: View) -> Response:
    """Render a view: a fragment for htmx, a document for other clients.

    It would block the event loop for too long, so it runs in a thread and has its own queue.

    Raises:
        ServiceError: `busy` or `late`, but not for the view of an error.
    """
    services = services_of(request.app)
    settings = services.settings
    headers = {"Vary": "HX-Request, HX-History-Restore-Request"}
    fragment = (
        request.headers.get("HX-Request") == "true"
        and request.headers.get("HX-History-Restore-Request") != "true"
    )
    if fragment:
        headers["Cache-Control"] = "no-store"
        headers |= _history(request, _address(query) if view.url is None else view.url)
    else:
        headers["Cache-Control"] = "no-cache"
    status = 200
    if view.error is not None:
        request.scope["hasse.reason"] = view.error.reason
        status = view.error.kind.status
        if view.error.retry_after is not None:
            headers["Retry-After"] = str(view.error.retry_after)
    if view.stages is not None:
        headers["Server-Timing"] = view.stages.header()
    template = _TEMPLATES.get_template("fragment.html" if fragment else "page.html")
    render_template = partial(
        template.render,
        content=view.template,
        title=view.title,
        announcement=view.announcement,
        query=query,
        defaults=PageQuery.read({}, settings),
        settings=settings,
        fragment=fragment,
        overview=services.samples.overview,
        suggestions=services.samples.suggestions,
        **view.context,
    )
    if view.error is not None:  # small, and also shown when the queue is full
        return HTMLResponse(render_template(), status, headers)
    async with services.rendering.enter(Stages()):
        body = await run_in_thread(render_template)
    return HTMLResponse(body, status, headers)


def _address(query: PageQuery) -> str:
    """Return the address of a query. For further hits, the script of the page sets it."""
    return KEEP_URL if query.offset else query.url()


def _history(request: Request, url: str) -> dict[str, str]:
    """Return the header that sets the address: typing replaces it, other requests add one."""
    if url in (_current_url(request), KEEP_URL):
        return {"HX-Push-Url": "false"}
    if request.headers.get("Hasse-Typing"):
        return {"HX-Replace-Url": url}
    return {"HX-Push-Url": url}


def _current_url(request: Request) -> str:
    """Return the address in the browser, or "" if htmx sent none that can be read."""
    try:
        current = urlsplit(request.headers.get("HX-Current-URL", ""))
    except ValueError:
        return ""
    return f"{current.path}?{current.query}" if current.query else current.path
