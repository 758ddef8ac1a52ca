"""Part of a collection, page by page, and several captions at once."""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

from hasse.index.store import Index
from hasse.index.types import CaptionRow, ImageRow, Points
from hasse.service.app import create_app
from hasse.service.core.batching import BatchResult
from hasse.service.core.encoding import EncodeKey, EncodingQueue
from hasse.service.core.records import instant
from hasse.service.questions.answers import CaptionAnswer, ImageAnswer, ImageAnswers
from hasse.service.questions.requests import OFFSET_MAXIMUM, REACH_MAXIMUM
from hasse.service.schemas import ImageRecord, milliseconds
from hasse.service.settings import Settings
from hasse.service.telemetry.stages import Stages
from tests.service.client import Client
from tests.service.collection import make_collection, picture, png
from tests.service.problems import problem

EVERYTHING = list(range(1000, 1012))
LATER = [7, 8]


@pytest.fixture(scope="module")
def grown(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Client]:
    """Twelve images of the split `test`, then two of the split `new`, with a caption each."""
    folder = make_collection(tmp_path_factory.mktemp("grown"))
    with Client(create_app(Settings(library=folder, device="cpu"))) as client:
        model = client.engine.checkpoint.model
        index: Index = client.engine.index
        time.sleep(0.002)  # the catalog counts milliseconds
        index.add(
            [ImageRow(at, f"{at}.png", f"{at}.png", split="new") for at in LATER],
            model.encode_images([picture(at) for at in LATER]),
            [CaptionRow(70 + at, at, "a cat") for at in LATER],
            model.encode_captions(["a cat"] * len(LATER)),
        )
        yield client


def found(client: Client, **options: Any) -> list[int]:
    """Ask for images and for captions, in every mode; return the images they agree on."""
    seen = []
    for mode in ("certified", "exact", "fast"):
        query = {"caption": "a dog", "k": 100, "mode": mode, **options}
        response = client.post("/search/images", json=query)
        images = ImageAnswer.model_validate_json(response.content)
        ids = options.get("image_ids")
        form = options | ({"image_ids": ",".join(map(str, ids))} if ids is not None else {})
        response = client.post(
            "/search/captions",
            data={"k": "100", "mode": mode, "distinct": "false"}
            | {name: str(value) for name, value in form.items()},
            files={"image": ("a.png", png(1))},
        )
        captions = CaptionAnswer.model_validate_json(response.content)
        assert images.searched == len(images.hits)
        assert captions.searched == len(captions.hits)
        assert images.certified
        assert captions.certified
        assert {hit.image_id for hit in images.hits} == {hit.image_id for hit in captions.hits}
        seen.append(sorted(hit.image_id for hit in images.hits))
    assert seen[0] == seen[1] == seen[2]
    return seen[0]


def test_search_may_be_about_one_split(grown: Client) -> None:
    assert found(grown, split="new") == LATER
    assert found(grown, split="test") == EVERYTHING
    assert found(grown, split="none such") == []


def test_split_that_no_image_can_have_is_refused(grown: Client) -> None:
    query = {"caption": "a dog", "split": "te\0st"}
    assert grown.post("/search/images", json=query).status_code == 422


def test_search_may_be_about_some_images(grown: Client) -> None:
    assert found(grown, image_ids=[1003, 7, 1003, 99]) == [7, 1003]
    assert found(grown, image_ids=[1003, 7], split="test") == [1003]


def test_empty_selection_selects_what_it_says_and_not_all(grown: Client) -> None:
    assert found(grown, image_ids=[]) == []
    assert found(grown, split="") == []


def test_search_may_be_about_what_was_added_when(grown: Client) -> None:
    added = [
        ImageRecord.model_validate_json(grown.get(f"/images/{at}").content).added
        for at in (1000, 7)
    ]
    assert added[0] < added[1]
    assert found(grown, added_from=added[1]) == LATER
    assert found(grown, added_before=added[1]) == EVERYTHING
    assert found(grown, added_from=added[0], added_before=added[1]) == EVERYTHING
    assert found(grown, added_from="2999-12-31T23:59:60+02:00") == []


@pytest.mark.parametrize(
    "time",
    [
        "yesterday",
        "2026-11-20",
        "2026-11-20T09:00:00",
        "1763629200",
        "",
        "0000-00-00T00:00Z",
        "2026-11-20T09:60:00Z",
        "2026-11-20T09:00:00+05:60",
    ],
)
def test_time_that_is_none_or_has_no_zone_is_refused(client: Client, time: str) -> None:
    response = client.post("/search/images", json={"caption": "a dog", "added_from": time})
    found = problem(response, 422, "invalid")
    assert found.errors[0].field == "added_from"
    assert "such as 2026-11-20T09:00:00Z" in found.errors[0].reason


