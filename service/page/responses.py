"""Views turned into responses: a whole document, or for htmx the part that changes."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cache
from json import dumps
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from fastapi import Request
from jinja2 import Environment, FileSystemLoader, StrictUndefined
from starlette.responses import HTMLResponse, Response

from service.page.views import SIZES, Query
from service.services import services_of

HERE = Path(__file__).parent

HTMX = {
    "allowEval": False,
    "allowScriptTags": False,
    "includeIndicatorStyles": False,
    "historyCacheSize": 20,
    "historyRestoreAsHxRequest": False,
    "responseHandling": [
        {"code": "204", "swap": False},
        {"code": "[23]..", "swap": True},
        # Errors are views like any other, in our words.
        {"code": "...", "swap": True, "error": True},
    ],
}
STAY = ""
MODES = (
    ("certified", "Proved", "the best, with a proof that nothing better was missed"),
    ("exact", "Exhaustive", "every single one is compared"),
    ("fast", "Fast", "the likely best, proved only by luck"),
)


@dataclass(frozen=True, slots=True)
class Screen:
    """What is shown: a template and what it needs.

    `spoken` is announced by screen readers, `url` is the address when it is not the query's own;
    `STAY` leaves it as it is.
    """

    template: str
    title: str = "Hasse"
    spoken: str = ""
    context: Mapping[str, Any] = field(default_factory=dict)
    url: str | None = None
    status: int = 200
    timing: str | None = None
    retry_after: int | None = None


@cache
def static(name: str) -> str:
    """Return the address of a static file, which changes with its contents."""
    digest = hashlib.sha256((HERE / "static" / name).read_bytes()).hexdigest()
    return f"/static/{name}?v={digest[:10]}"


_TEMPLATES = Environment(
    loader=FileSystemLoader(HERE / "templates"),
    autoescape=True,
    undefined=StrictUndefined,
    trim_blocks=True,
    lstrip_blocks=True,
)
_TEMPLATES.globals.update(static=static, htmx_config=dumps(HTMX), modes=MODES)


def respond(request: Request, query: Query, screen: Screen) -> Response:
    """Render a screen: the fragment for htmx, the document for everyone else."""
    settings = services_of(request.app).settings
    headers = {"Vary": "HX-Request, HX-History-Restore-Request"}
    fragment = (
        request.headers.get("HX-Request") == "true"
        and request.headers.get("HX-History-Restore-Request") != "true"
    )
    if fragment:
        headers["Cache-Control"] = "no-store"
        headers |= _history(request, query.url() if screen.url is None else screen.url)
    else:
        headers["Cache-Control"] = "no-cache"
    if screen.retry_after is not None:
        headers["Retry-After"] = str(screen.retry_after)
    if screen.timing is not None:
        headers["Server-Timing"] = screen.timing
    template = _TEMPLATES.get_template("fragment.html" if fragment else "page.html")
    body = template.render(
        content=screen.template,
        title=screen.title,
        spoken=screen.spoken,
        query=query,
        usual=Query.read({}, settings),
        settings=settings,
        fragment=fragment,
        sizes=sorted({query.k} | {size for size in SIZES if size <= settings.k_maximum}),
        **screen.context,
    )
    return HTMLResponse(body, screen.status, headers)


def _history(request: Request, url: str) -> dict[str, str]:
    """Say what becomes of the address: keystrokes refine one entry, all else makes a new one."""
    if url in (_here(request), STAY):
        return {"HX-Push-Url": "false"}
    if request.headers.get("Hasse-Typing"):
        return {"HX-Replace-Url": url}
    return {"HX-Push-Url": url}


def _here(request: Request) -> str:
    """Return the address that the visitor sees, as far as it is one."""
    try:
        current = urlsplit(request.headers.get("HX-Current-URL", ""))
    except ValueError:
        return ""
    return f"{current.path}?{current.query}" if current.query else current.path
