"""The two questions, asked as a client asks them."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from hasse.index.search.query import Answer, Query
from hasse.index.store import Index
from hasse.index.types import Points
from hasse.models.calibration import Calibration
from hasse.models.checkpoints import checkpoint
from hasse.models.images.decoding import open_picture
from hasse.service.core.searching import batch_limit
from hasse.service.questions.answers import CaptionAnswer, ImageAnswer
from hasse.service.questions.handlers import ask
from hasse.service.questions.requests import CaptionQuery
from hasse.service.questions.table import SEARCH_CAPTIONS
from hasse.service.telemetry.stages import STAGES
from tests.oracle import pairwise_violation
from tests.service.client import Client
from tests.service.collection import CAPTIONS_EACH, IMAGES, picture, png
from tests.service.problems import problem
from tests.tiny import CALIBRATION


@pytest.mark.parametrize("mode", ["certified", "exact", "fast"])
def test_images_come_in_the_order_of_their_true_violations(
    client: Client, collection: Path, mode: str
) -> None:
    asked = {"caption": "a dog runs", "k": 5, "mode": mode, "evidence": "shows"}
    response = client.post("/search/images", json=asked)
    assert response.status_code == 200
    answer = ImageAnswer.model_validate_json(response.content)
    model = checkpoint.load(collection.parent / "model").model
    images = model.encode_images([picture(at) for at in range(IMAGES)])
    expected = pairwise_violation(images, model.encode_captions(["a dog runs"]))[:, 0]
    order = np.lexsort((np.arange(IMAGES), expected.astype(np.float32)))[:5]
    assert [hit.image_id for hit in answer.hits] == [1000 + at for at in order]
    assert [hit.rank for hit in answer.hits] == [1, 2, 3, 4, 5]
    assert np.allclose([hit.violation or 0 for hit in answer.hits], expected[order], atol=1e-5)
    told = CALIBRATION.image
    assert isinstance(told, Calibration)
    assert np.allclose(
        [hit.probability or 0 for hit in answer.hits], told.probability(expected[order]), atol=1e-4
    )
    for hit in answer.hits:  # in as few digits as tell it
        assert str(hit.violation) == str(np.float32(hit.violation))
    assert answer.mode == mode
    assert answer.searched == IMAGES
    assert answer.model == "tiny"
    assert answer.unknown_words == []


@pytest.mark.parametrize("caption", ["a dog runs", "a dog zzz", "cat \N{DOG FACE} \u2028<é>"])
def test_answer_has_the_schema_of_the_openapi_document(client: Client, caption: str) -> None:
    body = client.post("/search/images", json={"caption": caption}).content
    assert ImageAnswer.model_validate_json(body, strict=True).model_dump_json().encode() == body


@pytest.mark.parametrize("certified", [True, False])
def test_answer_says_what_the_index_says_of_its_search(
    client: Client, monkeypatch: pytest.MonkeyPatch, *, certified: bool
) -> None:
    index: Index = client.engine.index
    search = index.search_batch
    told: list[Answer] = []

    def searched(query: Query, points: Points) -> list[Answer]:
        assert query.candidates == 3
        found = search(query, points)
        told.extend(replace(one, certified=certified, rescored=7) for one in found)
        return told

    monkeypatch.setattr(index, "search_batch", searched)
    asked = {"caption": "a dog", "k": 2, "mode": "fast", "candidates": 3, "evidence": "shows"}
    answer = client.post("/search/images", json=asked).json()
    assert answer["certified"] is certified
    assert (answer["rescored"], answer["searched"]) == (7, IMAGES)
    assert answer["plan"] == told[0].plan != ""
    assert answer["work"] == told[0].work._asdict()


def test_whole_number_may_be_written_with_a_point(client: Client) -> None:
    body = '{"caption": "a dog", "k": 7.0, "max_violation": 1}'
    headers = {"Content-Type": "application/json"}
    assert len(client.post("/search/images", content=body, headers=headers).json()["hits"]) == 7


def test_id_written_with_a_point_is_that_id(client: Client) -> None:
    body = '{"like": 9007199254740993.0, "plus": ["a dog"]}'
    headers = {"Content-Type": "application/json"}
    response = client.post("/search/like", content=body, headers=headers)
    assert "the id 9007199254740993" in problem(response, 404, "not_found").detail


def test_hits_carry_the_captions_and_addresses_of_their_image(client: Client) -> None:
    (hit,) = client.post("/search/images", json={"caption": "a dog", "k": 1}).json()["hits"]
    assert len(hit["captions"]) == CAPTIONS_EACH
    assert hit["file_name"] == f"picture-{hit['image_id'] - 1000}.png"
    assert client.get(hit["image_url"]).headers["content-type"] == "image/png"
    assert client.get(hit["thumbnail_url"]).headers["content-type"] == "image/jpeg"


def test_captions_come_in_the_order_of_their_true_violations(
    client: Client, collection: Path
) -> None:
    response = client.post(
        "/search/captions",
        files={"image": ("mine.png", png(3), "image/png")},
        data={"k": "7", "mode": "exact", "distinct": "false"},
    )
    assert response.status_code == 200
    answer = CaptionAnswer.model_validate_json(response.content)
    model = checkpoint.load(collection.parent / "model").model
    point = model.encode_images([open_picture(png(3))])
    texts = [hit.caption for hit in answer.hits]
    assert np.allclose(
        [hit.violation for hit in answer.hits],
        pairwise_violation(point, model.encode_captions(texts))[0],
        atol=1e-5,
    )
    ranked = [(hit.violation, hit.caption_id) for hit in answer.hits]
    assert ranked == sorted(ranked)
    assert answer.searched == IMAGES * CAPTIONS_EACH


def test_violation_limit_leaves_out_what_exceeds_it(client: Client) -> None:
    asked = {"caption": "a dog", "k": 12, "evidence": "shows"}
    everything = client.post("/search/images", json=asked).json()["hits"]
    limit = everything[4]["violation"]
    kept = client.post("/search/images", json=asked | {"max_violation": limit}).json()["hits"]
    assert kept == [hit for hit in everything if hit["violation"] <= limit]
    far = asked | {"max_violation": 1e300}  # beyond any float32
    assert client.post("/search/images", json=far).json()["hits"] == everything


def test_words_the_model_never_learned_are_named_and_do_no_harm(client: Client) -> None:
    answer = client.post("/search/images", json={"caption": "a zorp florbles", "k": 3}).json()
    assert answer["unknown_words"] == ["zorp", "florbles"]


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("zorp florbles", "never seen the words “zorp” and “florbles”"),
        ("!!!", "there are none in “!!!”"),
        ("🐕", "there are none in “🐕”"),
    ],
)
def test_query_without_a_known_word_is_refused_and_says_so(
    client: Client, text: str, told: str
) -> None:
    for path, body, field in (
        ("/search/images", {"caption": text, "evidence": "shows"}, "caption"),
        ("/search/images/batch", {"captions": ["a dog", text]}, "captions.1"),
        ("/search/all_of", {"all_of": ["a dog", text]}, "all_of.1"),
        ("/search/common", {"common": [text, 1003]}, "common.0"),
        ("/search/like", {"like": 1003, "plus": [text]}, "plus"),
    ):
        found = problem(client.post(path, json=body), 422, "invalid")
        assert told in found.detail
        assert found.errors[0].field == field
    problem(client.get("/diagram", params={"caption": text}), 422, "invalid")


def test_server_timing_names_every_stage_of_each_kind_of_search(client: Client) -> None:
    words = client.post("/search/images", json={"caption": "a dog"}).headers["server-timing"]
    picture = client.post("/search/captions", files={"image": ("a.png", png(1))})
    assert picture.headers["cache-control"] == "no-store"
    for timing in (words, picture.headers["server-timing"]):
        stages = [part.split(";")[0] for part in timing.split(", ")]
        assert stages == [*STAGES, "statements"]
    assert "decode;dur=0.00," in words  # there was nothing to decode


def test_image_of_the_collection_can_be_asked_about(client: Client) -> None:

    answer = client.run(ask(client.engine, SEARCH_CAPTIONS, CaptionQuery(image=1003, k=7)))
    uploaded = client.post("/search/captions", files={"image": ("x", png(3))}, data={"k": "7"})
    assert [hit.caption_id for hit in answer.hits] == [
        hit["caption_id"] for hit in uploaded.json()["hits"]
    ]


@pytest.mark.parametrize(
    ("in_flight", "together"), [(1, 8), (16, 8), (17, 8), (32, 16), (64, 32), (128, 64), (999, 64)]
)
def test_half_of_the_searches_are_made_while_the_others_are_answered(
    in_flight: int, together: int
) -> None:
    assert batch_limit(64, in_flight) == together
    assert batch_limit(4, in_flight) == 4
