"""One search by what pictures show and by what is said about them."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

from hasse.index.catalog.text_search import TextMatches
from hasse.index.segments.change import Change
from hasse.index.store import Index
from hasse.index.types import CaptionRow, Metadata, PathRow
from hasse.service.app import create_app
from hasse.service.questions.answers import ImageAnswer
from hasse.service.questions.evidence import Shown, merge
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
def service(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Client]:
    """A service over pictures with a pet's name, metadata, a folder and a place."""
    folder = make_collection(tmp_path_factory.mktemp("evidence"))
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


@pytest.mark.parametrize(
    ("matches", "shown", "hits"),
    [
        pytest.param({}, None, [], id="nothing"),
        pytest.param({}, ([1, 2], {}), [(1, 0.0, False), (2, 0.1, False)], id="shown alone"),
        pytest.param(
            {"all_words": (3, 2), "unknown_words": (5,), "partial": (4,)},
            None,
            [(3, None, True), (2, None, True), (5, None, True), (4, None, True)],
            id="said alone, in the order of the texts",
        ),
        pytest.param(
            {"all_words": (3, 2)},
            ([1, 2], {3: 0.5}),
            [(2, 0.1, True), (3, 0.5, True), (1, 0.0, False)],
            id="all words first, by violation",
        ),
        pytest.param(
            {"all_words": (3,), "unknown_words": (4, 2)},
            ([1, 2], {3: 0.9, 4: 0.2}),
            [(3, 0.9, True), (2, 0.1, True), (4, 0.2, True), (1, 0.0, False)],
            id="then all words that the model does not know",
        ),
        pytest.param(
            {"partial": (4, 2)},
            ([1, 2, 3], {4: 0.7}),
            [(2, 0.1, True), (1, 0.0, False), (4, 0.7, True), (3, 0.2, False)],
            id="the others fused by rank; of equal ranks what is shown first",
        ),
        pytest.param(
            {"all_words": (6,), "partial": (7, 2)},
            ([1, 2], {}),
            [(2, 0.1, True), (1, 0.0, False)],
            id="without a violation no hit",
        ),
        pytest.param(
            {"all_words": (2,), "partial": (2,)},
            ([1, 2], {}),
            [(2, 0.1, True), (1, 0.0, False)],
            id="each once",
        ),
    ],
)
def test_merge_of_both_kinds_orders_hits(
    matches: dict[str, Any],
    shown: tuple[list[int], dict[int, float]] | None,
    hits: list[tuple[int, float | None, bool]],
) -> None:
    content = None
    if shown is not None:
        ids, others = shown
        content = Shown({id_: at / 10 for at, id_ in enumerate(ids)}, others)
    assert merge(TextMatches(**matches), content) == hits
    everything_says = merge(TextMatches(**matches), content, all_say=True)
    assert everything_says == [(id_, violation, True) for id_, violation, _ in hits]


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
        ("a photo of Felix in the park", 1000, "caption", "our cat Felix"),
        ("canon", 1001, None, None),
    ],
)
def test_search_for_words_of_a_text_puts_its_picture_first_with_where(
    service: Client, query: str, image: int, where: str | None, text: str | None
) -> None:
    if where is None:
        (hit,) = search(service, "a dog", camera=query).hits
        assert hit.image_id == image
        return
    answer = search(service, query, k=5)
    assert answer.hits[0].image_id == image
    assert [(match.where, match.text) for match in answer.hits[0].says] == [(where, text)]
    assert [hit.rank for hit in answer.hits] == list(range(1, len(answer.hits) + 1))


def test_near_selects_pictures_by_their_distance(service: Client) -> None:
    (hit,) = search(service, "a dog", near="48.86,2.30,2").hits
    assert hit.image_id == 1004
    assert search(service, "a dog", near="48.86,2.30,0.1").hits == []
    assert {hit.image_id for hit in search(service, "a dog", has_place=True).hits} == {1004}


def test_excluded_word_removes_pictures_that_say_it(service: Client) -> None:
    everything = {hit.image_id for hit in search(service, "a cat", k=50).hits}
    for query in ("a cat -felix", "a cat without Felix"):
        assert {hit.image_id for hit in search(service, query, k=50).hits} == everything - {1000}


def test_quoted_text_selects_pictures_that_say_it_in_that_order(service: Client) -> None:
    assert [hit.image_id for hit in search(service, '"cat Felix"').hits] == [1000]
    assert search(service, '"Felix cat"').hits == []


def test_misspelt_word_is_unknown_and_gets_a_suggestion(service: Client) -> None:
    answer = search(service, "a cat felxi")
    assert answer.did_you_mean == "a cat felix"
    assert answer.unknown_words == ["felxi"]
    assert search(service, "a cat felix").did_you_mean is None
    assert search(service, "a cat felix").unknown_words == []


@pytest.mark.parametrize(
    ("query", "suggestion"),
    [
        ("a cat felxi, sleeping", "a cat felix, sleeping"),
        ('a peson -felix "cat Felix"', 'a person -felix "cat Felix"'),
        ("Felxi and a chlid", "felix and a child"),
        ("a dog runs", None),
        ("12,50 zq", None),
    ],
)
def test_suggestion_has_words_of_texts_and_of_the_model_and_keeps_the_rest(
    service: Client, query: str, suggestion: str | None
) -> None:
    assert search(service, query).did_you_mean == suggestion


