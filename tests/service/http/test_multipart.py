"""Multipart forms: what counts as a file, and which forms are refused."""

from __future__ import annotations

from typing import Any

import httpx
import pytest

from hasse.service.errors import ServiceError
from hasse.service.http.multipart import FormField, parse_form
from tests.service.client import Client
from tests.service.collection import png
from tests.service.problems import problem


def parsed(headers: str, content: bytes = b"x", preamble: bytes = b"") -> FormField:
    """Parse a form with one field."""
    body = b"--b\r\n" + headers.encode() + b"\r\n\r\n" + content + b"\r\n--b--\r\nepilogue"
    (field,) = parse_form("multipart/form-data; boundary=b", preamble + body)
    return field


@pytest.mark.parametrize(
    ("options", "file_name"),
    [
        ('; filename="a.png"', "a.png"),
        ('; filename="caf\u00e9.png"', "caf\u00e9.png"),
        ("; filename*=UTF-8''caf%C3%A9%20b.png", "caf\u00e9 b.png"),
        ("; filename*=iso-8859-1'en'caf%E9.png", "caf\u00e9.png"),
        ("; filename=plain.png; filename*=UTF-8''caf%C3%A9.png", "caf\u00e9.png"),
        ('; filename="C:\\\\some\\\\place;\\".png"', 'place;".png'),
        ('; filename="/etc/passwd"', "passwd"),
        ('; filename="the %22good%22 dog, 100%25.png"', 'the "good" dog, 100%25.png'),
        ('; filename="two%0D%0Alines.png"', "twolines.png"),
        ("\r\nContent-Type: image/png", ""),
    ],
)
def test_form_field_with_a_file_name_or_content_type_is_a_file(
    options: str, file_name: str
) -> None:
    field = parsed(f'Content-Disposition: form-data; name="image"{options}')
    assert field == FormField("image", True, file_name, b"x")


def test_form_field_labelled_as_plain_text_is_a_text() -> None:
    for label in ("", "\r\nContent-Type: text/plain; charset=utf-8"):
        assert not parsed(f"Content-Disposition: form-data; name=k{label}").is_file


def test_form_preamble_is_skipped() -> None:
    head = "Content-Disposition: form-data; name=k"
    for preamble in (b"\r\n", b"For old readers: --b\r\n--c\r\n"):
        assert parsed(head, preamble=preamble).content == b"x"
    with pytest.raises(ServiceError, match="cut short"):
        parse_form("multipart/form-data; boundary=b", b"A preamble alone.\r\n")


def test_form_content_with_almost_a_boundary_is_kept() -> None:
    content = b"\r\n--\r\n--c\r\n-\r\n--a--\r\r\n"
    assert parsed("Content-Disposition: form-data; name=k", content).content == content


@pytest.mark.parametrize("charset", ["undefined", "idna", "utf\x00"])
def test_form_file_name_in_a_charset_that_is_none_is_refused(charset: str) -> None:
    with pytest.raises(ServiceError, match="charset"):
        parsed(f"Content-Disposition: form-data; name=image; filename*={charset}''a%E9.png")


def test_form_picture_without_file_name_is_searched(client: Client) -> None:
    headers = {"Content-Type": "multipart/form-data; boundary=x"}
    for options in (b"\r\nContent-Type: image/png", b"; filename*=UTF-8''a.png"):
        head = b'--x\r\nContent-Disposition: form-data; name="image"' + options
        body = b"A preamble.\r\n" + head + b"\r\n\r\n" + png(1) + b"\r\n--x--\r\n"
        response = client.post("/search/captions", content=body, headers=headers)
        assert response.status_code == 200, response.text


def form(client: Client, **fields: str) -> httpx.Response:
    return client.post("/search/captions", files={"image": ("a.png", png(1))}, data=fields)


def test_form_with_options_of_a_search_is_read(client: Client) -> None:
    answer = form(client, k="3", mode="fast", candidates="20", max_violation="0.9")
    assert answer.status_code == 200
    assert answer.json()["mode"] == "fast"
    assert form(client, max_violation=str(1e-7)).status_code == 200  # as clients write it: 1e-07
    defaults = form(client, k="", mode="", candidates="", max_violation="", distinct="false")
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
def test_form_field_out_of_bounds_is_named(client: Client, name: str, text: str) -> None:
    found = problem(form(client, **{name: text}), 422, "invalid")
    assert [error.field for error in found.errors] == [name]


def test_form_field_missing_or_given_twice_is_named(client: Client) -> None:
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
def test_form_field_with_a_long_unknown_name_is_named_by_its_beginning(
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
        b'--x\r\nContent-Disposition: form-data; name="k"\r\n\r\n'
        + b"3" * 25_000
        + b"\r\n--x--\r\n",
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
def test_form_that_is_hostile_is_refused_as_invalid(client: Client, name: str) -> None:
    content_type, body = HOSTILE_FORMS[name]
    headers = {"Content-Type": content_type}
    problem(client.post("/search/captions", content=body, headers=headers), 422, "invalid")


def test_form_field_without_a_name_does_not_inherit_one(client: Client) -> None:
    body = (
        b'--x\r\nContent-Disposition: form-data; name="image"; filename="a"\r\n\r\n'
        + png(1)
        + b'\r\n--x\r\nContent-Disposition: form-data; name="all_of"\r\n\r\na dog'
        + b"\r\n--x\r\n\r\na cat\r\n--x--\r\n"
    )
    headers = {"Content-Type": "multipart/form-data; boundary=x"}
    response = client.post("/search/all_of", content=body, headers=headers)
    assert problem(response, 422, "invalid").detail == "body: a field has no name"
