"""Every error is a problem document with a reason from the one table."""

from __future__ import annotations

import httpx
import pytest

from hasse.service.errors import REASONS
from tests.service.client import Client
from tests.service.problems import problem


def test_unknown_address_is_a_problem(client: Client) -> None:
    problem(client.get("/nowhere"), 404, "not_found")
    problem(client.get("/static/nothing.css"), 404, "not_found")
    problem(client.get("/search/images/"), 404, "not_found")


@pytest.mark.parametrize(
    "part", ["bytes=9999999-", "bytes=x", "bytes=5-2", "lines=1-2", "bytes=0-9"]
)
def test_static_file_ignores_range(client: Client, part: str) -> None:
    whole = client.get("/static/hasse.css")
    answer = client.get("/static/hasse.css", headers={"Range": part})
    assert (answer.status_code, answer.content) == (200, whole.content)
    assert "accept-ranges" not in answer.headers


def test_static_file_that_a_client_has_is_not_sent_again(client: Client) -> None:
    tag = client.get("/docs/swagger-ui.css").headers["etag"]
    again = client.get("/docs/swagger-ui.css", headers={"If-None-Match": tag})
    assert (again.status_code, again.content) == (304, b"")


def test_wrong_method_names_the_allowed_ones(client: Client) -> None:
    response = client.get("/search/images")
    problem(response, 405, "method_not_allowed")
    assert response.headers["allow"] == "POST"
    response = client.request("PUT", "/images/7")
    problem(response, 405, "method_not_allowed")
    assert response.headers["allow"] == "DELETE, GET, HEAD"


@pytest.mark.parametrize(
    "path", ["/", "/page/add", "/page/combine", "/images/1000", "/images", "/docs", "/livez"]
)
def test_allow_header_names_the_methods_of_the_address(client: Client, path: str) -> None:
    named = client.request("PUT", path).headers["allow"].split(", ")
    methods = ("DELETE", "GET", "HEAD", "PATCH", "POST", "OPTIONS")
    taken = [method for method in methods if client.request(method, path).status_code != 405]
    assert named == sorted(taken)


@pytest.mark.parametrize("hosts", [[], [("Host", "a"), ("Host", "b")]])
def test_request_without_exactly_one_host_is_refused(
    client: Client, hosts: list[tuple[str, str]]
) -> None:
    request = client.http.build_request("GET", "/livez")
    request.headers = httpx.Headers(hosts)
    found = problem(client.run(client.http.send(request)), 400, "malformed")
    assert "Host" in found.detail


def test_path_that_is_no_id_names_its_field(client: Client) -> None:
    found = problem(client.get("/images/seven"), 422, "invalid")
    assert [error.field for error in found.errors] == ["image_id"]
    problem(client.get(f"/images/{2**63}"), 422, "invalid")
    problem(client.get("/images/-1"), 422, "invalid")


@pytest.mark.parametrize(
    ("fields", "at_fault"),
    [
        ({"caption": "a dog", "k": 0}, ["k"]),
        ({"caption": "a dog", "k": 1001}, ["k"]),
        ({"caption": "a dog", "k": "7"}, ["k"]),
        ({"caption": "a dog", "k": True}, ["k"]),
        ({"caption": "a dog", "k": 7.5}, ["k"]),
        ({"caption": "a dog", "k": None}, ["k"]),
        ({"caption": "a dog", "mode": "quick"}, ["mode"]),
        ({"caption": "a dog", "candidates": 0}, ["candidates"]),
        ({"caption": "a dog", "max_violation": -0.1}, ["max_violation"]),
        ({"caption": "a dog", "colour": "red"}, ["colour"]),
        ({"caption": "a dog", "body": 1, "path": 2, "query": "a cat"}, ["body", "path", "query"]),
        ({"caption": 7}, ["caption"]),
        ({"caption": " \t\n"}, ["caption"]),
        ({"caption": "a\0dog"}, ["caption"]),
        ({"k": 0, "mode": "quick"}, ["k", "mode"]),
        ([], ["body"]),
        ("a dog", ["body"]),
        (7.5, ["body"]),
    ],
)
def test_request_out_of_bounds_names_its_fields(
    client: Client, fields: object, at_fault: list[str]
) -> None:
    found = problem(client.post("/search/images", json=fields), 422, "invalid")
    assert sorted(error.field for error in found.errors) == at_fault
    assert all(error.reason for error in found.errors)


def test_caption_beyond_the_limits_names_the_limit(client: Client) -> None:
    found = problem(client.post("/search/images", json={"caption": "a " * 101}), 422, "invalid")
    assert found.detail == "caption: more than 100 words"
    found = problem(client.post("/search/images", json={"caption": "a" * 2001}), 422, "invalid")
    assert found.detail == "caption: more than 2,000 characters"
    for allowed in ("a " * 100, "a " + "a" * 1998):
        assert client.post("/search/images", json={"caption": allowed}).status_code == 200
    long = client.post("/search/images", json={"caption": "word " * 10_000})
    problem(long, 422, "invalid")


def test_character_that_is_not_allowed_is_refused_without_a_pattern(client: Client) -> None:
    asked = {"caption": "a dog", "split": "a\0b"}
    found = problem(client.post("/search/images", json=asked), 422, "invalid")
    assert found.detail == "split: this contains a character that is not allowed here"


def test_body_of_wrong_type_names_the_right_one(client: Client) -> None:
    found = problem(client.post("/search/images", json=["a dog"]), 422, "invalid")
    assert found.detail == "body: this is not a JSON object"
    pairs = client.post("/entails/batch", json={"pairs": ["a dog"]})
    assert problem(pairs, 422, "invalid").detail == "pairs.0: this is not a JSON object"


def test_many_errors_name_the_first_ones_briefly(client: Client) -> None:
    asked = {"caption": "a dog"} | {f"{at:03}" + "x" * 100: 1 for at in range(50)}
    found = problem(client.post("/search/images", json=asked), 422, "invalid")
    named = [f"{at:03}" + "x" * 61 for at in range(20)]
    assert [error.field for error in found.errors] == named
    assert found.detail == "; ".join(f"{name}: there is no such field" for name in named[:5])


def test_problem_does_not_echo_the_input(client: Client) -> None:
    response = client.post("/search/images", json={"caption": 1, "k": "secret words"})
    problem(response, 422, "invalid")
    assert "secret" not in response.text


def test_docs_explain_every_reason(client: Client) -> None:
    page = client.get("/docs").text
    for reason, kind in REASONS.items():
        assert f'id="{reason}"' in page
        assert kind.title in page
