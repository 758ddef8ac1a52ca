"""A service whose catalog is in a real PostgreSQL server searches, takes writes and recovers."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
import sqlalchemy as sql

from hasse.service.app import create_app
from hasse.service.settings import Settings
from tests.postgresql import SERVER, disconnect, execute, new_database, place_catalog
from tests.service.client import Client
from tests.service.collection import IMAGES, make_collection, png
from tests.service.problems import problem


@pytest.fixture(scope="module")
def database() -> Iterator[sql.URL]:
    with new_database() as url:
        yield url


@pytest.fixture(scope="module")
def client(database: sql.URL, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Client]:
    folder = tmp_path_factory.mktemp("served")
    place_catalog(folder / "index", database)
    settings = Settings(
        library=make_collection(folder), device="cpu", open_writes=True, ready_seconds=0
    )
    with Client(create_app(settings)) as client:
        yield client


def search(client: Client) -> int:
    answer = client.post("/search/images", json={"caption": "a dog", "k": 1, "split": "test"})
    assert answer.status_code == 200, answer.text
    return int(answer.json()["searched"])


def test_writes_to_postgresql_are_seen_by_the_next_search(client: Client) -> None:
    assert search(client) == IMAGES
    added = client.post(
        "/images", files={"image": ("new.png", png(90))}, data={"caption": "a cat", "split": "test"}
    )
    assert added.status_code == 201, added.text
    image_id = added.json()["image_id"]
    assert search(client) == IMAGES + 1
    described = client.get(f"/images/{image_id}").json()
    assert [caption["caption"] for caption in described["captions"]] == ["a cat"]
    assert client.request("DELETE", f"/images/{image_id}").status_code == 204
    assert search(client) == IMAGES
    problem(client.get(f"/images/{image_id}"), 404, "not_found")


def test_service_recovers_when_postgresql_answers_again(client: Client, database: sql.URL) -> None:
    assert SERVER is not None
    name = database.database
    execute(sql.make_url(SERVER), f"ALTER DATABASE {name} ALLOW_CONNECTIONS false")
    disconnect(database)
    try:
        problem(client.get("/images/1000"), 503, "catalog_unreachable")
        problem(client.request("DELETE", "/images/1000"), 503, "catalog_unreachable")
        assert "catalog" in client.get("/readyz").json()["detail"]
    finally:
        execute(sql.make_url(SERVER), f"ALTER DATABASE {name} ALLOW_CONNECTIONS true")
    assert client.get("/images/1000").status_code == 200
    assert client.get("/readyz").status_code == 200
    assert search(client) == IMAGES
