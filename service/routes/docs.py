"""Documentation of the API at /docs: Swagger UI, without requests to other sites."""

from __future__ import annotations

from collections.abc import Iterable
from html import escape
from importlib.resources import files
from pathlib import Path

from fastapi import APIRouter
from starlette.responses import HTMLResponse

from hasse.service.errors import REASONS
from hasse.service.settings import Settings, descriptions

router = APIRouter(include_in_schema=False)

# Only the files of Swagger UI in this package are used.
SWAGGER_UI = Path(str(files("fastapi_swagger"))) / "resources"

_POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; "
    "img-src 'self' data: blob:; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
)
# Addresses are relative to /docs, so that the page also works behind a path prefix.
_PAGE = """<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>Hasse: the API</title>
<link rel="icon" type="image/svg+xml" href="static/favicon.svg">
<link rel="stylesheet" href="docs/swagger-ui.css">
<link rel="stylesheet" href="static/docs.css">
<script src="docs/swagger-ui-bundle.js" defer></script>
<script src="static/docs.js" defer></script>
</head>
<body>
<div id="swagger-ui"></div>
<main>
<h2>Errors</h2>
<p>An error is <code>application/problem+json</code> (RFC 9457) with one of these reasons.</p>
<table>{errors}</table>
<h2>Settings</h2>
<p>The operator of the service sets these as environment variables.</p>
<table>{settings}</table>
</main>
</body>
</html>
"""


@router.get("/docs")
async def docs() -> HTMLResponse:
    """Return the page that documents every request and lets people try it."""
    errors = (_row(reason, (reason, kind.status, kind.title)) for reason, kind in REASONS.items())
    settings = (
        _row(name, (f"HASSE_{name.upper()}", Settings.model_fields[name].default, purpose))
        for name, purpose in descriptions().items()
    )
    page = _PAGE.format(errors="\n".join(errors), settings="\n".join(settings))
    return HTMLResponse(page, headers={"Content-Security-Policy": _POLICY})


def _row(row_id: str, cells: Iterable[object]) -> str:
    return f'<tr id="{row_id}">' + "".join(f"<td>{escape(str(cell))}</td>" for cell in cells)
