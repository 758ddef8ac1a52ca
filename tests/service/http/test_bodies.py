"""Any request body gets a right answer or a problem document."""

from __future__ import annotations

import asyncio
import gzip
import json
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from fastapi import Request

from hasse.service.app import create_app
from hasse.service.errors import ServiceError
from hasse.service.http.bodies import Bodies
from hasse.service.questions.requests import ImageQuery
from hasse.service.settings import Settings
from tests.service.client import Client
from tests.service.collection import make_collection, png
from tests.service.problems import problem

JSON = {"Content-Type": "application/json"}

HOSTILE_JSON: dict[str, bytes] = {
    "nothing": b"",
    "spaces": b"   ",
    "half an object": b'{"caption": "a dog"',
    "not a number": b'{"caption": "a dog", "max_violation": NaN}',
    "infinity": b'{"caption": "a dog", "max_violation": Infinity}',
    "minus infinity": b'{"caption": "a dog", "max_violation": -Infinity}',
    "beyond a float": b'{"caption": "a dog", "max_violation": 1e999}',
    "beyond a float, as k": b'{"caption": "a dog", "k": 1e999}',
    "not a number as caption": b'{"caption": NaN}',
    "half an id": b'{"caption": "a dog", "image_ids": [9007199254740993.5]}',
    "a small part of an id": b'{"caption": "a dog", "image_ids": [1e-400]}',
    "5,000 digits": b'{"caption": "a dog", "k": ' + b"7" * 5000 + b"}",
    "a lone high surrogate": b'{"caption": "\\ud800"}',
    "a lone low surrogate": b'{"caption": "dog \\udc00 dog"}',
    "a surrogate in a name": b'{"\\ud800": 1, "caption": "a dog"}',
    "a surrogate in a list": b'{"caption": "a dog", "keywords": ["\\udfff"]}',
    "a surrogate as a folder": b'{"caption": "a dog", "folder": "\\uD83D/x"}',
    "a surrogate as mode": b'{"caption": "a dog", "mode": "\\ud800"}',
    "NUL": b'{"caption": "a\\u0000dog"}',
    "a raw control character": b'{"caption": "a\x01dog"}',
    "a field twice": b'{"caption": "a dog", "caption": "a cat"}',
    "a field twice, deep down": b'{"caption": {"a": 1, "a": 2}}',
    "two byte order marks": b'\xef\xbb\xbf\xef\xbb\xbf{"caption": "a dog"}',
    "UTF-16": '{"caption": "a dog"}'.encode("utf-16"),
    "Latin-1": b'{"caption": "caf\xe9"}',
    "a caption in a list": b'{"caption": ["a dog"]}',
    "deep": b"[" * 30_000,
    "deep and closed": b"[" * 20_000 + b"]" * 20_000,
    "deep as caption": b'{"caption": ' + b"[" * 20_000 + b"]" * 20_000 + b"}",
    "many fields": json.dumps({f"f{at}": at for at in range(4000)}).encode(),
    "a very long name": b'{"caption": "a dog", "' + b"x" * 60_000 + b'": 1}',
    "two objects": b'{"caption": "a dog"}{"caption": "a cat"}',
    "a comment": b'{"caption": "a dog"} // dog',
    "single quotes": b"{'caption': 'a dog'}",
    "a form": b"caption=a+dog&k=3",
    "binary": bytes(range(256)),
}


@pytest.mark.parametrize("name", HOSTILE_JSON)
def test_json_that_is_hostile_is_refused_as_invalid(client: Client, name: str) -> None:
    response = client.post("/search/images", content=HOSTILE_JSON[name], headers=JSON)
    found = problem(response, 422, "invalid")
    assert len(response.content) < 5000
    assert found.errors


@pytest.mark.parametrize(
    "caption",
    [
        "狗在跑",
        "🐕🏖️",
        "a\u202edog",
        "é" * 200,
        "<script>alert(1)</script>",
        "'; DROP TABLE images; --",
        "…",
        "a\x7fdog",
        "ﷺ" * 50,
    ],
)
def test_caption_of_any_unicode_is_answered(client: Client, caption: str) -> None:
    response = client.post("/search/images", json={"caption": f"a dog {caption}", "k": 2})
    assert response.status_code == 200
    assert len(response.json()["hits"]) == 2


@pytest.mark.parametrize(
    ("longest", "more", "reason"),
    [
        ("a " + "x" * 1998, "x", "more than 2,000 characters"),
        ("a\n" * 100, "dog", "more than 100 words"),
    ],
)
def test_caption_at_its_bounds_is_taken_and_beyond_refused(
    client: Client, longest: str, more: str, reason: str
) -> None:
    asked = {"caption": longest, "k": 1}
    assert client.post("/search/images", json=asked).status_code == 200
    asked["caption"] = longest + more
    found = problem(client.post("/search/images", json=asked), 422, "invalid")
    assert found.detail == f"caption: {reason}"


