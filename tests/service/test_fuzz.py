"""Bytes changed at random are refused or answered, whatever they are."""

from __future__ import annotations

import json

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from hasse.service.errors import REASONS
from hasse.service.questions.answers import CaptionAnswer, ImageAnswer
from hasse.service.schemas import Problem
from tests.service.client import Client
from tests.service.collection import picture
from tests.service.hostile_pictures import encoded

FORMATS = ("JPEG", "PNG", "GIF", "WEBP")
PICTURES = {form: encoded(picture(1, (24, 16)), form) for form in FORMATS}
FORM = (
    b'--x\r\nContent-Disposition: form-data; name="k"\r\n\r\n3\r\n'
    b'--x\r\nContent-Disposition: form-data; name="image"; filename="a.png"\r\n'
    b"Content-Type: image/png\r\n\r\n" + PICTURES["PNG"] + b"\r\n--x--\r\n"
)
QUERY = json.dumps({"caption": "a dog in the park", "k": 7, "max_violation": 0.5}).encode()

# Pillow warns of what it repairs; here only the answer matters.
pytestmark = pytest.mark.filterwarnings("ignore::UserWarning:PIL")
often = settings(
    max_examples=120,
    derandomize=True,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)


@st.composite
def changed(draw: st.DrawFn, original: bytes) -> bytes:
    """Cut, overwrite, repeat or insert a few bytes."""
    body = bytearray(original)
    for _ in range(draw(st.integers(1, 4))):
        at = draw(st.integers(0, len(body)))
        match draw(st.sampled_from(["cut", "overwrite", "repeat", "insert", "remove"])):
            case "cut":
                del body[at:]
            case "overwrite":
                body[at : at + 1] = draw(st.binary(min_size=1, max_size=1))
            case "repeat":
                body[at:at] = body[at : at + draw(st.integers(1, 200))]
            case "insert":
                body[at:at] = draw(st.binary(min_size=1, max_size=8))
            case "remove":
                del body[at : at + draw(st.integers(1, 50))]
    return bytes(body)


def check(client: Client, path: str, body: bytes, content_type: bytes) -> None:
    response = client.post(path, content=body, headers=[(b"Content-Type", content_type)])
    if response.status_code == 200:
        answer = ImageAnswer if path.endswith("images") else CaptionAnswer
        answer.model_validate_json(response.content)
        return
    found = Problem.model_validate_json(response.content)
    assert 400 <= response.status_code < 500
    assert REASONS[found.reason].status == response.status_code


@pytest.mark.parametrize("form", FORMATS)
@often
@given(data=st.data())
def test_changed_picture_is_a_picture_or_a_problem(
    client: Client, form: str, data: st.DataObject
) -> None:
    picture = data.draw(changed(PICTURES[form]))
    body = FORM.replace(PICTURES["PNG"], picture)
    check(client, "/search/captions", body, b"multipart/form-data; boundary=x")


@often
@given(body=changed(FORM))
def test_changed_form_is_a_form_or_a_problem(client: Client, body: bytes) -> None:
    check(client, "/search/captions", body, b"multipart/form-data; boundary=x")


@often
@given(content_type=changed(b"multipart/form-data; boundary=x"))
def test_changed_media_type_is_one_or_a_problem(client: Client, content_type: bytes) -> None:
    check(client, "/search/captions", FORM, content_type)


@often
@given(body=changed(QUERY))
def test_changed_query_is_a_query_or_a_problem(client: Client, body: bytes) -> None:
    check(client, "/search/images", body, b"application/json")


@often
@given(value=st.recursive(st.none() | st.booleans() | st.floats() | st.text(), st.lists))
def test_any_json_is_a_query_or_a_problem(client: Client, value: object) -> None:
    for body in (value, {"caption": value}, {"caption": "a", "k": value}, {str(value): 1}):
        check(client, "/search/images", json.dumps(body).encode(), b"application/json")
