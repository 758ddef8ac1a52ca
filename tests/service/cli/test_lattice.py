"""Searches by several parts, and `hasse entails`: the same answers as over HTTP."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.service.cli.shell import hasse
from tests.service.client import Client
from tests.service.collection import picture


def test_search_by_parts_prints_the_hits_of_the_service(
    collection: Path, client: Client, tmp_path: Path
) -> None:
    photo = tmp_path / "photo.png"
    picture(3).save(photo)
    for arguments, path, body in (
        (("--all-of", "a dog", "--all-of", photo), "all_of", {"all_of": ["a dog", 1003]}),
        (("--common", photo, "--common", "a cat"), "common", {"common": [1003, "a cat"]}),
        (
            ("1003", "--plus", "a dog", "--minus", "a cat"),
            "like",
            {"like": 1003, "plus": ["a dog"], "minus": ["a cat"]},
        ),
    ):
        found = hasse("search", *arguments, "--library", collection, "-k", 4, "--json")
        assert found.status == 0, found.err
        served = client.post(f"/search/{path}", json={**body, "k": 4}).json()
        ids = [(hit["rank"], hit["image_id"]) for hit in json.loads(found.out)["hits"]]
        assert ids == [(hit["rank"], hit["image_id"]) for hit in served["hits"]]
        assert json.loads(found.out)["certified"]


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ((), "give one of"),
        (("a dog", "--all-of", "a cat"), "give one of"),
        (("a dog", "--minus", "a cat"), "--minus needs --plus"),
        (("--all-of", "a dog", "--plus", "a cat"), "--plus needs"),
        (("--all-of", "a dog") * 17, "at most 16 parts"),
        (("--common", "7"), "no image with the id 7"),
        (("--all-of", "7"), "“7”"),
        (("7",), "“7”"),
        (("a dog", "--similar", "alike"), "--similar needs a picture"),
        (("photo.jpg", "a", "dog"), "--all-of photo.jpg"),
        (("a dog", "--paths", "--json"), "one of --json and --paths"),
        (("a dog", "-0"), "-0 needs --paths"),
        (("a dog", "--taken-from", "soon"), "2024-07-31"),
        (("a dog", "--preview"), "shows no pictures"),
        (("--common", "absent.jpg"), "no picture absent.jpg"),
    ],
)
def test_search_with_options_that_conflict_is_one_error_line(
    collection: Path, arguments: tuple[str, ...], words: str
) -> None:
    failed = hasse("search", *arguments, "--library", collection)
    assert failed.status == 1
    assert words in failed.error


@pytest.mark.parametrize("question", ["--all-of", "--common"])
def test_search_by_parts_with_unknown_words_names_them(collection: Path, question: str) -> None:
    parts = (question, "a zeppelin", question, "a dog")
    assert "zeppelin" in hasse("search", *parts, "--library", collection).err


def test_entails_prints_the_answer_of_the_service(collection: Path, client: Client) -> None:
    found = hasse("entails", "1004", "a dog runs", "--library", collection, "--json")
    assert found.status == 0, found.err
    served = client.post("/entails", json={"premise": 1004, "hypothesis": "a dog runs"}).json()
    assert json.loads(found.out) == served
    said = hasse("entails", "a dog", "a dog", "--library", collection).out
    assert said == "it follows: 80 % likely\n"
    said = hasse("entails", "1004", "zorp", "--library", collection).out
    assert "the model knows no word of a caption" in said


def test_entails_with_hypothesis_that_is_not_utf8_is_refused(collection: Path) -> None:
    failed = hasse("entails", "1004", "a d\udce9g", "--library", collection)
    assert failed.status == 1
    assert "not text in UTF-8" in failed.error
