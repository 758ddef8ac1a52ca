"""Errors as pages show them."""

from __future__ import annotations

from pathlib import Path

import pytest

from hasse.service.app import create_app
from hasse.service.errors import REASONS, ServiceError
from hasse.service.http.access import fingerprint, new_key
from hasse.service.page.errors import message_for
from hasse.service.settings import Settings
from tests.service.client import Client


@pytest.mark.parametrize("reason", REASONS)
def test_message_of_each_reason_has_a_title_and_a_sentence(reason: str) -> None:
    message = message_for(ServiceError(reason, "something happened"), Settings())
    assert message.title[0].isupper()
    assert message.detail[0].isupper()
    assert message.detail.endswith(".")


def test_message_of_busy_suggests_to_try_again() -> None:
    assert message_for(ServiceError("busy", "full"), Settings()).retry
    assert not message_for(ServiceError("forbidden", "no"), Settings()).retry


def test_message_of_body_too_large_names_the_limit() -> None:
    settings = Settings(picture_bytes=2_500_000)
    assert "2.5 MB" in message_for(ServiceError("body_too_large", "n"), settings).detail


def test_unknown_address_is_a_page_for_a_browser_and_a_problem_for_a_program(
    client: Client,
) -> None:
    page = client.get("/nowhere", headers={"Accept": "text/html,*/*"})
    assert page.status_code == 404
    assert "There is no such page" in page.text
    assert client.get("/nowhere").json()["reason"] == "not_found"


def test_unknown_address_shows_nothing_of_a_service_with_keys(collection: Path) -> None:
    keyed = Settings(library=collection, device="cpu", read_keys=f"me:{fingerprint(new_key())}")
    with Client(create_app(keyed)) as client:
        refused = client.get("/nowhere", headers={"Accept": "text/html"})
    assert refused.status_code == 401
    assert "datalist" not in refused.text
