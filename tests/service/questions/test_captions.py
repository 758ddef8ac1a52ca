"""Searches by a picture, over HTTP and in a program's own process."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import hasse
from hasse.models.calibration import Calibration, Calibrations, further_words
from hasse.models.checkpoints import checkpoint
from hasse.service.errors import ServiceError
from hasse.service.questions.answers import ImageAnswer
from hasse.service.questions.handlers import ask
from hasse.service.questions.requests import SimilarQuery
from hasse.service.questions.table import SEARCH_SIMILAR
from tests.oracle import pairwise_violation
from tests.service.calibrated import calibrate
from tests.service.client import Client
from tests.service.collection import CAPTIONS_EACH, IMAGES, picture, png, without_paths
from tests.service.problems import problem


def test_search_images_by_an_upload_finds_what_is_like_it(client: Client, collection: Path) -> None:
    points = checkpoint.load(collection.parent / "model").model.encode_images(
        [picture(at) for at in range(IMAGES)]
    )
    lacks, has = (
        pairwise_violation(points, points[[3]])[:, 0],
        pairwise_violation(points[[3]], points)[0],
    )
    for similar, expected in (
        ("", lacks + has),
        ("alike", lacks + has),
        ("more_specific", lacks),
        ("more_general", has),
    ):
        form = {"k": "20", "similar": similar}
        response = client.post("/search/images", data=form, files={"image": ("a.png", png(3))})
        answer = ImageAnswer.model_validate_json(response.content)
        assert len(answer.hits) == answer.searched == IMAGES
        assert answer.certified
        found = {hit.image_id: hit.violation for hit in answer.hits if hit.violation is not None}
        assert list(found.values()) == sorted(found.values())
        for image_id, violation in found.items():
            assert np.isclose(violation, expected[image_id - 1000], atol=1e-5)
        assert {hit.probability for hit in answer.hits} == {None}
        assert found[1003] < 1e-6


def test_pages_of_similar_images_put_together_are_the_whole(client: Client) -> None:
    def page(offset: int, k: int) -> list[int]:
        answer = client.run(
            ask(
                client.engine,
                SEARCH_SIMILAR,
                SimilarQuery(image=1003, offset=offset, k=k),
            )
        )
        assert [hit.rank for hit in answer.hits] == [
            *range(offset + 1, offset + 1 + len(answer.hits))
        ]
        return [hit.image_id for hit in answer.hits]

    whole = page(0, 20)
    assert sorted(whole) == [at for at in range(1000, 1012) if at != 1003]
    assert page(0, 4) + page(4, 4) + page(8, 4) == whole


def test_similar_images_of_an_absent_image_are_not_found(client: Client) -> None:
    with pytest.raises(ServiceError, match="no image with the id 7"):
        client.run(ask(client.engine, SEARCH_SIMILAR, SimilarQuery(image=7)))


def test_search_images_with_an_unknown_relation_is_refused(client: Client) -> None:
    files = {"image": ("a.png", png(3))}
    response = client.post("/search/images", data={"similar": "same"}, files=files)
    assert problem(response, 422, "invalid").errors[0].field == "similar"


def test_local_index_finds_similar_images_as_the_service_does(
    client: Client, collection: Path
) -> None:
    form = {"k": "3", "similar": "more_general"}
    served = client.post("/search/images", data=form, files={"image": png(3)}).json()
    with hasse.open_index(collection, device="cpu") as index:
        found = index.search_similar(png(3), "more_general", k=3)
    assert without_paths(found.model_dump(mode="json")) == without_paths(served)


def asked(client: Client, **options: Any) -> dict[str, Any]:
    form = {name: str(value) for name, value in options.items()}
    response = client.post("/search/captions", data=form, files={"image": ("a.png", png(3))})
    assert response.status_code == 200, response.content
    answer: dict[str, Any] = response.json()
    return answer


def test_captions_that_read_the_same_are_one_hit(client: Client) -> None:
    every = asked(client, k=100, distinct="false")["hits"]
    answer = asked(client, k=100)
    texts = [hit["caption"] for hit in answer["hits"]]
    assert len(every) == IMAGES * CAPTIONS_EACH
    assert sorted(texts) == sorted({hit["caption"] for hit in every})
    assert answer["searched"] == len(texts)
    assert all(hit["same"] == [] for hit in every)
    for hit in answer["hits"]:
        told = [(hit["caption_id"], hit["image_id"])]
        told += [(same["caption_id"], same["image_id"]) for same in hit["same"]]
        assert told == sorted(
            (one["caption_id"], one["image_id"])
            for one in every
            if one["caption"] == hit["caption"]
        )
    assert asked(client, k=3)["hits"] + asked(client, k=3, offset=3)["hits"] == answer["hits"]


def test_common_captions_that_read_the_same_are_one_hit(client: Client) -> None:
    def texts(**options: Any) -> list[str]:
        body = {"common": [1003, 1004], "k": 24, **options}
        hits = client.post("/search/common", json=body).json()["hits"]
        return [hit["caption"] for hit in hits]

    assert len(texts()) == len(set(texts())) < len(texts(distinct=False)) == 24


def test_likely_captions_that_say_most_lead_and_the_others_follow_by_violation(
    client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    def saying(hit: dict[str, Any]) -> float:
        found: float = hit["violation"] - 0.02 * min(5, further_words(hit["caption"]))
        return found

    nearest = sorted(asked(client, k=100)["hits"], key=lambda hit: hit["violation"])
    limit = (nearest[2]["violation"] + nearest[3]["violation"]) / 2
    curve = Calibration((limit, limit + 1e-6), (0.9, 0.1), limit, pairs=2, true=1)
    calibrate(client, monkeypatch, Calibrations(image=curve))
    answer = asked(client, k=100)
    hits = answer["hits"]
    likely, others = hits[:3], hits[3:]
    assert [hit["probability"] for hit in hits] == [0.9] * 3 + [0.1] * 3
    assert [saying(hit) for hit in likely] == sorted(saying(hit) for hit in nearest[:3])
    assert others == sorted(others, key=lambda hit: hit["violation"])
    assert [hit["rank"] for hit in hits] == list(range(1, len(hits) + 1))
    assert answer["certified"]
    pages = [asked(client, k=2, offset=at)["hits"] for at in (0, 2, 4)]
    assert [hit for page in pages for hit in page] == hits


@pytest.mark.parametrize(
    "options",
    [
        {"distinct": "no"},
        {"prefer": "specific"},
        {"distinct": "yes", "k": "2"},
        {"written": "maybe"},
    ],
)
def test_captions_with_bad_options_are_refused(client: Client, options: dict[str, str]) -> None:
    response = client.post("/search/captions", data=options, files={"image": ("a.png", png(3))})
    field = next(iter(options))
    assert problem(response, 422, "invalid").errors[0].field == field


@pytest.mark.parametrize(("no", "yes"), [("false", "true"), ("False", "True"), ("0", "1")])
def test_captions_with_a_boolean_as_clients_write_it_are_answered(
    client: Client, no: str, yes: str
) -> None:
    def found(text: str) -> int:
        data = {"distinct": text, "k": "100"}
        response = client.post("/search/captions", data=data, files={"image": ("a.png", png(3))})
        return len(response.json()["hits"])

    assert found(no) > found(yes)


def test_image_searches_take_no_options_of_captions(client: Client) -> None:
    body = {"caption": "a dog", "distinct": False}
    problem(client.post("/search/images", json=body), 422, "invalid")
