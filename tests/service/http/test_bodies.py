"""Bodies of strangers: whatever comes, the answer is a problem document or a right one."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from service.app import create_app
from service.settings import Settings
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
    "a surrogate as mode": b'{"caption": "a dog", "mode": "\\ud800"}',
    "NUL": b'{"caption": "a\\u0000dog"}',
    "a raw control character": b'{"caption": "a\x01dog"}',
    "a field twice": b'{"caption": "a dog", "caption": "a cat"}',
    "a field twice, deep down": b'{"caption": {"a": 1, "a": 2}}',
    "a byte order mark": b'\xef\xbb\xbf{"caption": "a dog"}',
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
def test_hostile_json_is_refused_as_invalid(client: Client, name: str) -> None:
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
def test_strange_captions_are_answered(client: Client, caption: str) -> None:
    response = client.post("/search/images", json={"caption": caption, "k": 2})
    assert response.status_code == 200
    assert len(response.json()["hits"]) == 2


@pytest.mark.parametrize(
    ("longest", "more", "reason"),
    [
        ("x" * 2000, "x", "more than 2,000 characters"),
        ("a\n" * 100, "dog", "more than 100 words"),
    ],
)
def test_a_caption_is_taken_up_to_its_bounds(
    client: Client, longest: str, more: str, reason: str
) -> None:
    asked = {"caption": longest, "k": 1}
    assert client.post("/search/images", json=asked).status_code == 200
    asked["caption"] = longest + more
    found = problem(client.post("/search/images", json=asked), 422, "invalid")
    assert found.detail == f"caption: {reason}"


@pytest.mark.parametrize(
    "content_type", ["", "text/plain", "application/xml", "multipart/form-data"]
)
def test_json_under_another_name_is_refused(client: Client, content_type: str) -> None:
    headers = {"Content-Type": content_type}
    response = client.post("/search/images", content=b'{"caption": "a dog"}', headers=headers)
    problem(response, 415, "wrong_media_type")
    response = client.post("/search/images", content=b'{"caption": "a dog"}')
    problem(response, 415, "wrong_media_type")


def test_json_with_a_charset_is_read(client: Client) -> None:
    headers = {"Content-Type": "Application/JSON; charset=utf-8"}
    response = client.post("/search/images", content=b'{"caption": "a dog"}', headers=headers)
    assert response.status_code == 200


def test_a_body_beyond_the_limit_is_refused_with_and_without_its_length(client: Client) -> None:
    large = b'{"caption": "' + b"a " * 40_000 + b'"}'
    problem(client.post("/search/images", content=large, headers=JSON), 413, "body_too_large")

    async def chunks() -> AsyncIterator[bytes]:
        for _ in range(100):
            yield b" " * 1000

    response = client.post("/search/images", content=chunks(), headers=JSON)
    assert "content-length" not in response.request.headers
    problem(response, 413, "body_too_large")


def test_what_is_as_large_as_allowed_is_read(collection: Path) -> None:
    picture, body = png(1), b'{"caption": "a dog"}'.ljust(1024)
    settings = Settings(
        index=collection, device="cpu", json_bytes=len(body), picture_bytes=len(picture)
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


def test_a_form_has_room_for_all_that_its_limits_allow_at_once(tmp_path: Path) -> None:
    picture = png(50)
    settings = Settings(
        index=make_collection(tmp_path), device="cpu", open_writes=True, picture_bytes=len(picture)
    )
    captions = [f"{at:02d}" + "🐕" * (settings.caption_characters - 2) for at in range(32)]
    ids = ",".join(str(2**63 - 1 - at) for at in range(1000))
    file = {"image": ("a.png", picture)}
    with Client(create_app(settings)) as client:
        like = {"plus": captions[:16], "minus": captions[16:], "image_ids": ids}
        response = client.post("/search/like", files=file, data=like)
        assert response.status_code == 200, response.text
        response = client.post("/images", files=file, data={"caption": captions})
        assert response.status_code == 201, response.text
        assert len(response.json()["captions"]) == 32


def test_a_whole_number_may_be_written_as_json_has_numbers(client: Client) -> None:
    for digits, hits in (("3.0", 3), ("1e1", 10)):
        body = f'{{"caption": "a dog", "k": {digits}}}'
        response = client.post("/search/images", content=body, headers=JSON)
        assert len(response.json()["hits"]) == hits


@pytest.mark.parametrize("length", ["-1", "nonsense", "9" * 5000, "１"])
def test_a_strange_length_is_no_way_in(client: Client, length: str) -> None:
    headers = [(b"Content-Type", b"application/json"), (b"Content-Length", length.encode())]
    response = client.post("/search/images", content=b'{"caption": "a dog"}', headers=headers)
    assert response.status_code in (200, 413)


def test_a_body_that_does_not_come_is_not_waited_for(collection: Path) -> None:
    settings = Settings(index=collection, device="cpu", body_seconds=0.05)

    async def never() -> AsyncIterator[bytes]:
        yield b'{"caption"'
        await asyncio.sleep(10)

    with Client(create_app(settings)) as client:
        response = client.post("/search/images", content=never(), headers=JSON)
        problem(response, 408, "body_timeout")


@pytest.mark.parametrize("length", [None, "70000"])
def test_that_a_body_is_too_large_is_told_also_where_the_rest_does_not_come(
    collection: Path, monkeypatch: pytest.MonkeyPatch, length: str | None
) -> None:
    monkeypatch.setattr("service.http.bodies._LINGER_SECONDS", 0.3)
    settings = Settings(index=collection, device="cpu", body_seconds=0.1)

    async def begun() -> AsyncIterator[bytes]:
        yield b" " * (70_000 if length is None else 1)
        await asyncio.sleep(10)

    headers = JSON if length is None else {**JSON, "Content-Length": length}
    with Client(create_app(settings)) as client:
        response = client.post("/search/images", content=begun(), headers=headers)
        problem(response, 413, "body_too_large")


def test_a_body_that_is_too_large_is_not_asked_for(client: Client) -> None:
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
    assert read == 70, "who was told to go on is heard to the end"


@pytest.mark.parametrize(("sent", "status"), [(b'{"caption"', 499), (b" " * 70_000, 413)])
def test_a_client_that_leaves_before_its_body_is_whole_is_no_fault_inside(
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
        "headers": [(b"host", b"here"), (b"content-type", b"application/json")],
    }
    client.run(client.app(scope, receive, send))
    assert statuses[0] == status
    assert client.app.state.bodies.held == 0


def test_the_memory_that_bodies_take_is_bounded(collection: Path) -> None:
    settings = Settings(index=collection, device="cpu", buffered_bytes=1024)
    with Client(create_app(settings)) as client:
        response = client.post("/search/captions", files={"image": ("a.png", png(1))})
        problem(response, 429, "busy")
        assert response.headers["retry-after"] == "1"
        assert client.app.state.bodies.held == 0
        assert client.post("/search/images", json={"caption": "a dog"}).status_code == 200


def test_the_bodies_of_all_requests_share_that_memory(collection: Path) -> None:
    settings = Settings(index=collection, device="cpu", buffered_bytes=1024)
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
            while not client.app.state.bodies.held:
                await asyncio.sleep(0.002)
            problem(await send(body), 429, "busy")
            more.set()
            assert (await first).status_code == 200
            assert (await send(body)).status_code == 200

    with Client(create_app(settings)) as client:
        client.run(main(client))


def form(client: Client, **fields: str) -> httpx.Response:
    return client.post("/search/captions", files={"image": ("a.png", png(1))}, data=fields)


def test_a_form_takes_the_options_of_a_search(client: Client) -> None:
    answer = form(client, k="3", mode="fast", candidates="20", max_violation="0.9")
    assert answer.status_code == 200
    assert answer.json()["mode"] == "fast"
    assert form(client, max_violation=str(1e-7)).status_code == 200  # as clients write it: 1e-07
    defaults = form(client, k="", mode="", candidates="", max_violation="")
    assert len(defaults.json()["hits"]) == 10


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("k", "0"),
        ("k", "1001"),
        ("k", "7.0"),
        ("k", "1_0"),
        ("k", " 7"),
        ("k", "+7"),
        ("k", "٧"),
        ("k", "7" * 1000),
        ("k", "true"),
        ("candidates", "null"),
        ("candidates", "-1"),
        ("max_violation", "nan"),
        ("max_violation", "1e999"),
        ("max_violation", "-0.5"),
        ("max_violation", "little"),
        ("max_violation", "1_0"),
        ("mode", "quick"),
        ("colour", "red"),
        ("image", "not a file"),
    ],
)
def test_a_form_out_of_bounds_names_its_field(client: Client, name: str, text: str) -> None:
    found = problem(form(client, **{name: text}), 422, "invalid")
    assert [error.field for error in found.errors] == [name]


def test_a_form_says_what_it_lacks_or_has_too_much(client: Client) -> None:
    url = "/search/captions"
    picture = ("a.png", png(1))
    found = problem(client.post(url, files={"picture": picture}), 422, "invalid")
    assert found.errors[0].field == "picture"
    found = problem(client.post(url, files=[("k", (None, b"3"))]), 422, "invalid")
    assert found.detail == "image: this file field is required"
    twice = client.post(url, files=[("image", picture), ("image", picture)])
    assert problem(twice, 422, "invalid").detail == "image: this field is given twice"
    twice = client.post(url, files=[("image", picture), ("k", (None, b"3")), ("k", (None, b"4"))])
    assert problem(twice, 422, "invalid").detail == "k: this field is given twice"


@pytest.mark.parametrize("content", [(None, b"3"), ("a.png", png(1))], ids=["text", "file"])
@pytest.mark.parametrize("path", ["captions", "all_of"])
def test_of_a_long_name_that_no_field_has_an_answer_repeats_the_beginning(
    client: Client, path: str, content: Any
) -> None:
    files = {"image": ("a.png", png(1)), "colour" * 100: content}
    found = problem(client.post(f"/search/{path}", files=files), 422, "invalid")
    assert [error.field for error in found.errors] == [("colour" * 100)[:64]]


HOSTILE_FORMS: dict[str, tuple[str, bytes]] = {
    "no boundary": ("multipart/form-data", b"--x\r\n\r\n--x--"),
    "an empty boundary": ("multipart/form-data; boundary=", b"--\r\n\r\n----"),
    "another boundary": ("multipart/form-data; boundary=y", b"--x\r\n\r\n--x--"),
    "nothing": ("multipart/form-data; boundary=x", b""),
    "only an end": ("multipart/form-data; boundary=x", b"--x--\r\n"),
    "half a part": (
        "multipart/form-data; boundary=x",
        b'--x\r\nContent-Disposition: form-data; name="image"; filename="a"\r\n\r\nabc',
    ),
    "no name": (
        "multipart/form-data; boundary=x",
        b"--x\r\nContent-Disposition: form-data\r\n\r\nabc\r\n--x--\r\n",
    ),
    "no disposition": ("multipart/form-data; boundary=x", b"--x\r\n\r\nabc\r\n--x--\r\n"),
    "an undefined charset": (
        "multipart/form-data; boundary=x; charset=undefined",
        b'--x\r\nContent-Disposition: form-data; name="k"\r\n\r\n3\r\n--x--\r\n',
    ),
    "a charset that is no text": (
        "multipart/form-data; boundary=x; charset=base64",
        b'--x\r\nContent-Disposition: form-data; name="k"\r\n\r\n3\r\n--x--\r\n',
    ),
    "no UTF-8": (
        "multipart/form-data; boundary=x",
        b'--x\r\nContent-Disposition: form-data; name="k"\r\n\r\n\xff\r\n--x--\r\n',
    ),
    "fields without end": (
        "multipart/form-data; boundary=x",
        b'--x\r\nContent-Disposition: form-data; name="k"\r\n\r\n3\r\n' * 500 + b"--x--\r\n",
    ),
    "a long field": (
        "multipart/form-data; boundary=x",
        b'--x\r\nContent-Disposition: form-data; name="k"\r\n\r\n' + b"3" * 5000 + b"\r\n--x--\r\n",
    ),
    "a long header": (
        "multipart/form-data; boundary=x",
        b'--x\r\nContent-Disposition: form-data; name="image"; filename="a"\r\nX-Long: '
        + b"a" * 5000
        + b"\r\n\r\n"
        + png(1)
        + b"\r\n--x--\r\n",
    ),
    "many headers": (
        "multipart/form-data; boundary=x",
        b"--x\r\n" + b"X-Many: a\r\n" * 5000 + b"\r\nabc\r\n--x--\r\n",
    ),
}


@pytest.mark.parametrize("name", HOSTILE_FORMS)
def test_a_form_that_is_none_is_refused_as_invalid(client: Client, name: str) -> None:
    content_type, body = HOSTILE_FORMS[name]
    headers = {"Content-Type": content_type}
    problem(client.post("/search/captions", content=body, headers=headers), 422, "invalid")


def test_a_field_without_a_name_does_not_have_that_of_the_one_before_it(client: Client) -> None:
    body = (
        b'--x\r\nContent-Disposition: form-data; name="image"; filename="a"\r\n\r\n'
        + png(1)
        + b'\r\n--x\r\nContent-Disposition: form-data; name="all_of"\r\n\r\na dog'
        + b"\r\n--x\r\n\r\na cat\r\n--x--\r\n"
    )
    headers = {"Content-Type": "multipart/form-data; boundary=x"}
    response = client.post("/search/all_of", content=body, headers=headers)
    assert problem(response, 422, "invalid").detail == "body: a field has no name"


def test_a_name_that_is_no_text_is_said_to_be_none(client: Client) -> None:
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
def test_who_withholds_a_body_and_is_not_told_to_send_it_is_answered_for_the_last_time(
    client: Client, path: str, content: bytes, headers: dict[str, str], status: int
) -> None:
    asked = {**headers, "Expect": "100-Continue"}
    response = client.post(path, content=content, headers=asked)
    assert (response.status_code, response.headers.get("connection")) == (status, "close")
    at_once = client.post(path, content=content, headers=headers)
    assert (at_once.status_code, at_once.headers.get("connection")) == (status, None)


@pytest.mark.parametrize(("body", "status"), [(b'{"caption": "a dog"}', 200), (b"{}", 422)])
def test_who_withholds_a_body_and_is_told_to_send_it_may_ask_again(
    client: Client, body: bytes, status: int
) -> None:
    asked = {**JSON, "Expect": "100-continue"}
    response = client.post("/search/images", content=body, headers=asked)
    assert (response.status_code, response.headers.get("connection")) == (status, None)
