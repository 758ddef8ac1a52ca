"""The files that the page is made of: styles, scripts, an icon."""

from __future__ import annotations

from pathlib import Path

from starlette.staticfiles import StaticFiles
from starlette.types import Receive, Scope, Send

FOLDER = Path(__file__).parent / "static"


class Files(StaticFiles):
    """Sends each file whole: so small, none need be asked for in parts, rightly or wrongly."""

    def __init__(self) -> None:
        super().__init__(directory=FOLDER)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request as if it named no part."""
        headers = [(name, value) for name, value in scope["headers"] if name != b"range"]
        await super().__call__({**scope, "headers": headers}, receive, send)
