"""A picture on the page, with the pictures that are like it."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from hasse.service.app import create_app
from hasse.service.settings import Settings
from tests.service.client import Client
from tests.service.collection import IMAGES, make_collection, png

KINDS = ("alike", "more_specific", "more_general")


def shown(html: str) -> list[int]:
    return [int(found) for found in re.findall(r'class="shot" href="/\?image=(\d+)', html)]


@pytest.mark.parametrize("kind", KINDS)
def test_page_of_similar_pictures_shows_all_others_and_links_to_each_kind(
    client: Client, kind: str
) -> None:
    page = client.get("/", params={"image": 1003, "similar": kind}).text
    assert len(shown(page)) == IMAGES - 1
    assert 1003 not in shown(page)
    for other in KINDS:
        current = ' aria-current="true"' if other == kind else ""
        assert f'<a href="/?image=1003&amp;similar={other}"{current}>' in page
    assert '<a href="/?image=1003">About it</a>' in page


@pytest.mark.parametrize("kind", KINDS)
def test_uploaded_picture_is_shown_with_pictures_like_it(client: Client, kind: str) -> None:
    answer = client.post(
        "/page/picture",
        data={"similar": kind, "upload": "one"},
        files={"image": ("a.png", png())},
        headers={"HX-Request": "true"},
    )
    assert len(shown(answer.text)) == IMAGES
    assert f'<button name="similar" value="{kind}" aria-current="true">' in answer.text
    assert answer.headers["HX-Push-Url"] == f"/page/picture?upload=one&similar={kind}"


def test_picture_in_a_collection_without_captions_is_shown_with_pictures_like_it(
    settings: Settings, tmp_path: Path
) -> None:
    index = make_collection(tmp_path, captions_each=0)
    with Client(create_app(settings.model_copy(update={"library": index}))) as client:
        stored = client.get("/", params={"image": 1003}).text
        sent = client.post("/page/picture", files={"image": ("a.png", png())}).text
    assert (len(shown(stored)), len(shown(sent))) == (IMAGES - 1, IMAGES)
    for page in (stored, sent):
        assert "Captions of other pictures" not in page


def test_picture_is_shown_with_its_path(client: Client) -> None:
    for url in ("/?image=1003", "/?image=1003&similar=alike"):
        page = client.get(url).text
        assert page.index("Copy the path picture-3.png") < page.index("<h1")
