"""Serves the static files of the page: styles, scripts, an icon."""

from __future__ import annotations

import hashlib
from functools import cache
from pathlib import Path

from starlette.staticfiles import StaticFiles
from starlette.types import Message, Receive, Scope, Send

from hasse.service.addresses import address

FOLDER = Path(__file__).parent / "static"
_FOR_GOOD = (b"cache-control", b"public, max-age=31536000, immutable")


class WholeFiles(StaticFiles):
    """Static files without range requests: the files are small, and bad ranges cause errors.

    An address that names the version of the file (`static`) can be cached for good.
    """

    def __init__(self, folder: Path = FOLDER) -> None:
        super().__init__(directory=folder)
        self._folder = folder

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve the whole file, whatever range the request names."""

        async def send_whole(message: Message) -> None:
            if message["type"] == "http.response.start":
                headers = [one for one in message["headers"] if one[0] != b"accept-ranges"]
                if message["status"] == 200 and self._names_version(scope):
                    headers.append(_FOR_GOOD)
                message["headers"] = headers
            await send(message)

        headers = [one for one in scope["headers"] if one[0] != b"range"]
        await super().__call__({**scope, "headers": headers}, receive, send_whole)

    def _names_version(self, scope: Scope) -> bool:
        """Tell whether an address is of this version, and not of another release's file."""
        query: bytes = scope["query_string"]
        return query.startswith(b"v=") and query[2:].decode("latin-1") == _version(
            self._folder / self.get_path(scope)
        )


def static(name: str) -> str:
    """Return the address of a static file, which changes with its contents."""
    return address(f"/static/{name}?v={_version(FOLDER / name)}")


@cache
def _version(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()[:10]
