"""Questions about several parts at once, and about what follows from what."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from index.store import Index
from index.types import ImageRow
from models.analogy import reworded, substitute
from models.checkpoints import checkpoint
from models.evaluation.calibration import Calibration, Calibrations
from models.model import OrderEmbedding, Points
from models.vocabulary import Vocabulary
from service.app import create_app
from service.core.engine import Engine
from service.lattice_schemas import (
    PAIRS_MAXIMUM,
    PARTS_MAXIMUM,
    AllOfAnswer,
    CommonAnswer,
    Entailment,
    Entailments,
    LikeForm,
)
from service.schemas import K_MAXIMUM, ImageAnswer
from service.settings import Settings
from tests.oracle import pairwise_violation
from tests.service.client import Client
from tests.service.collection import CAPTIONS_EACH, IMAGES, make_collection, picture, png
from tests.service.problems import problem
from tests.tiny import tiny_model


@pytest.fixture(scope="module")
def model(collection: Path) -> OrderEmbedding:
    return checkpoint.load(collection.parent / "model").model


@pytest.fixture(scope="module")
def images(model: OrderEmbedding) -> Points:
    return model.encode_images([picture(at) for at in range(IMAGES)])


def learn(client: Client, monkeypatch: pytest.MonkeyPatch, threshold: float | None) -> None:
    """Let a model call that true between captions which violates no more; None: nobody knows."""
    engine: Engine = client.engine
    known = engine.checkpoint.calibration
    assert known.caption is not None
    told = None if threshold is None else replace(known.caption, threshold=threshold)
    known = replace(known, caption=told)
    monkeypatch.setattr(engine, "checkpoint", replace(engine.checkpoint, calibration=known))


def detail(client: Client, path: str, body: object) -> str:
    response = client.post(path, json=body)
    assert response.status_code == 422, response.text
    return str(response.json()["detail"])


@pytest.mark.parametrize("mode", ["certified", "exact", "fast"])
def test_all_of_ranks_images_by_the_part_each_fits_worst(
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


def test_a_word_that_several_parts_share_is_named_once_where_it_is_unknown(client: Client) -> None:
    found = client.post("/search/all_of", json={"all_of": ["a qux", "a zorp dog", "a qux cat"]})
    assert found.json()["unknown_words"] == ["qux", "zorp"]


def test_all_of_one_caption_is_the_search_by_that_caption(client: Client) -> None:
    alone = client.post("/search/images", json={"caption": "a dog", "k": 7}).json()
    whole = client.post("/search/all_of", json={"all_of": ["a dog"], "k": 7}).json()
    assert [hit["violation"] for hit in whole["hits"]] == [h["violation"] for h in alone["hits"]]
    assert [hit["image_id"] for hit in whole["hits"]] == [h["image_id"] for h in alone["hits"]]


def test_common_ranks_captions_by_the_part_each_fits_worst(
    client: Client, model: OrderEmbedding, images: Points
) -> None:
    response = client.post("/search/common", json={"common": [1002, "a dog zorps", 1007], "k": 6})
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


def test_a_picture_of_ones_own_is_a_part_as_a_stored_one_is(client: Client) -> None:
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


def test_a_form_may_say_as_much_at_once_as_json(client: Client) -> None:
    data: dict[str, Any] = {
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
    }
    assert data.keys() | {"image"} == LikeForm.model_fields.keys()
    response = client.post("/search/like", files={"image": png(3)}, data=data)
    assert response.status_code == 200, response.text


@pytest.mark.parametrize(
    ("path", "fields", "words"),
    [
        ("like", {"plus": ["a"] * 17}, "plus: there may be at most 16 of these, not 17"),
        ("all_of", {"all_of": ["a"] * 16}, "all_of: there may be at most 15 of these, not 16"),
        ("common", {"common": ["  "]}, "blank"),
        ("like", {"minus": ["a dog"]}, "plus: field required"),
        ("like", {"like": "7", "plus": ["a dog"]}, "like: there is no such field"),
        ("all_of", {"all_of": ["a dog", "dog " * 101]}, "all_of.1: more than 100 words"),
        ("common", {"common": ["dog " * 101]}, "common: more than 100 words"),
        ("all_of", {"k": ["3", "4"]}, "k: this field is given twice"),
    ],
)
def test_what_a_form_cannot_ask_is_one_clear_sentence(
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
        ("search/like", {"like": 1003, "plus": [" "]}, "plus.0", "blank"),
        ("entails", {"premise": "", "hypothesis": "a dog"}, "premise", "at least 1 character"),
        ("entails", {"premise": "\0", "hypothesis": "a dog"}, "premise", "NUL"),
    ],
)
def test_a_part_at_fault_is_one_field_with_one_reason(
    client: Client, path: str, body: object, field: str, reason: str
) -> None:
    found = problem(client.post(f"/{path}", json=body), 422, "invalid")
    assert [error.field for error in found.errors] == [field]
    assert reason in found.errors[0].reason


def test_parts_may_be_selected_and_paged_as_other_searches(client: Client) -> None:
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


def test_an_image_like_another_is_never_that_image(client: Client) -> None:
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


def test_as_many_images_as_can_be_asked_for_are_like_another(
    tmp_path: Path, images: Points
) -> None:
    folder = make_collection(tmp_path)
    with Index.open(folder, threads=1) as index:
        rows = [ImageRow(at, f"{at}.png", f"{at}.png") for at in range(K_MAXIMUM)]
        index.add(rows, images[np.arange(K_MAXIMUM) % IMAGES])
    with Client(create_app(Settings(index=folder, device="cpu"))) as client:
        body = {"like": 7, "plus": [7], "k": K_MAXIMUM}
        found = client.post("/search/like", json=body).json()["hits"]
        assert [hit["rank"] for hit in found] == list(range(1, K_MAXIMUM + 1))
        assert 7 not in {hit["image_id"] for hit in found}
        body |= {"k": 5, "offset": K_MAXIMUM - 1}
        assert client.post("/search/like", json=body).json()["hits"] == found[-1:]
        said = client.post("/search/like", json=body | {"like": "a dog"}).json()
        assert [hit["rank"] for hit in said["hits"]] == [K_MAXIMUM]


def test_like_with_nothing_taken_out_is_the_join(
    client: Client, model: OrderEmbedding, images: Points
) -> None:
    body = {"like": "a dog", "plus": ["a red animal", 1001], "k": 3, "mode": "exact"}
    answer = client.post("/search/like", json=body).json()
    points = np.vstack([model.encode_captions(["a dog", "a red animal"]), images[1:2]])
    expected = pairwise_violation(images, points.max(0)[None])[:, 0]
    assert [hit["image_id"] for hit in answer["hits"]] == [
        1000 + at for at in np.argsort(expected)[:3]
    ]


@pytest.mark.parametrize(
    ("minus", "threshold", "old"),
    [("dog", 2.0, "a dog runs"), ("dog", 0.0, "dog"), ("dog", None, "dog"), ("qux", 2.0, "qux")],
)
def test_a_word_is_exchanged_in_captions_that_follow_from_what_is_started_from(
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
    like, new, gone = torch.from_numpy(model.encode_captions(captions))
    point = substitute("order", like, new[None], gone[None]).numpy()
    expected = np.sort(pairwise_violation(images, point[None])[:, 0])[:4]
    assert [hit.violation for hit in answer.hits] == pytest.approx(expected, abs=1e-5)
    assert answer.certified
    assert answer.unknown_words == (["qux"] if minus == "qux" else [])


def test_of_several_words_each_is_exchanged_in_the_captions_that_say_it(
    calibrated: Client, model: OrderEmbedding, images: Points, monkeypatch: pytest.MonkeyPatch
) -> None:
    learn(calibrated, monkeypatch, 2.0)
    body = {"like": "a person", "plus": ["cat", "child"], "minus": ["dog", "red"], "k": 4}
    hits = calibrated.post("/search/like", json=body).json()["hits"]
    put = [f"a {new}{rest} runs" for new in ("cat", "child") for rest in ("", " animal")]
    points = torch.from_numpy(
        model.encode_captions(["a person", *put, "a dog runs", "a red animal runs"])
    )
    point = substitute("order", points[0], points[1:5], points[5:]).numpy()
    expected = np.sort(pairwise_violation(images, point[None])[:, 0])[:4]
    assert [hit["violation"] for hit in hits] == pytest.approx(expected, abs=1e-5)


def test_all_true_captions_are_looked_through_once_for_each_word_that_is_taken_out(
    calibrated: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    learn(calibrated, monkeypatch, 2.0)
    looked: list[tuple[str, int]] = []

    def seen(captions: Collection[str], minus: str, plus: str) -> dict[str, str]:
        looked.append((minus, len(captions)))
        return reworded(captions, minus, plus)

    monkeypatch.setattr("service.core.lattice.reworded", seen)
    body = {"like": "a person", "plus": ["cat", "child", "park"], "minus": ["dog", "red"]}
    assert calibrated.post("/search/like", json=body).status_code == 200
    all_of_them = IMAGES * CAPTIONS_EACH
    assert [minus for minus, count in looked if count == all_of_them] == ["dog", "red"]


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
        ("/search/like", {"like": 1004}, "plus: field required"),
        ("/search/like", {"like": 1004, "minus": ["a dog"]}, "minus needs plus"),
        ("/search/like", {"like": 1004, "plus": []}, "plus: there must be at least 1 of these"),
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
def test_what_cannot_be_asked_is_one_clear_sentence(
    client: Client, path: str, body: object, words: str
) -> None:
    assert words in detail(client, path, body)


@pytest.mark.parametrize("before", [0, 1])
def test_of_several_pairs_the_one_at_fault_is_named_also_where_it_is_the_only_one(
    client: Client, before: int
) -> None:
    pairs = [{"premise": "a dog", "hypothesis": "a dog"}] * before
    pairs.append({"premise": "a dog", "hypothesis": "dog " * 101})
    found = detail(client, "/entails/batch", {"pairs": pairs})
    assert found == f"pairs.{before}.hypothesis: more than 100 words"
    assert detail(client, "/entails", pairs[-1]) == "hypothesis: more than 100 words"


def test_an_image_that_is_not_here_is_named(client: Client) -> None:
    for path, body in (
        ("/search/all_of", {"all_of": ["a dog", 7]}),
        ("/search/common", {"common": [7]}),
        ("/search/like", {"like": 7, "plus": ["a dog"]}),
        ("/entails", {"premise": 7, "hypothesis": "a dog"}),
    ):
        response = client.post(path, json=body)
        assert response.status_code == 404
        assert "no image with the id 7" in response.json()["detail"]


def test_as_many_parts_and_pairs_as_are_promised_are_taken(client: Client) -> None:
    parts = [f"a dog {at}" for at in range(PARTS_MAXIMUM)]
    assert client.post("/search/all_of", json={"all_of": parts}).status_code == 200
    pairs = [{"premise": f"a {at}", "hypothesis": "a dog"} for at in range(PAIRS_MAXIMUM)]
    answers = client.post("/entails/batch", json={"pairs": pairs}).json()["answers"]
    assert len(answers) == PAIRS_MAXIMUM


def test_parts_that_contradict_each_other_show_what_each_hit_lacks(client: Client) -> None:
    answer = client.post("/search/all_of", json={"all_of": ["a dog", "a blue park"]}).json()
    assert all(len(hit["parts"]) == 2 for hit in answer["hits"])


@pytest.fixture(scope="module")
def calibrated(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Client]:
    """An application whose model knows what its violations mean."""
    index = make_collection(tmp_path_factory.mktemp("calibrated"))
    known = Calibrations(
        Calibration((0.0, 1.0), (1.0, 0.0), 0.25, 10, 5),
        Calibration((0.0, 1.0), (0.8, 0.2), 2.0, 10, 5),
    )
    checkpoint.save(index.parent / "model", tiny_model(), "tiny", {}, known)
    with Client(create_app(Settings(index=index, device="cpu"))) as client:
        yield client


def test_entailment_comes_with_its_probability_and_verdict(
    calibrated: Client, model: OrderEmbedding, images: Points
) -> None:
    for premise, point, threshold, first, last in (
        (1005, images[5:6], 0.25, 1.0, 0.0),
        ("a red animal", model.encode_captions(["a red animal"]), 2.0, 0.8, 0.2),
    ):
        body = {"premise": premise, "hypothesis": "a dog qux"}
        answer = Entailment.model_validate_json(calibrated.post("/entails", json=body).content)
        expected = pairwise_violation(point, model.encode_captions(["a dog qux"]))[0, 0]
        assert answer.violation == pytest.approx(expected, abs=1e-5)
        assert answer.probability == pytest.approx(first + (last - first) * expected, abs=1e-3)
        assert answer.threshold == threshold
        assert answer.entailed is bool(expected <= threshold)
        assert answer.unknown_words == ["qux"]


@pytest.mark.parametrize("unread", ["zorp florbles", "!?"])
def test_how_likely_a_caption_is_of_which_no_word_is_known_nobody_says(
    calibrated: Client, unread: str
) -> None:
    for pair in ((1005, unread), ("a dog", unread), (unread, "a dog")):
        body = dict(zip(("premise", "hypothesis"), pair, strict=True))
        answer = calibrated.post("/entails", json=body).json()
        assert (answer["probability"], answer["entailed"]) == (None, None)
        assert answer["threshold"] is not None
    questions: list[tuple[str, Any]] = [
        ("/search/images", {"caption": unread}),
        ("/search/all_of", {"all_of": ["a dog", unread]}),
        ("/search/common", {"common": [1001, unread]}),
    ]
    for path, question in questions:
        hits = calibrated.post(path, json=question).json()["hits"]
        assert [hit["probability"] for hit in hits] == [None] * 10
    both = {"captions": [unread, f"a dog {unread}"]}
    none, some = calibrated.post("/search/images/batch", json=both).json()["answers"]
    assert {hit["probability"] for hit in none["hits"]} == {None}
    assert None not in {hit["probability"] for hit in some["hits"]}


def test_of_a_found_caption_of_which_no_word_is_known_no_chance_is_told(
    calibrated: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Vocabulary, "knows", lambda _, text: text != "a dog runs")
    for path, question in (
        ("common", {"json": {"common": [1001, "a dog"], "k": 24}}),
        ("captions", {"files": {"image": png(1)}, "data": {"k": "24"}}),
    ):
        hits = calibrated.post(f"/search/{path}", **question).json()["hits"]
        unknown = {hit["caption"] for hit in hits if hit["probability"] is None}
        assert unknown == {"a dog runs"}


def test_a_caption_follows_from_itself_however_strict_the_threshold(
    calibrated: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    learn(calibrated, monkeypatch, 0.0)
    answer = calibrated.post("/entails", json={"premise": "a dog", "hypothesis": "a dog"}).json()
    assert answer["violation"] == 0
    assert answer["entailed"] is True


def test_a_picture_of_ones_own_is_asked_about_as_a_stored_one(calibrated: Client) -> None:
    sent = calibrated.post("/entails", files={"image": png(5)}, data={"hypothesis": "a dog"})
    assert sent.status_code == 200, sent.text
    stored = calibrated.post("/entails", json={"premise": 1005, "hypothesis": "a dog"}).json()
    assert sent.json()["violation"] == pytest.approx(stored["violation"], abs=1e-5)
    assert sent.json()["entailed"] is stored["entailed"]
    lacking = calibrated.post("/entails", files={"image": png(5)})
    assert lacking.status_code == 422
    assert "hypothesis" in lacking.json()["detail"]
    broken = calibrated.post("/entails", files={"image": b"text"}, data={"hypothesis": "a"})
    assert broken.status_code == 415


def test_pairs_are_answered_in_their_order_as_they_are_alone(calibrated: Client) -> None:
    pairs = [
        {"premise": "a poodle", "hypothesis": "a dog"},
        {"premise": 1001, "hypothesis": "a cat"},
        {"premise": "a dog", "hypothesis": "a cat"},
    ]
    batch = Entailments.model_validate_json(
        calibrated.post("/entails/batch", json={"pairs": pairs}).content
    )
    for pair, answer in zip(pairs, batch.answers, strict=True):
        alone = calibrated.post("/entails", json=pair).json()
        assert alone["violation"] == pytest.approx(answer.violation, abs=1e-5)
        assert alone["entailed"] is answer.entailed


def test_the_chance_of_a_joint_hit_is_that_of_its_least_likely_part(calibrated: Client) -> None:
    body = {"common": [1001, "a red animal"], "k": 3}
    for hit in calibrated.post("/search/common", json=body).json()["hits"]:
        chances = [1 - hit["parts"][0], 0.8 - 0.6 * hit["parts"][1]]
        assert hit["probability"] == pytest.approx(min(chances), abs=1e-3)
    # How likely a picture has all that another has, nobody measured.
    (hit,) = calibrated.post("/search/all_of", json={"all_of": ["a", 1001], "k": 1}).json()["hits"]
    assert hit["probability"] is None


def test_a_model_that_was_not_calibrated_gives_the_violation_and_no_verdict(
    tmp_path: Path,
) -> None:
    index = make_collection(tmp_path)
    checkpoint.save(index.parent / "model", tiny_model(), "tiny", {})
    with Client(create_app(Settings(index=index, device="cpu"))) as client:
        answer = client.post("/entails", json={"premise": 1001, "hypothesis": "a dog"}).json()
    assert answer["violation"] > 0
    assert [answer[name] for name in ("probability", "entailed", "threshold")] == [None] * 3
