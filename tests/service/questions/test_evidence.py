"""One search by what pictures show and by what is said about them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

from hasse.index.segments.change import Change
from hasse.index.store import Index
from hasse.index.types import CaptionRow, Metadata, PathRow
from hasse.service.app import create_app
from hasse.service.questions.answers import ImageAnswer
from hasse.service.settings import Settings
from tests.service.client import Client
from tests.service.collection import IMAGES, make_collection
from tests.service.problems import problem

METADATA = {
    1001: Metadata((("description", "Grandmother's birthday"),), "Canon EOS 5D", 5),
    1002: Metadata((("title", "Sunset"), ("keyword", "Ostsee"))),
    1004: Metadata((), "", None, 48.8584, 2.2945),
}
FOLDER = "/home/x/Paris weekend"


@pytest.fixture(scope="module")
def said(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Client]:
    """A service over pictures with a pet's name, metadata, a folder and a place."""
    folder = make_collection(tmp_path_factory.mktemp("said"))
    with Index.open(folder, threads=1) as index:
        dimension = index.model.dimension
        captions = [CaptionRow(5, 1000, "our cat Felix"), CaptionRow(6, 1005, "a dog", "a model")]
        points = np.full((2, dimension), 0.1, np.float32)
        paths = {1003: [PathRow(1003, f"{FOLDER}/IMG_2033.jpg", FOLDER)]}
        index.change(
            Change(
                captions=captions,
                caption_points=points,
                paths=paths,
                metadata=METADATA,
                texts={"text in the picture": {1006: ["TOTAL 12,50 EUR", "Thank you"]}},
            )
        )
    with Client(create_app(Settings(library=folder, device="cpu", deadline_seconds=60))) as client:
        yield client


def search(client: Client, caption: str, **options: Any) -> ImageAnswer:
    response = client.post("/search/images", json={"caption": caption, **options})
    assert response.status_code == 200, response.text
    return ImageAnswer.model_validate_json(response.content, strict=True)


@pytest.mark.parametrize(
    ("query", "image", "where", "text"),
    [
        ("our cat Felix", 1000, "caption", "our cat Felix"),
        ("grandmother's birthday", 1001, "description", "Grandmother's birthday"),
        ("ostsee", 1002, "keyword", "Ostsee"),
        ("Paris", 1003, "folder", "Paris weekend"),
        ("IMG_2033", 1003, "file name", "IMG_2033.jpg"),
        ("total 12,50 EUR", 1006, "text in the picture", "TOTAL 12,50 EUR"),
        ("our cat Felxi", 1000, "caption", "our cat Felix"),
        ("a photo of Felix in the park", 1000, "caption", "our cat Felix"),
        ("canon", 1001, None, None),
    ],
)
def test_picture_that_says_the_words_comes_first_with_where(
    said: Client, query: str, image: int, where: str | None, text: str | None
) -> None:
    if where is None:
        (hit,) = search(said, "a dog", camera=query).hits
        assert hit.image_id == image
        return
    answer = search(said, query, k=5)
    assert answer.hits[0].image_id == image
    assert [(one.where, one.text) for one in answer.hits[0].says] == [(where, text)]
    assert [hit.rank for hit in answer.hits] == list(range(1, len(answer.hits) + 1))


def test_place_is_found_by_its_distance(said: Client) -> None:
    (hit,) = search(said, "a dog", near="48.86,2.30,2").hits
    assert hit.image_id == 1004
    assert search(said, "a dog", near="48.86,2.30,0.1").hits == []
    assert {hit.image_id for hit in search(said, "a dog", has_place=True).hits} == {1004}


def test_excluded_word_leaves_out_what_says_it(said: Client) -> None:
    everything = {hit.image_id for hit in search(said, "a cat", k=50).hits}
    for query in ("a cat -felix", "a cat without Felix"):
        assert {hit.image_id for hit in search(said, query, k=50).hits} == everything - {1000}


