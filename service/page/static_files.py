"""Serves the static files of the page: styles, scripts, an icon."""

from __future__ import annotations

import hashlib
import mimetypes
from collections.abc import Mapping
from functools import cache
from pathlib import Path

from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from hasse.service.addresses import address

FOLDER = Path(__file__).parent / "static"
_CACHE_FOREVER = {"Cache-Control": "public, max-age=31536000, immutable"}


class StaticFiles:
    """Serves the files of a folder from memory, so that no thread has to read them.

    A file is sent whole, also for a range. An address with the version of the file (`static`) can
    be cached forever.
    """

    def __init__(self, folder: Path = FOLDER) -> None:
        self._files: Mapping[str, Path] = {
            f"/{path.name}": path for path in folder.iterdir() if mimetypes.guess_type(path)[0]
        }

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Send a file, or 304 to a client that has it."""
        if scope["method"] != "GET":
            raise HTTPException(405)
        path = self._files.get(scope["path"].removeprefix(scope["root_path"]))
        if path is None:
            raise HTTPException(404)
        request, version = Request(scope), _version(path)
        headers = {"ETag": f'"{version}"'}
        # An address with another version is of another release, whose file may differ.
        if request.query_params.get("v") == version:
            headers |= _CACHE_FOREVER
        if request.headers.get("if-none-match") == headers["ETag"]:
            response = Response(None, 304, headers)
        else:
            response = Response(_content(path), 200, headers, mimetypes.guess_type(path)[0])
        await response(scope, receive, send)


def static(name: str) -> str:
    """Return the address of a static file, which changes with its contents."""
    return address(f"/static/{name}?v={_version(FOLDER / name)}")


@cache
def _content(path: Path) -> bytes:
    return path.read_bytes()


@cache
def _version(path: Path) -> str:
    return hashlib.sha256(_content(path)).hexdigest()[:10]
