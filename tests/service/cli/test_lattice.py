"""Searches by several parts, and `hasse check`: the same answers as over HTTP."""

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
        (("search", "--all-of", "a dog", "--all-of", photo), "all_of", {"all_of": ["a dog", 1003]}),
        (("lab captions", photo, "a cat"), "common", {"common": [1003, "a cat"]}),
        (
            ("like", "1003", "+", "a", "dog", "-", "a", "cat"),
            "like",
            {"like": 1003, "plus": ["a dog"], "minus": ["a cat"]},
        ),
    ):
        found = hasse(*arguments, "--library", collection, "-n", 4, "--json")
        assert found.status == 0, found.err
        served = client.post(f"/search/{path}", json={**body, "k": 4}).json()
        ids = [(hit["rank"], hit["image_id"]) for hit in json.loads(found.out)["hits"]]
        assert ids == [(hit["rank"], hit["image_id"]) for hit in served["hits"]]
        assert json.loads(found.out)["certified"]


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("search",), "say what the pictures show"),
        (("search", "a dog", "--all-of", "a cat"), "say what the pictures show"),
        (("search", *("--all-of", "a dog") * 17), "at most 16 parts"),
        (("search", "--all-of", "7"), "“7”"),
        (("search", "7", "--evidence", "shows"), "“7”"),
        (("search", "photo.jpg", "a", "dog"), "'hasse check photo.jpg WORDS'"),
        (("search", "a dog", "--paths", "--json"), "one of --json and --paths"),
        (("search", "a dog", "-0"), "-0 needs --paths"),
        (("search", "a dog", "--since", "soon"), "--since soon is no date: write it as 2024-07-31"),
        (("search", "a dog", "--preview"), "shows no pictures"),
        (("like", "1003", "snow"), "write + or - before 'snow'"),
        (("like", "7"), "no image with the id 7"),
        (("lab captions", "7"), "no image with the id 7"),
        (("lab captions", "absent.jpg"), "no picture absent.jpg"),
        (("check", "one.jpg", "another.jpg"), "name one picture"),
        (("check", "a poodle", "an", "animal"), "put two texts in quotes"),
        (("check", "a poodle", "an animal", "--where"), "a text has no places"),
        (("describe",), "give one of PICTURE and --all"),
    ],
)
def test_arguments_that_conflict_are_one_error_line(
    collection: Path, arguments: tuple[str, ...], words: str
) -> None:
    failed = hasse(*arguments, "--library", collection)
    assert failed.status == 1
    assert words in failed.error


@pytest.mark.parametrize("before", ["--all-of", None])
def test_search_by_parts_with_unknown_words_names_them(
    collection: Path, before: str | None
) -> None:
    words = [word for part in ("a zeppelin", "a dog") for word in (before, part) if word]
    command = "search" if before else "lab captions"
    assert "zeppelin" in hasse(command, *words, "--library", collection).err


def test_check_prints_the_answer_of_the_service(collection: Path, client: Client) -> None:
    found = hasse("check", "1004", "a dog runs", "--library", collection, "--json")
    assert found.status == 0, found.err
    served = client.post("/entails", json={"premise": 1004, "hypothesis": "a dog runs"}).json()
    # A command encodes one text without compiled kernels, which round otherwise.
    near = pytest.approx(served["violation"], abs=1e-6)
    assert json.loads(found.out) == served | {"violation": near}
    said = hasse("check", "a dog", "a dog", "--library", collection).out
    assert said == "it follows: 80 % likely\n"
    said = hasse("check", "1004", "a dog", "--where", "--library", collection).out
    assert "it names nothing that the model can point at here" in said
    said = hasse("check", "1004", "zorp", "--library", collection).out
    assert "the model knows no word of a caption" in said


def test_check_with_hypothesis_that_is_not_utf8_is_refused(collection: Path) -> None:
    failed = hasse("check", "1004", "a d\udce9g", "--library", collection)
    assert failed.status == 1
    assert "not text in UTF-8" in failed.error


def test_check_of_a_picture_needs_no_library_and_takes_unquoted_words(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HASSE_HOME", str(tmp_path))
    photo = tmp_path / "photo.png"
    picture(3).save(photo)
    found = hasse("check", photo, "a", "dog", "--json")
    assert found.status == 0, found.err
    answer = json.loads(found.out)
    assert (answer["model"], answer["unknown_words"]) == ("photographs", [])
    assert hasse("check", "a dog", photo, "--json").out == found.out
