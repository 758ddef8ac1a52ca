"""Searches by several parts, and for images like one with something replaced."""

from __future__ import annotations

from collections.abc import Collection
from pathlib import Path

import numpy as np
import pytest

from hasse.index.store import Index
from hasse.index.types import ImageRow
from hasse.lab.encoders.order_embedding import OrderEmbedding
from hasse.models.analogy import feedback_point, reword_captions, substitute
from hasse.models.embedding_model import Points
from hasse.service.app import create_app
from hasse.service.questions.answers import AllOfAnswer, CommonAnswer, ImageAnswer
from hasse.service.questions.like import expand_words
from hasse.service.questions.requests import K_MAXIMUM
from hasse.service.settings import Settings
from tests.oracle import pairwise_violation
from tests.service.calibrated import learn
from tests.service.client import Client
from tests.service.collection import CAPTIONS_EACH, IMAGES, make_collection, png


@pytest.mark.parametrize("mode", ["certified", "exact", "fast"])
def test_all_of_ranks_images_by_their_worst_part(
    client: Client, model: OrderEmbedding, images: Points, mode: str
) -> None:
    parts = ["a dog runs", "a red animal", 1003]
    response = client.post("/search/all_of", json={"all_of": parts, "k": 5, "mode": mode})
    assert response.status_code == 200, response.text
    answer = AllOfAnswer.model_validate_json(response.content)
    points = np.vstack([model.encode_captions(["a dog runs", "a red animal"]), images[3:4]])
    each = pairwise_violation(images, points)
    order = np.lexsort((np.arange(IMAGES), each.max(1).astype(np.float32)))[:5]
    assert [hit.image_id for hit in answer.hits] == [1000 + at for at in order]
    for hit, at in zip(answer.hits, order, strict=True):
        assert hit.violation == max(hit.parts)
        assert np.allclose(hit.parts, each[at], atol=1e-5)
        assert len(hit.captions) == CAPTIONS_EACH
    assert answer.certified
    assert answer.searched == IMAGES
    assert answer.unknown_words == []


def test_all_of_names_each_unknown_word_once(client: Client) -> None:
    found = client.post("/search/all_of", json={"all_of": ["a qux", "a zorp dog", "a qux cat"]})
    assert found.json()["unknown_words"] == ["qux", "zorp"]


def test_all_of_one_caption_equals_the_search_by_it(client: Client) -> None:
    asked = {"caption": "a dog", "k": 7, "evidence": "shows"}
    alone = client.post("/search/images", json=asked).json()
    whole = client.post("/search/all_of", json={"all_of": ["a dog"], "k": 7}).json()
    assert [hit["violation"] for hit in whole["hits"]] == [h["violation"] for h in alone["hits"]]
    assert [hit["image_id"] for hit in whole["hits"]] == [h["image_id"] for h in alone["hits"]]


def test_common_ranks_captions_by_their_worst_part(
    client: Client, model: OrderEmbedding, images: Points
) -> None:
    body = {"common": [1002, "a dog zorps", 1007], "k": 6, "distinct": False}
    response = client.post("/search/common", json=body)
    answer = CommonAnswer.model_validate_json(response.content)
    points = np.vstack([images[2:3], model.encode_captions(["a dog zorps"]), images[7:8]])
    captions = model.encode_captions([hit.caption for hit in answer.hits])
    each = pairwise_violation(points, captions).T
    assert np.allclose([hit.parts for hit in answer.hits], each, atol=1e-5)
    ranked = [(hit.violation, hit.caption_id) for hit in answer.hits]
    assert ranked == sorted(ranked)
    assert [hit.violation for hit in answer.hits] == [max(hit.parts) for hit in answer.hits]
    assert answer.searched == IMAGES * CAPTIONS_EACH
    assert answer.unknown_words == ["zorps"]


