"""Every setting is a named field with a sentence, and the environment sets it."""

from __future__ import annotations

import pytest
from pydantic import ValidationError

from hasse.service.settings import Settings, descriptions
from tests.service.client import Client


@pytest.mark.parametrize("name", Settings.model_fields)
def test_every_setting_is_described_in_one_sentence(name: str) -> None:
    description = descriptions()[name]
    assert description[0].isupper()
    assert description.endswith(".")
    assert len(description) > 20


def test_api_page_lists_every_setting(client: Client) -> None:
    page = client.get("/docs").text
    for name in Settings.model_fields:
        assert f"HASSE_{name.upper()}" in page


def test_environment_sets_settings(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HASSE_IN_FLIGHT", "3")
    monkeypatch.setenv("HASSE_LOG_FORMAT", "json")
    settings = Settings()
    assert (settings.in_flight, settings.log_format) == (3, "json")
    assert Settings(in_flight=5).in_flight == 5


TIMES = [name for name in Settings.model_fields if name.endswith("_seconds")]


@pytest.mark.parametrize("name", TIMES)
@pytest.mark.parametrize("value", ["inf", "1e300", "nan", "-1"])
def test_time_that_no_thread_can_wait_for_is_refused(
    monkeypatch: pytest.MonkeyPatch, name: str, value: str
) -> None:
    monkeypatch.setenv(f"HASSE_{name.upper()}", value)
    with pytest.raises(ValidationError, match=name):
        Settings()


OPTIONAL = [
    name
    for name, field in Settings.model_fields.items()
    if field.default is None or field.default == ""
]


@pytest.mark.parametrize("name", OPTIONAL)
def test_empty_text_is_the_empty_default(monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    assert "when empty" in descriptions()[name]
    monkeypatch.delenv("HASSE_OCR")  # that of all tests
    monkeypatch.setenv(f"HASSE_{name.upper()}", "")
    assert Settings() == Settings.model_construct()


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("PORT", "70000"),
        ("IN_FLIGHT", "0"),
        ("DEADLINE_SECONDS", "-1"),
        ("K_MAXIMUM", "1001"),
        ("SEARCHES_PER_MINUTE", "0"),
        ("WRITES_PER_MINUTE", "0"),
        ("READ_KEYS", f"me:{'0' * 63}"),
        ("WRITE_KEYS", f"me:{'0' * 65}"),
        ("READ_KEYS", ","),
        ("WRITE_KEYS", " , "),
    ],
)
def test_setting_out_of_bounds_is_refused_by_name(
    monkeypatch: pytest.MonkeyPatch, name: str, value: str
) -> None:
    monkeypatch.setenv(f"HASSE_{name}", value)
    with pytest.raises(ValidationError, match=name.lower()):
        Settings()