@pytest.mark.parametrize("content_type", ["", "text/plain", "application/xml"])
def test_json_with_another_content_type_is_refused(client: Client, content_type: str) -> None:
    headers = {"Content-Type": content_type}
    response = client.post(
        "/search/images/batch", content=b'{"captions": ["a dog"]}', headers=headers
    )
    problem(response, 415, "wrong_media_type")
    response = client.post("/search/images/batch", content=b'{"captions": ["a dog"]}')
    problem(response, 415, "wrong_media_type")


def test_json_with_a_charset_is_read(client: Client) -> None:
    headers = {"Content-Type": "Application/JSON; charset=utf-8"}
    response = client.post("/search/images", content=b'{"caption": "a dog"}', headers=headers)
    assert response.status_code == 200


def test_json_after_a_byte_order_mark_is_read(client: Client) -> None:
    body = b'\xef\xbb\xbf{"caption": "a dog"}'
    assert client.post("/search/images", content=body, headers=JSON).status_code == 200


def test_body_that_is_compressed_is_refused_with_the_reason(client: Client) -> None:
    body = gzip.compress(b'{"caption": "a dog"}')
    headers = {**JSON, "Content-Encoding": "gzip"}
    found = problem(
        client.post("/search/images", content=body, headers=headers), 415, "wrong_media_type"
    )
    assert "Content-Encoding" in found.detail


def test_body_beyond_the_limit_with_or_without_length_is_refused(client: Client) -> None:
    large = b'{"caption": "' + b"a " * 40_000 + b'"}'
    problem(client.post("/search/images", content=large, headers=JSON), 413, "body_too_large")

    async def chunks() -> AsyncIterator[bytes]:
        for _ in range(100):
            yield b" " * 1000

    response = client.post("/search/images", content=chunks(), headers=JSON)
    assert "content-length" not in response.request.headers
    problem(response, 413, "body_too_large")


def test_body_as_large_as_allowed_is_read(collection: Path) -> None:
    picture, body = png(1), b'{"caption": "a dog"}'.ljust(1024)
    settings = Settings(
        library=collection, device="cpu", json_bytes=len(body), picture_bytes=len(picture)
    )

    async def chunks(sent: bytes) -> AsyncIterator[bytes]:
        yield sent

    with Client(create_app(settings)) as client:
        for sent, status in ((body, 200), (body + b" ", 413)):
            for content in (sent, chunks(sent)):
                response = client.post("/search/images", content=content, headers=JSON)
                assert response.status_code == status
        for sent, status in ((picture, 200), (picture + b" ", 413)):
            response = client.post("/search/captions", files={"image": ("a.png", sent)})
            assert response.status_code == status


def test_form_with_every_field_at_its_limit_is_read(tmp_path: Path) -> None:
    picture = png(50)
    limits: dict[str, Any] = {"picture_bytes": len(picture), "deadline_seconds": 60}
    index = make_collection(tmp_path)
    settings = Settings(library=index, device="cpu", open_writes=True, **limits)
    captions = [f"a {at:02d}" + "🐕" * (settings.caption_characters - 4) for at in range(32)]
    ids = ",".join(str(2**63 - 1 - at) for at in range(1000))
    file = {"image": ("a.png", picture)}
    with Client(create_app(settings)) as client:
        like = {"plus": captions[:16], "minus": captions[16:], "image_ids": ids}
        response = client.post("/search/like", files=file, data=like)
        assert response.status_code == 200, response.text
        response = client.post("/images", files=file, data={"caption": captions})
        assert response.status_code == 201, response.text
        assert len(response.json()["captions"]) == 32


def test_json_integer_written_as_a_float_is_read(client: Client) -> None:
    for digits, hits in (("3.0", 3), ("1e1", 10)):
        body = f'{{"caption": "a dog", "k": {digits}}}'
        response = client.post("/search/images", content=body, headers=JSON)
        assert len(response.json()["hits"]) == hits


@pytest.mark.parametrize("length", ["-1", "nonsense", "9" * 5000, "１"])
def test_body_with_a_strange_content_length_is_answered(client: Client, length: str) -> None:
    headers = [(b"Content-Type", b"application/json"), (b"Content-Length", length.encode())]
    response = client.post("/search/images", content=b'{"caption": "a dog"}', headers=headers)
    assert response.status_code in (200, 413)


def test_body_that_stops_arriving_gets_408(collection: Path) -> None:
    settings = Settings(library=collection, device="cpu", body_seconds=0.05)

    async def never() -> AsyncIterator[bytes]:
        yield b'{"caption"'
        await asyncio.sleep(10)

    with Client(create_app(settings)) as client:
        response = client.post("/search/images", content=never(), headers=JSON)
        problem(response, 408, "body_timeout")


