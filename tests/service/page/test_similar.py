"""The page of similar pictures."""

from __future__ import annotations

import re

import pytest

from tests.service.client import Client
from tests.service.collection import IMAGES


def shown(html: str) -> list[int]:
    return [int(found) for found in re.findall(r'class="shot" href="/\?image=(\d+)', html)]


@pytest.mark.parametrize("kind", ["", "more_specific", "more_general"])
def test_similar_page_shows_all_other_pictures_and_links_to_the_kinds(
    client: Client, kind: str
) -> None:
    page = client.get("/page/similar", params={"image": 1003, "similar": kind}).text
    assert len(shown(page)) == IMAGES - 1
    assert 1003 not in shown(page)
    for link in ("", "similar=more_specific&amp;", "similar=more_general&amp;"):
        assert f'href="/page/similar?{link}image=1003"' in page


def test_page_of_a_picture_links_to_similar_ones(client: Client) -> None:
    assert (
        '<a href="/page/similar?image=1003">Similar pictures</a>' in client.get("/?image=1003").text
    )


@pytest.mark.parametrize(("image", "status"), [("", 422), ("nonsense", 404), ("999", 404)])
def test_similar_page_of_no_picture_is_refused(client: Client, image: str, status: int) -> None:
    assert client.get("/page/similar", params={"image": image}).status_code == status
