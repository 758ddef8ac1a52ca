"""Pages as tests read them: their tags and their words."""

from __future__ import annotations

from html.parser import HTMLParser

import httpx

from tests.service.client import Client

HTMX = {"HX-Request": "true"}  # headers of a request for a fragment


class Tags(HTMLParser):
    """The tags of a document with their attributes, and its words."""

    def __init__(self, document: str) -> None:
        super().__init__()
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.words = ""
        self.feed(document)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))

    def handle_data(self, data: str) -> None:
        self.words = f"{self.words} {data}"

    def of(self, tag: str) -> list[dict[str, str | None]]:
        """Return the attributes of each tag of a name."""
        return [attributes for name, attributes in self.tags if name == tag]


def said(response: httpx.Response) -> str:
    """Return the words of a page with single spaces."""
    return " ".join(Tags(response.text).words.split())


def upload(client: Client, content: bytes, **fields: str) -> httpx.Response:
    """Search by a picture that is sent."""
    return client.post("/page/picture", files={"image": ("a.png", content)}, data=fields)
