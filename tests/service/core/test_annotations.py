"""Captions and keywords that people give stored images, and take away."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from hasse.index.verify import verify
from tests.service.client import Client
from tests.service.problems import problem

BODY: dict[str, Any] = {
    "image_ids": [1001, 1003],
    "captions": ["a zebra  at the lake"],
    "keywords": ["Anna"],
}


def saying(client: Client, text: str) -> list[tuple[int, str]]:
    """Return the images that say a text, and where."""
    body = {"caption": text, "evidence": "says"}
    hits = client.post("/search/images", json=body).json()["hits"]
    return sorted((hit["image_id"], hit["says"][0]["where"]) for hit in hits)


def captions(client: Client, image_id: int) -> list[str]:
    found = client.get(f"/images/{image_id}").json()["captions"]
    return [one["caption"] for one in found]


def test_annotate_adds_texts_that_the_next_search_finds_in_one_generation(
    writable: Client, folder: Path
) -> None:
    before = writable.get("/version").json()
    assert writable.post("/annotations", json=BODY).status_code == 204
    after = writable.get("/version").json()
    assert after["generation"] == before["generation"] + 1
    assert after["captions"] == before["captions"] + 2
    assert captions(writable, 1003)[-1] == "a zebra at the lake"
    assert saying(writable, "zebra") == [(1001, "caption"), (1003, "caption")]
    assert saying(writable, "Anna") == [(1001, "added keyword"), (1003, "added keyword")]
    # The same again changes nothing.
    assert writable.post("/annotations", json=BODY).status_code == 204
    assert writable.get("/version").json() == after
    assert verify(folder).findings == ()


def test_annotate_adds_only_what_an_image_lacks(writable: Client) -> None:
    first, *_ = captions(writable, 1001)
    body = {"image_ids": [1001, 1001, 1002], "captions": [first, first], "keywords": ["Anna"]}
    assert writable.post("/annotations", json=body).status_code == 204
    assert captions(writable, 1001).count(first) == 1
    assert captions(writable, 1002)[-1] == first
    assert saying(writable, "Anna") == [(1001, "added keyword"), (1002, "added keyword")]
    body = {"image_ids": [1001], "keywords": ["Bert"]}
    assert writable.post("/annotations", json=body).status_code == 204
    assert saying(writable, "Anna Bert")[0] == (1001, "added keyword")


def test_unannotate_takes_away_what_annotate_added(writable: Client) -> None:
    before = writable.get("/version").json()
    writable.post("/annotations", json=BODY)
    body = BODY | {"image_ids": [1003]}
    assert writable.post("/annotations/remove", json=body).status_code == 204
    assert saying(writable, "zebra") == [(1001, "caption")]
    assert saying(writable, "Anna") == [(1001, "added keyword")]
    assert "a zebra at the lake" not in captions(writable, 1003)
    assert writable.get("/version").json()["captions"] == before["captions"] + 1


@pytest.mark.parametrize(
    ("given", "status", "reason", "detail"),
    [
        ({"image_ids": [1001, 7]}, 404, "not_found", "7"),
        ({"image_ids": []}, 422, "invalid", "image_ids"),
        ({"captions": [" "]}, 422, "invalid", "captions.0"),
        ({"keywords": ["a\0"]}, 422, "invalid", "keywords.0"),
        ({"captions": ["a"] * 9}, 422, "invalid", "captions"),
    ],
)
def test_annotate_that_is_refused_changes_nothing(
    writable: Client, given: dict[str, Any], status: int, reason: str, detail: str
) -> None:
    before = writable.get("/version").json()
    refused = problem(writable.post("/annotations", json=BODY | given), status, reason)
    assert detail in refused.detail + "".join(one.field for one in refused.errors)
    assert writable.get("/version").json() == before
