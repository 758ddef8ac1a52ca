"""Keys: who may read, who may write, how often, and that nothing else gets in."""

from __future__ import annotations

import base64
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from pydantic import ValidationError
from starlette.datastructures import Headers

from hasse.service.app import create_app
from hasse.service.errors import ServiceError
from hasse.service.http.access import Access, Quota, fingerprint, new_key
from hasse.service.keys import keys_of
from hasse.service.settings import Settings
from tests.service.client import Client
from tests.service.collection import png
from tests.service.problems import problem

READER, WRITER = new_key(), new_key()
KEYS: dict[str, Any] = {
    "read_keys": f"bob:{fingerprint(READER)}",
    "write_keys": f"eve:{fingerprint(new_key())}, alice:{fingerprint(WRITER)}",
}
OPEN = ("/livez", "/readyz", "/version", "/metrics", "/docs", "/openapi.json", "/static/hasse.js")
LOCKED = ("/images/1000", "/images/1000/file", "/images/1000/thumbnail", "/captions/10000")


def bearer(key: str) -> dict[str, str]:
    return {"Authorization": f"Bearer {key}"}


def basic(password: str) -> dict[str, str]:
    return {"Authorization": "Basic " + base64.b64encode(f"any:{password}".encode()).decode()}


@pytest.fixture(scope="module")
def locked(collection: Path) -> Iterator[Client]:
    """A service that nobody may ask without a key."""
    with Client(create_app(Settings(library=collection, device="cpu", **KEYS))) as client:
        yield client


def ask(client: Client, headers: dict[str, str]) -> Any:
    return client.post("/search/images", json={"caption": "a dog", "k": 1}, headers=headers)


def remove(client: Client, headers: dict[str, str]) -> Any:
    return client.request("DELETE", "/images/77", headers=headers)


def test_service_without_keys_is_readable_by_all_and_writable_by_none(client: Client) -> None:
    assert ask(client, {}).status_code == 200
    assert ask(client, bearer("whatever")).status_code == 200
    for refused in (
        remove(client, {}),
        remove(client, bearer(WRITER)),
        client.post("/images", files={"image": ("a.png", png(1))}),
    ):
        found = problem(refused, 403, "forbidden")
        assert "HASSE_WRITE_KEYS" in found.detail


def test_open_writes_lets_all_readers_write(collection: Path) -> None:
    settings = Settings(library=collection, device="cpu", open_writes=True)
    with Client(create_app(settings)) as client:
        problem(remove(client, {}), 404, "not_found")


def test_open_writes_with_write_keys_lets_only_these_write() -> None:
    access = Access(Settings(open_writes=True, write_keys=KEYS["write_keys"]))
    assert access.admit_key(WRITER, "write") == "alice"
    with pytest.raises(ServiceError) as refused:
        access.admit_key("", "write")
    assert refused.value.reason == "unauthorized"


def test_read_keys_hide_the_collection_from_requests_without_one(locked: Client) -> None:
    for headers in ({}, bearer("wrong"), bearer(""), basic("wrong"), {"X-API-Key": "wrong"}):
        for path in LOCKED:
            response = locked.get(path, headers=headers)
            problem(response, 401, "unauthorized")
            assert response.headers["www-authenticate"].startswith("Bearer, Basic")
        problem(ask(locked, headers), 401, "unauthorized")
        page = locked.get("/?image=1000", headers=headers)  # which says it to people
        assert (page.status_code, " runs" in page.text) == (401, False)
    for path in OPEN:
        assert locked.get(path).status_code == 200


@pytest.mark.parametrize("key", [READER, WRITER], ids=["reader", "writer"])
def test_read_and_write_keys_may_read_however_they_are_sent(locked: Client, key: str) -> None:
    for headers in (
        bearer(key),
        {"Authorization": f"bearer  {key}"},
        {"X-API-Key": key},
        basic(key),
    ):
        assert ask(locked, headers).status_code == 200
        for path in LOCKED:
            assert locked.get(path, headers=headers).status_code == 200


@pytest.mark.parametrize("scheme", ["Basic", "basic"])
def test_password_is_everything_behind_the_name(scheme: str) -> None:
    key = "one of:my:own"
    sent = base64.b64encode(f"any:{key}".encode()).decode()
    access = Access(Settings(read_keys=f"bob:{fingerprint(key)}"))
    assert access.admit(Headers({"Authorization": f"{scheme} {sent}"}), "read") == "bob"


def test_write_needs_a_write_key(locked: Client) -> None:
    problem(remove(locked, {}), 401, "unauthorized")
    problem(remove(locked, bearer("wrong")), 401, "unauthorized")
    found = problem(remove(locked, bearer(READER)), 403, "forbidden")
    assert "reading only" in found.detail
    problem(remove(locked, bearer(WRITER)), 404, "not_found")


