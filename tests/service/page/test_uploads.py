"""Pictures that are sent to the page."""

from __future__ import annotations

from pathlib import Path

import pytest

from hasse.service.app import create_app
from hasse.service.settings import Settings
from tests.service.client import Client
from tests.service.collection import png
from tests.service.page.markup import HTMX, Tags, said, upload


def test_search_by_upload_shows_the_picture_and_does_not_keep_it(client: Client) -> None:
    response = upload(client, png(), mode="exact")
    page = Tags(response.text)
    assert response.status_code == 200
    assert str(page.of("img")[0]["src"]).startswith("data:image/jpeg;base64,")
    assert "one by one" in said(response)
    assert "Your picture was read, not kept." in said(response)
    again = client.get("/page/picture")
    assert again.status_code == 200
    assert "That picture was not kept" in said(again)


def test_upload_gets_an_address_of_its_own(client: Client) -> None:
    form = {"k": "12", "mode": "sideways", "upload": "x1"}
    files = {"image": ("a.png", png())}
    response = client.post("/page/picture", files=files, data=form, headers=HTMX)
    assert response.headers["HX-Push-Url"] == "/page/picture?upload=x1&k=12"


@pytest.mark.parametrize(
    ("content", "status", "words"),
    [
        (b"hello", 415, "That is not a picture Hasse can read"),
        (b"", 415, "That is not a picture Hasse can read"),
        (png()[:400], 422, "That picture is damaged"),
        (b"x" * 70_000, 413, "You can send at most 0.05 MB."),
    ],
)
def test_upload_that_cannot_be_read_is_an_error_page(
    collection: Path, content: bytes, status: int, words: str
) -> None:
    settings = Settings(library=collection, device="cpu", picture_bytes=50_000)
    with Client(create_app(settings)) as client:
        response = upload(client, content)
    assert response.status_code == status
    assert words in said(response)


def test_upload_that_fails_keeps_the_options_that_were_chosen(client: Client) -> None:
    response = upload(client, b"no picture", mode="exact")
    assert response.status_code == 415
    assert 'name="mode" value="exact" checked' in response.text
    assert response.text.count('type="hidden" name="mode" value="exact"') == 1
