"""Searches by parts and entailment: the limits of requests, and how they are refused."""

from __future__ import annotations

from typing import Any

import pytest

from hasse.service.questions.requests import PAIRS_MAXIMUM, PARTS_MAXIMUM, LikeQuery
from tests.service.client import Client
from tests.service.collection import png
from tests.service.problems import problem


def detail(client: Client, path: str, body: object) -> str:
    response = client.post(path, json=body)
    assert response.status_code == 422, response.text
    return str(response.json()["detail"])


def test_form_accepts_all_fields_at_once(client: Client) -> None:
    data: dict[str, Any] = {
        "also": ["a red dog"] * 16,
        "less": ["a child"] * 16,
        "plus": ["a dog"] * 16,
        "minus": ["a cat"] * 16,
        "k": "3",
        "mode": "exact",
        "candidates": "5",
        "max_violation": "9",
        "offset": "1",
        "split": "",
        "image_ids": "1001,1002,1003",
        "added_from": "2020-01-01T00:00:00Z",
        "added_before": "2100-01-01T00:00:00Z",
        "taken_from": "1970-01-01T00:00:00Z",
        "taken_before": "2100-01-01T00:00:00Z",
        "path_prefix": "",
        "camera": "",
        "rating": "0",
        "near": "52.5,13.4,5",
        "has_place": "true",
        "has_captions": "true",
        "versions": "all",
        "sort": "newest",
    }
    assert data.keys() | {"like"} == LikeQuery.model_fields.keys()
    response = client.post("/search/like", files={"image": png(3)}, data=data)
    assert response.status_code == 200, response.text


@pytest.mark.parametrize(
    ("path", "fields", "words"),
    [
        ("like", {"plus": ["a"] * 17}, "plus: there may be at most 16 of these, not 17"),
        ("all_of", {"all_of": ["a"] * 16}, "all_of: there may be at most 15 of these, not 16"),
        ("common", {"common": ["  "]}, "blank"),
        ("like", {"like": "7", "plus": ["a dog"]}, "like: there is no such field"),
        ("all_of", {"all_of": ["a dog", "dog " * 101]}, "all_of.1: more than 100 words"),
        ("common", {"common": ["dog " * 101]}, "common: more than 100 words"),
        ("all_of", {"k": ["3", "4"]}, "k: this field is given twice"),
    ],
)
def test_form_with_bad_field_is_refused_with_a_reason(
    client: Client, path: str, fields: dict[str, list[str]], words: str
) -> None:
    response = client.post(f"/search/{path}", files={"image": png(3)}, data=fields)
    assert response.status_code == 422, response.text
    assert words in response.json()["detail"]


@pytest.mark.parametrize(
    ("path", "body", "field", "reason"),
    [
        ("search/all_of", {"all_of": ["a dog", True]}, "all_of.1", "neither a caption nor"),
        ("search/all_of", {"all_of": [None]}, "all_of.0", "neither a caption nor"),
        ("search/common", {"common": [-1]}, "common.0", "greater than or equal to 0"),
        ("search/like", {"like": 1.5, "plus": ["a dog"]}, "like", "neither a caption nor"),
        ("search/like", {"like": 1003, "plus": [" "]}, "plus", "blank"),
        ("entails", {"premise": "", "hypothesis": "a dog"}, "premise", "at least 1 character"),
        ("entails", {"premise": "\0", "hypothesis": "a dog"}, "premise", "NUL"),
    ],
)
def test_bad_part_is_one_field_with_one_reason(
    client: Client, path: str, body: object, field: str, reason: str
) -> None:
    found = problem(client.post(f"/{path}", json=body), 422, "invalid")
    assert [error.field for error in found.errors] == [field]
    assert reason in found.errors[0].reason


@pytest.mark.parametrize(
    ("path", "body", "words"),
    [
        ("/search/all_of", {"all_of": []}, "all_of: there must be at least 1 of these"),
        (
            "/search/all_of",
            {"all_of": ["a"] * 17},
            "all_of: there may be at most 16 of these, not 17",
        ),
        ("/search/all_of", {"all_of": ["a dog", "  "]}, "blank"),
        ("/search/all_of", {}, "all_of: field required"),
        ("/search/all_of", {"all_of": ["dog " * 200]}, "all_of: more than"),
        ("/search/common", {"common": ["dog " * 200]}, "common: more than"),
        ("/search/like", {"like": "dog " * 200, "plus": ["a"]}, "like: more than"),
        ("/search/like", {"like": 1, "plus": ["a", "dog " * 200]}, "plus.1: more than"),
        ("/search/like", {"like": 1, "plus": ["a"], "minus": ["dog " * 200]}, "minus: more than"),
        ("/search/common", {"common": []}, "common: there must be at least 1 of these"),
        ("/search/like", {"plus": ["a"]}, "like: field required"),
        (
            "/search/like",
            {"like": 1, "plus": ["a"], "minus": ["a"] * 17},
            "minus: there may be at most 16 of these, not 17",
        ),
        ("/search/like", 7, "body: this is not a JSON object"),
        ("/entails/batch", {"pairs": []}, "pairs: there must be at least 1 of these"),
        (
            "/entails/batch",
            {"pairs": [{"premise": "a", "hypothesis": "a"}] * 65},
            "pairs: there may be at most 64 of these, not 65",
        ),
        ("/entails", {"premise": "a dog"}, "hypothesis: field required"),
        ("/entails", {"premise": "a " * 101, "hypothesis": "a"}, "premise: more than 100 words"),
    ],
)
def test_json_with_bad_field_is_refused_with_a_reason(
    client: Client, path: str, body: object, words: str
) -> None:
    assert words in detail(client, path, body)


@pytest.mark.parametrize("before", [0, 1])
def test_entails_batch_names_the_bad_pair(client: Client, before: int) -> None:
    pairs = [{"premise": "a dog", "hypothesis": "a dog"}] * before
    pairs.append({"premise": "a dog", "hypothesis": "dog " * 101})
    found = detail(client, "/entails/batch", {"pairs": pairs})
    assert found == f"pairs.{before}.hypothesis: more than 100 words"
    assert detail(client, "/entails", pairs[-1]) == "hypothesis: more than 100 words"


def test_part_with_unknown_image_id_is_not_found(client: Client) -> None:
    for path, body in (
        ("/search/all_of", {"all_of": ["a dog", 7]}),
        ("/search/common", {"common": [7]}),
        ("/search/like", {"like": 7, "plus": ["a dog"]}),
        ("/entails", {"premise": 7, "hypothesis": "a dog"}),
    ):
        response = client.post(path, json=body)
        assert response.status_code == 404
        assert "no image with the id 7" in response.json()["detail"]


def test_maximum_of_parts_and_pairs_is_accepted(client: Client) -> None:
    parts = [f"a dog {at}" for at in range(PARTS_MAXIMUM)]
    assert client.post("/search/all_of", json={"all_of": parts}).status_code == 200
    pairs = [{"premise": f"a {at}", "hypothesis": "a dog"} for at in range(PAIRS_MAXIMUM)]
    answers = client.post("/entails/batch", json={"pairs": pairs}).json()["answers"]
    assert len(answers) == PAIRS_MAXIMUM
