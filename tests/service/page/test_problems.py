"""Errors as visitors hear them."""

from __future__ import annotations

import pytest

from service.errors import REASONS, ServiceError
from service.page.problems import trouble
from service.page.views import Query
from service.settings import Settings


@pytest.mark.parametrize("reason", REASONS)
def test_every_error_is_a_sentence_and_a_way_on(reason: str) -> None:
    found = trouble(ServiceError(reason, "something happened"), Query(text="a dog"), Settings())
    assert found.title[0].isupper()
    assert found.detail[0].isupper()
    assert found.detail.endswith(".")
    assert found.url in {"/", "/?q=a+dog"}


def test_what_may_pass_leads_back_to_the_same_question() -> None:
    found = trouble(ServiceError("busy", "full"), Query(text="a dog", k=48), Settings())
    assert (found.remedy, found.url) == ("Try again", "/?q=a+dog&k=48")


def test_a_picture_that_is_too_large_is_told_the_limit() -> None:
    found = trouble(ServiceError("body_too_large", "n"), Query(), Settings(picture_bytes=2_500_000))
    assert "2.5 MB" in found.detail
