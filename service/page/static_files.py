"""Serves the static files of the page: styles, scripts, an icon."""

from __future__ import annotations

from pathlib import Path

from starlette.staticfiles import StaticFiles
from starlette.types import Message, Receive, Scope, Send

FOLDER = Path(__file__).parent / "static"


class WholeFiles(StaticFiles):
    """Static files without range requests: the files are small, and bad ranges cause errors."""

    def __init__(self, folder: Path = FOLDER) -> None:
        super().__init__(directory=folder)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve the whole file, whatever range the request names."""

        async def send_whole(message: Message) -> None:
            if message["type"] == "http.response.start":
                message["headers"] = [
                    one for one in message["headers"] if one[0] != b"accept-ranges"
                ]
            await send(message)

        headers = [one for one in scope["headers"] if one[0] != b"range"]
        await super().__call__({**scope, "headers": headers}, receive, send_whole)