def test_time_of_an_answer_is_accepted_to_the_millisecond() -> None:
    for at in (0, 1_795_220_602_084, 2_193_209_881_444):
        assert milliseconds(instant(at)) == at
    assert milliseconds("2016-12-31T23:59:60.5Z") == milliseconds("2016-12-31T23:59:59.5Z")
    assert milliseconds("2016-12-31T23:59:59.123456789Z") % 1000 == 123
    assert milliseconds("2016-12-31t23:59:59z") == milliseconds("2016-12-31T23:59:59Z")


@pytest.mark.parametrize("ids", ["1,,2", "1;2", "x", "-1", "1.5", ",", "9" * 30])
def test_ids_in_a_form_have_commas_between_them(client: Client, ids: str) -> None:
    response = client.post(
        "/search/captions", data={"image_ids": ids}, files={"image": ("a.png", png(1))}
    )
    assert problem(response, 422, "invalid").errors[0].field.startswith("image_ids")


def test_pages_put_together_are_the_whole(client: Client) -> None:
    def page(offset: int, k: int) -> list[dict[str, Any]]:
        query = {"caption": "a dog", "offset": offset, "k": k}
        answer = client.post("/search/images", json=query).json()
        assert answer["certified"]
        assert answer["searched"] == 12
        hits: list[dict[str, Any]] = answer["hits"]
        return hits

    whole = page(0, 12)
    assert [hit["rank"] for hit in whole] == list(range(1, 13))
    assert page(0, 5) + page(5, 5) + page(10, 5) == whole
    assert page(999, 1000) == []
    form = {"k": "3", "offset": "2"}
    hits = client.post("/search/captions", data=form, files={"image": ("a.png", png(1))}).json()
    assert [hit["rank"] for hit in hits["hits"]] == [3, 4, 5]
    assert page(REACH_MAXIMUM, 3) == []
    query = {"caption": "a dog", "offset": OFFSET_MAXIMUM + 1}
    problem(client.post("/search/images", json=query), 422, "invalid")


def test_captions_that_are_asked_together_are_answered_as_if_alone(client: Client) -> None:
    captions = ["a dog", "zorp in the park", "a dog", "a " * 50 + "cat", "child"]
    every: list[dict[str, Any]] = [
        {},
        {"k": 3, "offset": 1},
        {"k": 6, "offset": 6},  # the first of one caption are among the last of another
        {"mode": "fast"},
        {"image_ids": [1001, 1002]},
    ]
    for options in every:
        response = client.post("/search/images/batch", json={"captions": captions, **options})
        together = ImageAnswers.model_validate_json(response.content).answers
        assert len(together) == len(captions)
        for caption, answer in zip(captions, together, strict=True):
            asked = {"caption": caption, "evidence": "shows", **options}
            response = client.post("/search/images", json=asked)
            alone = ImageAnswer.model_validate_json(response.content)
            assert [hit.image_id for hit in answer.hits] == [hit.image_id for hit in alone.hits]
            assert answer.unknown_words == alone.unknown_words
            assert (answer.searched, answer.generation) == (alone.searched, alone.generation)
        assert "encode;dur=" in response.headers["server-timing"]


def test_captions_together_are_searched_as_one_batch(
    client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    index: Index = client.engine.index
    search_batch = index.search_batch
    sizes: list[int] = []

    def counted(query: Any, points: Any) -> Any:
        sizes.append(len(points))
        return search_batch(query, points)

    monkeypatch.setattr(index, "search_batch", counted)
    response = client.post("/search/images/batch", json={"captions": ["a dog", "a cat"] * 16})
    assert len(response.json()["answers"]) == 32
    assert sizes == [32]


@pytest.mark.parametrize(
    ("body", "field"),
    [
        ({"captions": []}, "captions"),
        ({"captions": ["a dog"] * 33}, "captions"),
        ({"captions": ["a dog", " "]}, "captions.1"),
        ({"captions": ["a dog", "a " * 101]}, "captions.1"),
        ({"captions": ["a dog", 7]}, "captions.1"),
        ({"captions": ["a dog"], "k": 101}, "k"),
        ({"captions": "a dog"}, "captions"),
        ({"caption": "a dog", "captions": ["a dog"]}, "caption"),
    ],
)
def test_captions_together_are_checked_one_by_one(
    client: Client, body: dict[str, Any], field: str
) -> None:
    response = client.post("/search/images/batch", json=body)
    assert problem(response, 422, "invalid").errors[0].field == field


def test_captions_encoded_beside_each_other_take_the_time_of_the_slowest(
    client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    encoder: EncodingQueue = client.engine.encoder

    async def submit(_: EncodeKey, text: str) -> BatchResult[Points]:
        return BatchResult(np.zeros(4, np.float32), 0.0, 1.0, 1.0 + float(text))

    monkeypatch.setattr(encoder.batcher, "submit", submit)
    stages = Stages()
    client.run(encoder.captions(["2", "3", "1"], stages))
    assert (stages.seconds["queue"], stages.seconds["encode"]) == (1.0, 3.0)