def test_uploaded_part_gives_the_hits_of_the_stored_image(client: Client) -> None:
    for path, fields, body in (
        (
            "all_of",
            {"all_of": ["a dog", "a red animal"]},
            {"all_of": [1003, "a dog", "a red animal"]},
        ),
        ("all_of", {}, {"all_of": [1003]}),
        ("common", {"common": ["a cat"]}, {"common": [1003, "a cat"]}),
        (
            "like",
            {"plus": ["a dog"], "minus": ["a cat"]},
            {"like": 1003, "plus": ["a dog"], "minus": ["a cat"]},
        ),
    ):
        url = f"/search/{path}"
        sent = client.post(url, files={"image": png(3)}, data={**fields, "k": "5"})
        assert sent.status_code == 200, sent.text
        stored = client.post(url, json={**body, "k": 5}).json()["hits"]
        found = [hit["violation"] for hit in sent.json()["hits"] if hit["image_id"] != 1003]
        expected = [hit["violation"] for hit in stored if hit["image_id"] != 1003]
        count = min(len(found), len(expected))
        assert count >= 3
        for ours, theirs in zip(sent.json()["hits"], stored, strict=True):
            assert ours.get("parts") == pytest.approx(theirs.get("parts"), abs=1e-5)
        assert found[:count] == pytest.approx(expected[:count], abs=1e-5)


def test_all_of_supports_selection_paging_and_max_violation(client: Client) -> None:
    body = {"all_of": ["a dog", "a cat"], "k": 4, "image_ids": list(range(1000, 1006))}
    first = client.post("/search/all_of", json=body).json()
    rest = client.post("/search/all_of", json={**body, "offset": 4}).json()
    found = [hit["image_id"] for hit in first["hits"] + rest["hits"]]
    assert sorted(found) == list(range(1000, 1006))
    assert [hit["rank"] for hit in rest["hits"]] == [5, 6]
    assert first["searched"] == 6
    limit = first["hits"][1]["violation"]
    near = client.post("/search/all_of", json={**body, "max_violation": limit}).json()
    assert near["hits"] == first["hits"][:2]


def test_like_leaves_out_the_image_it_starts_from(client: Client) -> None:
    body = {"like": 1004, "plus": ["a dog"], "minus": ["a cat"], "k": IMAGES}
    answer = ImageAnswer.model_validate_json(client.post("/search/like", json=body).content)
    found = [hit.image_id for hit in answer.hits]
    assert sorted(found) == [n for n in range(1000, 1000 + IMAGES) if n != 1004]
    assert [hit.rank for hit in answer.hits] == list(range(1, IMAGES))
    assert answer.certified
    # How likely an exchange is true, nobody measured.
    assert {hit.probability for hit in answer.hits} == {None}
    pages = [client.post("/search/like", json=body | {"k": 4, "offset": at}) for at in (0, 4, 8)]
    assert [hit["image_id"] for page in pages for hit in page.json()["hits"]] == found
    # Nothing is more like it than itself, and as many as are wanted are found beside it.
    body = {"like": 1004, "plus": [1004], "k": 3}
    hits = client.post("/search/like", json=body).json()["hits"]
    assert [hit["rank"] for hit in hits] == [1, 2, 3]
    assert 1004 not in {hit["image_id"] for hit in hits}


def test_like_returns_as_many_hits_as_the_maximum(tmp_path: Path, images: Points) -> None:
    folder = make_collection(tmp_path)
    with Index.open(folder, threads=1) as index:
        rows = [ImageRow(at, f"{at}.png", f"{at}.png") for at in range(K_MAXIMUM)]
        index.add(rows, images[np.arange(K_MAXIMUM) % IMAGES])
    with Client(create_app(Settings(library=folder, device="cpu"))) as client:
        body = {"like": 7, "plus": [7], "k": K_MAXIMUM}
        found = client.post("/search/like", json=body).json()["hits"]
        assert [hit["rank"] for hit in found] == list(range(1, K_MAXIMUM + 1))
        assert 7 not in {hit["image_id"] for hit in found}
        body |= {"k": 5, "offset": K_MAXIMUM - 1}
        ranks = list(range(K_MAXIMUM, K_MAXIMUM + 5))
        beyond = client.post("/search/like", json=body).json()["hits"]
        assert beyond[0] == found[-1]
        assert [hit["rank"] for hit in beyond] == ranks
        ids = {hit["image_id"] for hit in (*found, *beyond)}
        assert len(ids) == K_MAXIMUM + 4
        assert 7 not in ids
        said = client.post("/search/like", json=body | {"like": "a dog"}).json()
        assert [hit["rank"] for hit in said["hits"]] == ranks


