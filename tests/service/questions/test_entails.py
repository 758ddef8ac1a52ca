"""Entailment over HTTP: violation, probability and verdict."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from hasse.lab.checkpoints import learned_model
from hasse.lab.encoders.order_embedding import OrderEmbedding
from hasse.models.embedding_model import Points
from hasse.models.grounding import boxes
from hasse.models.grounding.demands import Phrase
from hasse.models.images.preprocessing import Pixels
from hasse.models.vocabulary import Vocabulary
from hasse.service.app import create_app
from hasse.service.questions import entails
from hasse.service.questions.answers import Entailment, Entailments
from hasse.service.settings import Settings
from tests.oracle import pairwise_violation
from tests.service.client import Client
from tests.service.collection import make_collection, png
from tests.tiny import tiny_model


def test_entails_gives_probability_and_verdict(
    calibrated: Client, model: OrderEmbedding, images: Points
) -> None:
    for premise, point, first, last in (
        (1005, images[5:6], 1.0, 0.0),
        ("a red animal", model.encode_captions(["a red animal"]), 0.8, 0.2),
    ):
        body = {"premise": premise, "hypothesis": "a dog qux"}
        answer = Entailment.model_validate_json(calibrated.post("/entails", json=body).content)
        expected = pairwise_violation(point, model.encode_captions(["a dog qux"]))[0, 0]
        assert answer.violation == pytest.approx(expected, abs=1e-5)
        assert answer.probability == pytest.approx(first + (last - first) * expected, abs=1e-3)
        assert answer.probability is not None
        assert answer.entailed is (answer.probability >= 0.5)
        assert answer.unknown_words == ["qux"]


@pytest.mark.parametrize("unread", ["zorp florbles", "!?"])
def test_caption_without_a_known_word_has_no_probability(calibrated: Client, unread: str) -> None:
    for pair in ((1005, unread), ("a dog", unread), (unread, "a dog")):
        body = dict(zip(("premise", "hypothesis"), pair, strict=True))
        answer = calibrated.post("/entails", json=body).json()
        assert (answer["probability"], answer["entailed"]) == (None, None)
    some = calibrated.post("/search/images", json={"caption": f"a dog {unread}"}).json()
    assert None not in {hit["probability"] for hit in some["hits"]}


def test_hit_without_a_known_word_has_no_probability(
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


def test_entails_with_equal_captions_is_true(calibrated: Client) -> None:
    answer = calibrated.post("/entails", json={"premise": "a dog", "hypothesis": "a dog"}).json()
    assert answer["violation"] == 0
    assert answer["entailed"] is True


def test_entails_with_upload_equals_the_stored_image(calibrated: Client) -> None:
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


def test_entails_batch_equals_single_answers_in_order(calibrated: Client) -> None:
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


def test_joint_hit_has_the_probability_of_its_least_likely_part(calibrated: Client) -> None:
    body = {"common": [1001, "a red animal"], "k": 3}
    for hit in calibrated.post("/search/common", json=body).json()["hits"]:
        chances = [1 - hit["parts"][0], 0.8 - 0.6 * hit["parts"][1]]
        assert hit["probability"] == pytest.approx(min(chances), abs=1e-3)
    # How likely a picture has all that another has, nobody measured.
    (hit,) = calibrated.post("/search/all_of", json={"all_of": ["a", 1001], "k": 1}).json()["hits"]
    assert hit["probability"] is None


def test_entails_without_calibration_gives_only_the_violation(
    tmp_path: Path,
) -> None:
    index = make_collection(tmp_path)
    learned_model.save(index.parent / "model", tiny_model(), "tiny", {})
    with Client(create_app(Settings(library=index, device="cpu"))) as client:
        answer = client.post("/entails", json={"premise": 1001, "hypothesis": "a dog"}).json()
    assert answer["violation"] > 0
    assert (answer["probability"], answer["entailed"]) == (None, None)


def test_where_gives_a_box_for_each_thing_that_was_found(
    calibrated: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen = []

    def find(_: object, pixels: Pixels, phrases: list[Phrase]) -> Points:
        seen.append((pixels.shape, [phrase.text for phrase in phrases]))
        return np.array([[5 / 17, 0, 1, 0.5], [0, 0, 0, 0]], np.float32)

    phrases = (Phrase("dog", (0,), False), Phrase("park", (1,), False))
    monkeypatch.setattr(boxes, "find_boxes", find)
    monkeypatch.setattr(entails, "_phrases", lambda *_: phrases)
    body = {"premise": 1005, "hypothesis": "a dog in a park", "where": True}
    stored = calibrated.post("/entails", json=body).json()
    form = {"hypothesis": "a dog in a park", "where": "true"}
    sent = calibrated.post("/entails", data=form, files={"image": png(5)}).json()
    box = {"text": "dog", "left": 0.2941, "top": 0.0, "right": 1.0, "bottom": 0.5}
    assert stored["where"] == sent["where"] == [box]
    assert seen == [((1, 3, 72, 72), ["dog", "park"])] * 2


def test_where_is_empty_without_grounding_and_null_where_it_was_not_asked(
    calibrated: Client,
) -> None:
    body = {"premise": 1005, "hypothesis": "a dog"}
    assert calibrated.post("/entails", json=body).json()["where"] is None
    assert calibrated.post("/entails", json=body | {"where": True}).json()["where"] == []


def test_where_of_a_text_is_empty(calibrated: Client) -> None:
    body = {"premise": "a dog", "hypothesis": "an animal", "where": True}
    assert calibrated.post("/entails", json=body).json()["where"] == []