def test_write_with_a_password_sent_by_the_browser_is_refused(locked: Client) -> None:
    problem(remove(locked, basic(WRITER)), 401, "unauthorized")


def test_key_appears_in_no_answer_setting_or_log_line(
    locked: Client, collection: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    settings = Settings(library=collection, **KEYS)
    for key in (READER, WRITER, "wrong-key"):
        response = ask(locked, bearer(key))
        assert key not in response.text
        assert key not in repr(settings)
    assert not any(key in capsys.readouterr().err for key in (READER, WRITER))


@pytest.mark.parametrize(
    "header",
    [
        "Bearer",
        "Bearer ",
        "Bearer a b",
        "Basic ???",
        "Basic /w==",
        "Basic \xe9",
        "Digest x",
        "\xff",
    ],
)
def test_broken_header_is_no_key(locked: Client, header: str) -> None:
    headers = [(b"Content-Type", b"application/json"), (b"Authorization", header.encode("latin-1"))]
    response = locked.post("/search/images", content=b'{"caption": "a"}', headers=headers)
    problem(response, 401, "unauthorized")


def test_quota_is_counted_for_each_key(collection: Path) -> None:
    settings = Settings(
        library=collection, device="cpu", searches_per_minute=2, writes_per_minute=1, **KEYS
    )
    with Client(create_app(settings)) as client:
        for _ in range(2):
            assert ask(client, bearer(READER)).status_code == 200
        response = ask(client, bearer(READER))
        found = problem(response, 429, "quota")
        assert found.detail == "this key may make 2 such requests in a minute, and no more"
        assert 1 <= int(response.headers["retry-after"]) <= 30
        assert client.get("/images/1000", headers=bearer(READER)).status_code == 200
        assert ask(client, bearer(WRITER)).status_code == 200
        problem(remove(client, bearer(WRITER)), 404, "not_found")
        one_more = problem(remove(client, bearer(WRITER)), 429, "quota")
        assert "1 such request in a minute" in one_more.detail


def test_quota_refills_up_to_a_minutes_worth() -> None:
    now = 1000.0
    quota = Quota(60, clock=lambda: now)

    for passed, room in ((0, 60), (3, 3), (3600, 60)):
        now += passed
        for _ in range(room):
            quota.take("alice")
        with pytest.raises(ServiceError) as refused:
            quota.take("alice")
        assert refused.value.retry_after == 1
        quota.take("bob")


def test_quota_used_up_names_the_seconds_to_wait() -> None:
    now = 1000.0
    quota = Quota(1, clock=lambda: now)
    quota.take("alice")
    for wait in (60, 45):
        with pytest.raises(ServiceError) as refused:
            quota.take("alice")
        assert refused.value.retry_after == wait
        now += 15.5  # a second that has begun is waited for whole
    now += 30
    quota.take("alice")


def test_new_keys_are_long_and_different_and_settings_hold_their_hash() -> None:
    found = {new_key() for _ in range(100)}
    assert len(found) == 100
    assert {len(key) for key in found} == {len("hasse_") + 32}  # 192 bits, six a letter
    assert keys_of(KEYS["write_keys"])["alice"] == fingerprint(WRITER)
    assert keys_of(" , ") == {}


@pytest.mark.parametrize(
    "setting",
    [WRITER, f"alice:{WRITER}", "a:b", f"a b:{'0' * 64}"],
    ids=["key", "named", "short", "space"],
)
def test_setting_with_a_plain_key_is_refused(setting: str) -> None:
    for name in ("read_keys", "write_keys"):
        chosen: dict[str, Any] = {name: setting}
        with pytest.raises(ValidationError, match="hasse lab key NAME"):
            Settings(**chosen)
    with pytest.raises(ValidationError, match="given twice"):
        Settings(read_keys=f"a:{'0' * 64},a:{'1' * 64}")


def test_openapi_document_names_operations_that_need_a_key(locked: Client, client: Client) -> None:
    def secured(client: Client) -> set[str]:
        document = client.get("/openapi.json").json()
        assert document["components"]["securitySchemes"]["key"]["scheme"] == "bearer"
        return {
            f"{method} {path}"
            for path, methods in document["paths"].items()
            for method, operation in methods.items()
            if "security" in operation
        }

    assert secured(client) == {
        "post /images",
        "delete /images/{image_id}",
        "post /annotations",
        "post /annotations/remove",
        "put /searches/{name}",
        "delete /searches/{name}",
        "post /searches/{name}/looked",
    }
    assert "security" not in str(create_app(Settings(open_writes=True)).openapi()["paths"])
    assert "post /search/images" in secured(locked)
    assert "get /livez" not in secured(locked)
    for operation in secured(locked):  # and they do
        method, path = operation.split()
        problem(
            locked.request(
                method, path.format(image_id=1, caption_id=1, size="large", name="dogs")
            ),
            401,
            "unauthorized",
        )