@pytest.mark.parametrize("length", [None, "70000"])
def test_body_too_large_that_stops_arriving_gets_413(length: str | None) -> None:
    settings = Settings(body_seconds=0.05)
    messages = [{"type": "http.request", "body": b" " * 70_000, "more_body": True}]

    async def receive() -> Any:
        return messages.pop() if messages else await asyncio.sleep(10)

    headers = [(b"content-type", b"application/json")]
    if length is not None:
        headers.append((b"content-length", length.encode()))
    request = Request({"type": "http", "method": "POST", "headers": headers}, receive)
    with pytest.raises(ServiceError) as refused:
        asyncio.run(Bodies(settings, linger_seconds=0.2).json(request, ImageQuery))
    assert refused.value.reason == "body_too_large"


def test_body_too_large_with_expect_is_not_asked_for(client: Client) -> None:
    read = 0

    async def asked() -> AsyncIterator[bytes]:
        nonlocal read
        for _ in range(70):
            read += 1
            yield b" " * 1000

    headers = {**JSON, "Expect": "100-Continue"}
    declared = {**headers, "Content-Length": "70000"}
    response = client.post("/search/images", content=asked(), headers=declared)
    problem(response, 413, "body_too_large")
    assert read == 0
    problem(client.post("/search/images", content=asked(), headers=headers), 413, "body_too_large")
    assert read == 70, "a body that was asked for is read to its end"


@pytest.mark.parametrize(("sent", "status"), [(b'{"caption"', 499), (b" " * 70_000, 413)])
def test_body_cut_short_by_its_client_is_no_internal_error(
    client: Client, sent: bytes, status: int
) -> None:
    messages = [
        {"type": "http.request", "body": sent, "more_body": True},
        {"type": "http.disconnect"},
    ]
    statuses: list[int] = []

    async def receive() -> Any:
        return messages.pop(0)

    async def send(message: Any) -> None:
        statuses.append(message.get("status"))

    scope = {
        "type": "http",
        "http_version": "1.1",
        "method": "POST",
        "path": "/search/images",
        "raw_path": b"/search/images",
        "query_string": b"",
        "headers": [(b"host", b"localhost"), (b"content-type", b"application/json")],
    }
    client.run(client.app(scope, receive, send))
    assert statuses[0] == status
    assert client.services.bodies.held_bytes == 0


def test_body_beyond_the_buffer_of_all_bodies_gets_429(collection: Path) -> None:
    settings = Settings(library=collection, device="cpu", buffered_bytes=1024)
    with Client(create_app(settings)) as client:
        response = client.post("/search/captions", files={"image": ("a.png", png(1))})
        problem(response, 429, "busy")
        assert response.headers["retry-after"] == "1"
        assert client.services.bodies.held_bytes == 0
        assert client.post("/search/images", json={"caption": "a dog"}).status_code == 200


def test_bodies_of_concurrent_requests_share_the_buffer(collection: Path) -> None:
    settings = Settings(library=collection, device="cpu", buffered_bytes=1024)
    body = b'{"caption": "a dog"}'.ljust(600)

    async def main(client: Client) -> None:
        more = asyncio.Event()

        async def slowly() -> AsyncIterator[bytes]:
            yield body
            await more.wait()

        def send(content: Any) -> Any:
            return client.http.post("/search/images", content=content, headers=JSON)

        async with asyncio.timeout(20):
            first = asyncio.create_task(send(slowly()))
            while not client.services.bodies.held_bytes:
                await asyncio.sleep(0.002)
            problem(await send(body), 429, "busy")
            more.set()
            assert (await first).status_code == 200
            assert (await send(body)).status_code == 200

    with Client(create_app(settings)) as client:
        client.run(main(client))


def test_json_field_name_that_is_no_text_is_named_so(client: Client) -> None:
    response = client.post("/search/images", content=b'{"\\ud800": 1}', headers=JSON)
    said = problem(response, 422, "invalid").detail
    assert said == "body: the name of a field is not Unicode text"


@pytest.mark.parametrize(
    ("path", "content", "headers", "status"),
    [
        ("/search/images", b"{}", {}, 415),
        ("/nowhere", b"{}", {}, 404),
        ("/images", b"{}", {}, 403),
        ("/search/images", b" " * 70_000, JSON, 413),
    ],
)
def test_refusal_before_a_withheld_body_closes_the_connection(
    client: Client, path: str, content: bytes, headers: dict[str, str], status: int
) -> None:
    asked = {**headers, "Expect": "100-Continue"}
    response = client.post(path, content=content, headers=asked)
    assert (response.status_code, response.headers.get("connection")) == (status, "close")
    at_once = client.post(path, content=content, headers=headers)
    assert (at_once.status_code, at_once.headers.get("connection")) == (status, None)


@pytest.mark.parametrize(("body", "status"), [(b'{"caption": "a dog"}', 200), (b"[]", 422)])
def test_answer_after_a_withheld_body_keeps_the_connection(
    client: Client, body: bytes, status: int
) -> None:
    asked = {**JSON, "Expect": "100-continue"}
    response = client.post("/search/images", content=body, headers=asked)
    assert (response.status_code, response.headers.get("connection")) == (status, None)
