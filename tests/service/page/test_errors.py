"""Errors as pages show them."""

from __future__ import annotations

import pytest

from hasse.service.errors import REASONS, ServiceError
from hasse.service.page.errors import message_for
from hasse.service.settings import Settings


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