def test_like_without_minus_ranks_by_the_join(
    client: Client, model: OrderEmbedding, images: Points
) -> None:
    body = {"like": "a dog", "plus": ["a red animal", 1001], "k": 3, "mode": "exact"}
    answer = client.post("/search/like", json=body).json()
    points = np.vstack([model.encode_captions(["a dog", "a red animal"]), images[1:2]])
    expected = pairwise_violation(images, points.max(0)[None])[:, 0]
    assert [hit["image_id"] for hit in answer["hits"]] == [
        1000 + at for at in np.argsort(expected)[:3]
    ]


@pytest.mark.parametrize("minus", [[], ["a dog"]])
def test_like_without_plus_ranks_by_the_distance_from_a_middle(
    client: Client, model: OrderEmbedding, images: Points, minus: list[str]
) -> None:
    body = {"like": 1001, "also": [1001, 1002], "less": [1003], "minus": minus, "k": 3}
    hits = client.post("/search/like", json=body).json()["hits"]
    point = feedback_point("order", images[[1, 1, 2]], images[[3]])
    if minus:
        point = (point - model.encode_captions(minus)[0]).clip(0)
    distances = ((images - point) ** 2).sum(1)
    distances[[1, 2, 3]] = np.inf
    assert [hit["image_id"] - 1000 for hit in hits] == np.argsort(distances)[:3].tolist()
    assert [hit["violation"] for hit in hits] == pytest.approx(np.sort(distances)[:3], rel=1e-4)


@pytest.mark.parametrize(
    ("minus", "threshold", "old"),
    [
        ("dog", 2.0, "a dog runs"),
        ("dog", 0.0, "dog"),
        ("dog", None, "dog"),
        ("red qux", 2.0, "red qux"),
    ],
)
def test_like_replaces_a_word_in_captions_true_of_the_start(
    calibrated: Client,
    model: OrderEmbedding,
    images: Points,
    monkeypatch: pytest.MonkeyPatch,
    minus: str,
    threshold: float | None,
    old: str,
) -> None:
    learn(calibrated, monkeypatch, threshold)
    body = {"like": "a person", "plus": ["cat"], "minus": [minus], "k": 4}
    answer = ImageAnswer.model_validate_json(calibrated.post("/search/like", json=body).content)
    captions = ["a person", old.replace(minus, "cat"), old]
    like, new, gone = model.encode_captions(captions)
    point = substitute("order", like, new[None], gone[None])
    expected = np.sort(pairwise_violation(images, point[None])[:, 0])[:4]
    assert [hit.violation for hit in answer.hits] == pytest.approx(expected, abs=1e-5)
    assert answer.certified
    assert answer.unknown_words == (["qux"] if minus == "red qux" else [])


def test_like_replaces_each_of_several_words(
    calibrated: Client, model: OrderEmbedding, images: Points, monkeypatch: pytest.MonkeyPatch
) -> None:
    learn(calibrated, monkeypatch, 2.0)
    body = {"like": "a person", "plus": ["cat", "child"], "minus": ["dog", "red"], "k": 4}
    hits = calibrated.post("/search/like", json=body).json()["hits"]
    put = [f"a {new}{rest} runs" for new in ("cat", "child") for rest in ("", " animal")]
    points = model.encode_captions(["a person", *put, "a dog runs", "a red animal runs"])
    point = substitute("order", points[0], points[1:5], points[5:])
    expected = np.sort(pairwise_violation(images, point[None])[:, 0])[:4]
    assert [hit["violation"] for hit in hits] == pytest.approx(expected, abs=1e-5)


def test_expand_words_filters_the_captions_once_per_old_word() -> None:
    looked: list[tuple[str, int]] = []

    def counting(captions: Collection[str], minus: str, plus: str) -> dict[str, str]:
        looked.append((minus, len(captions)))
        return reword_captions(captions, minus, plus)

    captions = ["a dog runs", "a red dog", "a red ball", "a cat"]
    put, taken = expand_words(captions, ["cat", "child", "park"], ["dog", "red"], counting)
    assert [minus for minus, count in looked if count == len(captions)] == ["dog", "red"]
    assert set(taken) == {"a dog runs", "a red dog", "a red ball"}
    assert "a cat runs" in put


def test_all_of_contradicting_parts_gives_the_violation_of_each(client: Client) -> None:
    answer = client.post("/search/all_of", json={"all_of": ["a dog", "a blue park"]}).json()
    assert all(len(hit["parts"]) == 2 for hit in answer["hits"])