def test_quoted_text_is_said_as_it_stands(said: Client) -> None:
    assert [hit.image_id for hit in search(said, '"cat Felix"').hits] == [1000]
    assert search(said, '"Felix cat"').hits == []


def test_misspelt_word_is_corrected_and_named(said: Client) -> None:
    answer = search(said, "a cat felxi")
    assert answer.did_you_mean == "a cat felix"
    assert answer.unknown_words == ["felxi"]
    assert search(said, "a cat felix").did_you_mean is None
    assert search(said, "a cat felix").unknown_words == []


def test_evidence_shows_is_the_search_by_pictures_alone(said: Client) -> None:
    answer = search(said, "a cat felix", evidence="shows", k=IMAGES)
    violations = [hit.violation or 0 for hit in answer.hits]
    assert violations == sorted(violations)
    assert not any(hit.says for hit in answer.hits)
    assert answer.unknown_words == ["felix"]


def test_evidence_says_finds_only_what_is_said(said: Client) -> None:
    answer = search(said, "cat", evidence="says", k=50)
    assert 1000 in {hit.image_id for hit in answer.hits}
    assert len(answer.hits) < IMAGES
    assert all(hit.says and hit.violation is None and hit.shows is None for hit in answer.hits)


def test_words_that_nobody_knows_or_says_find_nothing(said: Client) -> None:
    answer = search(said, "zorp florbles")
    assert answer.hits == []
    assert answer.unknown_words == ["zorp", "florbles"]
    assert search(said, "a zorp").hits == []  # which every picture shows, by "a" alone


def test_hits_that_say_all_words_come_before_others_each_by_violation(said: Client) -> None:
    hits = search(said, "a dog", k=IMAGES).hits
    assert {hit.image_id for hit in hits} == set(range(1000, 1000 + IMAGES))
    says = [hit for hit in hits if any(one.where == "caption" for one in hit.says)]
    assert 0 < len(says) < IMAGES
    assert hits[: len(says)] == says
    violations = [hit.violation or 0 for hit in says]
    assert violations == sorted(violations)
    alone = {hit.image_id: hit for hit in search(said, "a dog", evidence="shows", k=IMAGES).hits}
    assert all(hit.violation == alone[hit.image_id].violation for hit in hits)
    assert all(hit.probability == alone[hit.image_id].probability for hit in hits)


def test_pages_of_hits_follow_each_other(said: Client) -> None:
    whole = [hit.image_id for hit in search(said, "a dog", k=IMAGES).hits]
    pages = [search(said, "a dog", k=4, offset=at) for at in (0, 4, 8)]
    assert {hit.image_id for page in pages for hit in page.hits} == set(whole)
    assert [hit.rank for hit in pages[1].hits] == [5, 6, 7, 8]


@pytest.mark.parametrize(
    "query", ["felix*", "fel_x", "fel%", "NEAR(felix cat)", 'felix"', "people : felix"]
)
def test_operators_and_wildcards_are_text(said: Client, query: str) -> None:
    answer = search(said, query, evidence="says")
    assert [hit.image_id for hit in answer.hits] in ([1000], [])


@pytest.mark.parametrize(
    ("body", "field"),
    [
        ({"caption": "-dog"}, "caption"),
        ({"caption": "🐕"}, "caption"),
        ({"caption": "%"}, "caption"),
        ({"caption": "felix " * 10_000}, "caption"),
        ({"caption": "a dog", "near": "91,0,1"}, "near"),
        ({"caption": "a dog", "near": "here"}, "near"),
        ({"caption": "a dog", "rating": 6}, "rating"),
        ({"caption": "a dog", "evidence": "both"}, "evidence"),
    ],
)
def test_query_out_of_bounds_is_refused(said: Client, body: dict[str, Any], field: str) -> None:
    found = problem(said.post("/search/images", json=body), 422, "invalid")
    assert found.errors[0].field == field


def test_query_of_64_kilobytes_is_not_read(said: Client) -> None:
    body = {"caption": "felix " * 11_000}
    problem(said.post("/search/images", json=body), 413, "body_too_large")
