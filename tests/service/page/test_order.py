"""The pages that walk the order, and several parts in the search box."""

from __future__ import annotations

import re

import pytest

from tests.service.client import Client


@pytest.mark.parametrize("path", ["/page/order?q=a+dog+runs", "/page/order?image=1003"])
def test_every_node_of_a_diagram_leads_to_its_own_and_is_named(client: Client, path: str) -> None:
    response = client.get(path)
    assert response.status_code == 200, response.text
    links = re.findall(r'<a class="(?:focus|above|below|beside)" href="([^"]+)"', response.text)
    labels = re.findall(r'aria-label="[^"]+ \((?:you are here|more|neither)', response.text)
    assert len(links) == len(labels) > 0
    assert response.text.count('aria-current="true"') == 1
    for link in links:
        assert client.get(link.replace("&amp;", "&")).status_code == 200


def test_a_claim_is_answered_with_a_verdict_and_can_be_asked_again(client: Client) -> None:
    response = client.get("/page/claim?image=1003&hypothesis=a+dog+runs")
    assert response.status_code == 200
    assert re.search(r'class="verdict (yes|no)">(True|Not true)<', response.text)
    assert 'name="hypothesis"' in response.text
    assert 'name="hypothesis"' in client.get("/?image=1003").text


@pytest.mark.parametrize(
    ("path", "status"),
    [
        ("/page/order", 422),
        ("/page/order?image=7", 404),
        ("/page/claim?image=1003", 422),
        ("/page/claim?image=x&hypothesis=a", 404),
        ("/?q=" + "+%2B+".join(["a"] * 20), 422),
    ],
)
def test_what_cannot_be_shown_is_said_in_words(client: Client, path: str, status: int) -> None:
    response = client.get(path)
    assert response.status_code == status
    assert 'data-view="problem"' in response.text


def test_parts_joined_by_a_plus_are_searched_for_together(client: Client) -> None:
    page = client.get("/", params={"q": "a dog + a cat"}).text
    found = client.post("/search/all_of", json={"all_of": ["a dog", "a cat"], "k": 12}).json()
    shown = re.findall(r'class="shot" href="/\?image=(\d+)', page)
    assert shown == [str(hit["image_id"]) for hit in found["hits"]]