def test_text_that_only_resembles_a_word_follows_what_shows_the_others(service: Client) -> None:
    answer = search(service, "our cat Felxi", k=IMAGES)
    (found,) = [hit for hit in answer.hits if hit.image_id == 1000]
    assert found.says[0].text == "our cat Felix"
    assert search(service, "Felxi").hits[0].image_id == 1000


@pytest.mark.parametrize("query", ["-felix", "without Felix", "excluding Felix"])
def test_query_of_exclusions_alone_finds_all_other_pictures(service: Client, query: str) -> None:
    hits = search(service, query, k=50).hits
    assert {hit.image_id for hit in hits} <= set(range(1001, 1000 + IMAGES))
    assert len(hits) > 1
    assert not any(hit.says for hit in hits)


def test_excluded_word_removes_pictures_that_say_its_kinds_and_forms(service: Client) -> None:
    for query in ("-people", "no persons", "-person"):
        hits = search(service, f"a park {query}", k=50).hits
        captions = " ".join(caption for hit in hits for caption in hit.captions)
        assert not {"person", "people", "child"} & set(captions.split())


@pytest.mark.parametrize(
    "query",
    [
        "a dog",
        "a dgo in teh paark wiht felxi",
        "ostsee sunsset canom weekendd birthdaj -people without a cat",
        '"cat Felix" sleping on a soffa',
        " ".join(f"wrod{at} felxi{at}" for at in range(30)),
        "no people",
    ],
)
def test_question_has_at_most_twelve_statements(service: Client, query: str) -> None:
    for evidence in ("any", "says"):
        sent = service.post("/search/images", json={"caption": query, "evidence": evidence})
        statements = re.search(r'statements;desc="(\d+)"', sent.headers["Server-Timing"])
        assert statements is not None
        assert 0 < int(statements[1]) <= 12


def test_words_of_a_text_with_signs_are_not_unknown(service: Client) -> None:
    for query in ("12,50", "IMG_2033.jpg", "total 12,50 EUR"):
        assert search(service, query).unknown_words == []


def test_evidence_shows_ranks_by_violation_alone(service: Client) -> None:
    answer = search(service, "a cat felix", evidence="shows", k=IMAGES)
    violations = [hit.violation or 0 for hit in answer.hits]
    assert violations == sorted(violations)
    assert not any(hit.says for hit in answer.hits)
    assert answer.unknown_words == ["felix"]


def test_evidence_says_returns_only_matching_texts_without_violations(service: Client) -> None:
    answer = search(service, "cat", evidence="says", k=50)
    assert 1000 in {hit.image_id for hit in answer.hits}
    assert len(answer.hits) < IMAGES
    assert all(hit.says and hit.violation is None and hit.shows is None for hit in answer.hits)


def test_words_neither_known_nor_in_texts_have_no_hits(service: Client) -> None:
    answer = search(service, "zorp florbles")
    assert answer.hits == []
    assert answer.unknown_words == ["zorp", "florbles"]
    assert search(service, "a zorp").hits == []  # which every picture shows, by "a" alone


def test_hits_with_all_words_precede_others_each_by_violation(service: Client) -> None:
    hits = search(service, "a dog", k=IMAGES).hits
    assert {hit.image_id for hit in hits} == set(range(1000, 1000 + IMAGES))
    says = [hit for hit in hits if any(match.where == "caption" for match in hit.says)]
    assert 0 < len(says) < IMAGES
    assert hits[: len(says)] == says
    violations = [hit.violation or 0 for hit in says]
    assert violations == sorted(violations)
    alone = {hit.image_id: hit for hit in search(service, "a dog", evidence="shows", k=IMAGES).hits}
    assert all(hit.violation == alone[hit.image_id].violation for hit in hits)
    assert all(hit.probability == alone[hit.image_id].probability for hit in hits)


def test_pages_together_are_the_whole_ranking(service: Client) -> None:
    whole = [hit.image_id for hit in search(service, "a dog", k=IMAGES).hits]
    pages = [search(service, "a dog", k=4, offset=at) for at in (0, 4, 8)]
    assert {hit.image_id for page in pages for hit in page.hits} == set(whole)
    assert [hit.rank for hit in pages[1].hits] == [5, 6, 7, 8]


@pytest.mark.parametrize(
    "query", ["felix*", "fel_x", "fel%", "NEAR(felix cat)", 'felix"', "people : felix"]
)
def test_operators_and_wildcards_match_as_text(service: Client, query: str) -> None:
    answer = search(service, query, evidence="says")
    assert [hit.image_id for hit in answer.hits] in ([1000], [])


@pytest.mark.parametrize(
    ("body", "field"),
    [
        ({"caption": "-dog", "evidence": "shows"}, "caption"),
        ({"caption": '"felix"', "evidence": "shows"}, "caption"),
        ({"caption": "🐕"}, "caption"),
        ({"caption": "%"}, "caption"),
        ({"caption": "felix " * 10_000}, "caption"),
        ({"caption": "a dog", "near": "91,0,1"}, "near"),
        ({"caption": "a dog", "near": "here"}, "near"),
        ({"caption": "a dog", "rating": 6}, "rating"),
        ({"caption": "a dog", "evidence": "both"}, "evidence"),
    ],
)
def test_query_out_of_bounds_is_refused(service: Client, body: dict[str, Any], field: str) -> None:
    refusal = problem(service.post("/search/images", json=body), 422, "invalid")
    assert refusal.errors[0].field == field


def test_query_of_64_kilobytes_is_refused_unread(service: Client) -> None:
    body = {"caption": "felix " * 11_000}
    problem(service.post("/search/images", json=body), 413, "body_too_large")
