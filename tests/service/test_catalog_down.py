"""While the catalog's database does not answer, everything says so, and recovers by itself."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import AbstractContextManager
from pathlib import Path
from threading import Event
from typing import Any

import pytest

from hasse.index.errors import (
    CatalogUnreachableError,
    DiskFullError,
    IndexLockedError,
    ReadOnlyIndexError,
)
from hasse.service.app import create_app
from hasse.service.settings import Settings
from tests.service.client import Client
from tests.service.collection import png
from tests.service.problems import problem

ADDRESS = "postgresql://secret-host/hasse"


@pytest.fixture
def client(collection: Path) -> Iterator[Client]:
    """An application whose catalog may be taken away, and whose readiness is always asked anew."""
    settings = Settings(library=collection, device="cpu", open_writes=True, ready_seconds=0)
    with Client(create_app(settings)) as client:
        yield client


def take_away(
    client: Client,
    monkeypatch: pytest.MonkeyPatch,
    kind: type[Exception] = CatalogUnreachableError,
) -> None:
    def answering() -> AbstractContextManager[Any]:
        raise kind(f"the catalog {ADDRESS} does not answer")

    monkeypatch.setattr(client.engine.index.catalog, "_translate_errors", answering)


REQUESTS: list[tuple[str, str, dict[str, Any]]] = [
    ("POST", "/search/images", {"json": {"caption": "a dog"}}),
    ("POST", "/search/images", {"json": {"caption": "a dog", "split": "test"}}),
    ("POST", "/search/images/batch", {"json": {"captions": ["a dog", "a cat"]}}),
    ("POST", "/search/captions", {"files": {"image": ("a.png", png(0))}}),
    ("POST", "/images", {"files": {"image": ("a.png", png(0))}}),
    ("DELETE", "/images/1000", {}),
    ("GET", "/images/1000", {}),
    ("GET", "/images/1000/file", {}),
    ("GET", "/captions/10000", {}),
    ("GET", "/images/1000/diagram", {}),
]


@pytest.mark.parametrize(("method", "path", "how"), REQUESTS)
def test_without_its_catalog_the_service_asks_for_patience_and_names_no_address(
    client: Client, monkeypatch: pytest.MonkeyPatch, method: str, path: str, how: dict[str, Any]
) -> None:
    take_away(client, monkeypatch)
    response = client.request(method, path, **how)
    problem(response, 503, "catalog_unreachable")
    assert int(response.headers["retry-after"]) >= 1
    assert "secret" not in response.text


@pytest.mark.parametrize("kind", [DiskFullError, IndexLockedError, ReadOnlyIndexError])
def test_unreadable_catalog_is_answered_as_unreachable_and_logged_with_its_reason(
    client: Client,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
    kind: type[Exception],
) -> None:
    with monkeypatch.context() as away:
        take_away(client, away, kind)
        for method, path, how in REQUESTS:
            if path == "/images" or method == "DELETE":
                continue  # writes name what is in their way: `test_writing`
            caplog.clear()
            response = client.request(method, path, **how)
            problem(response, 503, "catalog_unreachable")
            assert int(response.headers["retry-after"]) >= 1
            assert "secret" not in response.text
            # A search by text and by picture at once may meet it twice.
            lines = [row for row in caplog.records if row.message == "catalog unreachable"]
            assert lines
            assert all(ADDRESS in vars(line)["facts"]["error"] for line in lines)
        for path in ("/?q=a+dog", "/?image=1000", "/page/diagram?image=1000"):
            page = client.get(path)
            assert (page.status_code, page.headers["retry-after"]) == (503, "5"), path
        assert "catalog" in problem(client.get("/readyz"), 503, "not_ready").detail
    assert client.get("/readyz").status_code == 200


@pytest.mark.parametrize("path", ["/images/1000", "/images/1000/thumbnail", "/captions/10000"])
def test_catalog_that_says_nothing_is_waited_for_no_longer_than_a_search(
    collection: Path, monkeypatch: pytest.MonkeyPatch, path: str
) -> None:
    settings = Settings(library=collection, device="cpu", deadline_seconds=0.05)
    answers = Event()

    def look_up(*_: object) -> object:
        answers.wait()
        raise CatalogUnreachableError("broken off")

    with Client(create_app(settings)) as client:
        monkeypatch.setattr(client.engine.index.catalog, "_look_up", look_up)
        try:
            for _ in range(4):  # more than there are threads for it
                response = client.get(path)
                problem(response, 503, "catalog_unreachable")
                assert int(response.headers["retry-after"]) >= 1
        finally:
            answers.set()


def test_readiness_names_the_catalog_and_returns_with_it(
    client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert client.get("/readyz").status_code == 200
    with monkeypatch.context() as away:
        take_away(client, away)
        found = problem(client.get("/readyz"), 503, "not_ready")
        assert "catalog" in found.detail
        page = client.get("/", params={"q": "a dog"})
        assert page.status_code == 503
        assert "secret" not in page.text
    assert client.get("/readyz").status_code == 200
    assert client.post("/search/images", json={"caption": "a dog"}).status_code == 200
