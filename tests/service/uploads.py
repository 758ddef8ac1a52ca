"""Adding pictures over HTTP, and finding them again."""

from __future__ import annotations

from typing import Any

from hasse.service.questions.answers import ImageAnswer
from hasse.service.schemas import AddedImage
from tests.service.client import Client


def add(client: Client, picture: bytes, name: str = "new.png", **fields: Any) -> Any:
    return client.post("/images", files={"image": (name, picture)}, data=fields)


def added(response: Any, status: int = 201) -> AddedImage:
    assert response.status_code == status, response.text
    found = AddedImage.model_validate_json(response.content)
    assert response.headers["location"] == f"/images/{found.image_id}"
    assert found.created == (status == 201)
    return found


def found(client: Client) -> set[int]:
    query = {"caption": "a dog", "k": 100}
    answer = ImageAnswer.model_validate_json(client.post("/search/images", json=query).content)
    assert answer.certified
    return {hit.image_id for hit in answer.hits}
