"""`POST /embed`: embeddings of texts and pictures for other programs."""

from __future__ import annotations

import httpx
import numpy as np
import pytest

from hasse import AsyncClient
from hasse.service.core.engine import Engine
from hasse.service.questions.answers import Embeddings
from hasse.service.questions.requests import TEXTS_MAXIMUM
from tests.service.client import Client
from tests.service.collection import picture, png
from tests.service.problems import problem


def embeddings(client: Client, *texts: str) -> Embeddings:
    return Embeddings.model_validate_json(
        client.post("/embed", json={"texts": list(texts)}).content
    )


def test_embed_texts_returns_the_models_points_in_order(client: Client) -> None:
    texts = ["a dog runs", "a cat", "a dog runs", "zebra a"]
    answer = embeddings(client, *texts)
    expected = client.engine.checkpoint.model.encode_captions(texts)
    found = np.array([one.embedding for one in answer.embeddings], np.float32)
    assert np.array_equal(found, expected)
    assert (answer.score, answer.dimension, answer.model) == ("order", 16, "tiny")
    assert answer.fingerprint == client.engine.checkpoint.fingerprint
    assert [one.unknown_words for one in answer.embeddings] == [[], [], [], ["zebra"]]


def test_embed_text_in_an_unknown_script_says_so_beside_the_others(client: Client) -> None:
    answer = embeddings(client, "a dog", "собака бежит", "!!!")
    assert [one.known for one in answer.embeddings] == [True, False, False]
    assert answer.embeddings[1].unknown_words == ["собака", "бежит"]


def test_embed_picture_returns_the_models_point(client: Client) -> None:
    answer = Embeddings.model_validate_json(
        client.post("/embed", files={"image": ("a.png", png(5))}).content
    )
    (found,) = answer.embeddings
    expected = client.engine.checkpoint.model.encode_images([picture(5)])[0]
    assert np.array(found.embedding, np.float32) == pytest.approx(expected, abs=1e-6)
    assert (found.known, found.unknown_words) == (True, [])


def test_embed_out_of_bounds_names_the_field(client: Client) -> None:
    many = {"texts": ["a dog"] * (TEXTS_MAXIMUM + 1)}
    assert "texts" in problem(client.post("/embed", json=many), 422, "invalid").detail
    blank = {"texts": ["a dog", " "]}
    found = problem(client.post("/embed", json=blank), 422, "invalid")
    assert found.errors[0].field == "texts.1"
    huge = {"texts": ["a dog runs in the park"] * 10_000}
    problem(client.post("/embed", json=huge), 413, "body_too_large")
    problem(client.post("/embed", files={"image": ("a.png", b"text")}), 415, "not_a_picture")


def test_client_embeds_ten_thousand_texts_by_requests_within_the_limits(client: Client) -> None:
    texts = [f"a dog {'and a cat ' * (at % 9)}{at}" for at in range(10_000)]

    async def ask() -> None:
        transport = httpx.ASGITransport(client.app)
        async with AsyncClient("http://hasse.test", transport=transport) as hasse:
            found = await hasse.embed(texts)
            one = await hasse.embed_picture(png(5))
        assert len(found) == len(texts)
        engine: Engine = client.engine
        for at in (0, 255, 256, 9_999):
            (expected,) = engine.checkpoint.model.encode_captions([texts[at]])
            assert np.array_equal(np.array(found[at].embedding, np.float32), expected)
        assert len(one.embedding) == engine.checkpoint.model.config.dimension

    client.run(ask())
