"""Requests for names that are not ours, and writes that pages of other sites send."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from pydantic import ValidationError
from starlette.datastructures import Headers

from hasse.service.app import create_app
from hasse.service.errors import ServiceError
from hasse.service.http.access import fingerprint
from hasse.service.http.hosts import Hosts
from hasse.service.settings import Settings
from tests.service.client import Client
from tests.service.collection import png
from tests.service.problems import problem

HERE = "127.0.0.1"
KEY = "hasse_writer"
FROM_ANOTHER_SITE = [
    {"Origin": "https://evil.example", "Sec-Fetch-Site": "cross-site"},
    {"Origin": "http://other.localhost", "Sec-Fetch-Site": "same-site"},
    {"Origin": "https://evil.example"},
    {"Origin": "null"},
    {"Sec-Fetch-Site": "cross-site"},
]


@pytest.mark.parametrize(
    "host",
    [
        "127.0.0.1",
        "127.0.0.1:8000",
        "127.9.9.9",
        "[::1]:8000",
        "localhost",
        "LocalHost.:80",
        "10.1.2.3:8000",  # the address that the connection came to
        "example.org",
        "Pictures.example.com:443",
    ],
)
def test_hosts_knows_loopback_its_address_and_allowed_names(host: str) -> None:
    hosts = Hosts(Settings(allowed_hosts="example.org, *.example.com"))
    assert hosts.knows(host, "10.1.2.3")


@pytest.mark.parametrize(
    "host",
    [
        "evil.example",
        "evil.example:8000",
        "127.0.0.1.evil.example",
        "localhost.evil.example",
        "notexample.org",
        "example.com",
        "10.1.2.4",
        "a//evil.example",
        "evil.example@localhost",
        "localhost evil",
        "localhost:80:80",
        "[::1",
        "",
        "é",
    ],
)
def test_hosts_refuses_other_names(host: str) -> None:
    hosts = Hosts(Settings(allowed_hosts="example.org, *.example.com"))
    assert not hosts.knows(host, "10.1.2.3")


@pytest.mark.parametrize("everywhere", ["0.0.0.0", "::", ""])  # noqa: S104
def test_hosts_of_all_addresses_knows_every_address_and_no_other_name(everywhere: str) -> None:
    hosts = Hosts(Settings(host=everywhere))
    for address in ("192.168.0.7:8000", "[fe80::1]:8000", "8.8.8.8"):
        assert hosts.knows(address, "172.17.0.2")
    assert not hosts.knows("evil.example", "172.17.0.2")
    assert Hosts(Settings(host="Box.local")).knows("box.local:8000", "192.168.0.7")


def test_star_allows_every_host() -> None:
    hosts = Hosts(Settings(allowed_hosts="*"))
    assert hosts.knows("evil.example", HERE)


@pytest.mark.parametrize("name", ["https://example.org", "example.org:8000", "a b", "a.*.org"])
def test_setting_that_names_no_host_is_refused(name: str) -> None:
    with pytest.raises(ValidationError, match="no name of a host"):
        Settings(allowed_hosts=name)


def test_request_for_another_name_gets_421_and_nothing_else(client: Client) -> None:
    for path in ("/images/1000", "/", "/livez", "/openapi.json", "/static/hasse.css"):
        for host in ("evil.example:8000", "a//evil.example"):
            response = client.get(path, headers={"Host": host})
            problem(response, 421, "wrong_host")
            assert "evil" not in response.text
    found = problem(client.get("/", headers={"Host": "evil.example"}), 421, "wrong_host")
    assert "HASSE_ALLOWED_HOSTS" in found.detail


@pytest.fixture(scope="module", params=["open", "key"])
def writable(request: pytest.FixtureRequest, collection: Path) -> Iterator[Client]:
    """A service in which all may write, and one where a key is needed."""
    more: dict[str, Any] = {"open_writes": True}
    if request.param == "key":
        more = {"write_keys": f"alice:{fingerprint(KEY)}"}
    settings = Settings(library=collection, device="cpu", **more)
    with Client(create_app(settings)) as client:
        yield client


@pytest.mark.parametrize("headers", FROM_ANOTHER_SITE)
def test_write_from_page_of_another_site_is_forbidden(
    writable: Client, headers: dict[str, str]
) -> None:
    headers = {"Host": "localhost", "Authorization": f"Bearer {KEY}", **headers}
    picture = {"image": ("a.png", png(1))}
    for refused in (
        writable.request("DELETE", "/images/77", headers=headers),
        writable.post("/images", files=picture, headers=headers),
    ):
        assert "other sites" in problem(refused, 403, "forbidden").detail
    form = {"captions": "a dog", "key": KEY}
    page = writable.post("/page/add", data=form, files=picture, headers=headers)
    assert page.status_code == 403


@pytest.mark.parametrize(
    "headers",
    [
        {},
        {"Origin": "http://localhost:8000", "Sec-Fetch-Site": "same-origin"},
        {"Origin": "http://localhost:8000"},
        # A proxy with TLS may send another Host.
        {"Origin": "https://example.org", "Sec-Fetch-Site": "same-origin"},
        {"Sec-Fetch-Site": "none"},
    ],
)
def test_write_from_own_page_or_program_is_let_in(
    writable: Client, headers: dict[str, str]
) -> None:
    headers = {"Host": "localhost:8000", "Authorization": f"Bearer {KEY}", **headers}
    problem(writable.request("DELETE", "/images/77", headers=headers), 404, "not_found")


@pytest.mark.parametrize("origins", ["*", "https://example.org"])
def test_listed_origin_may_write(origins: str) -> None:
    hosts = Hosts(Settings(cors_origins=origins))
    sent = {"Host": "localhost", "Origin": "https://example.org", "Sec-Fetch-Site": "cross-site"}
    hosts.require_same_origin(Headers(sent))
    with pytest.raises(ServiceError, match="other sites"):
        Hosts(Settings()).require_same_origin(Headers(sent))
