"""Ctrl-C as a request, and what a second one does."""

from __future__ import annotations

import signal

import pytest

from service.cli.terminal.interrupt import stop_request

SIGNALS = (signal.SIGINT, signal.SIGTERM)


@pytest.mark.parametrize("number", SIGNALS)
def test_the_first_asks_to_stop_and_the_second_stops_at_once(
    number: signal.Signals, capsys: pytest.CaptureFixture[str]
) -> None:
    with stop_request() as stop:
        assert not stop()
        signal.raise_signal(number)
        assert stop()
        assert capsys.readouterr().err == "stopping after this step; once more stops at once\n"
        with pytest.raises(KeyboardInterrupt):
            signal.raise_signal(number)
    assert capsys.readouterr().err == ""


def test_one_who_is_patient_is_not_interrupted_and_says_so_once(
    capsys: pytest.CaptureFixture[str],
) -> None:
    with stop_request(patient=True) as stop:
        for _ in range(2):
            signal.raise_signal(signal.SIGINT)
        assert stop()
    assert capsys.readouterr().err == "stopping after this step\n"


def test_one_who_is_silent_says_nothing(capsys: pytest.CaptureFixture[str]) -> None:
    with stop_request(silent=True) as stop:
        signal.raise_signal(signal.SIGINT)
        assert stop()
    assert capsys.readouterr().err == ""


def test_afterwards_signals_do_what_they_did_before() -> None:
    before = [signal.getsignal(number) for number in SIGNALS]

    def interrupted() -> None:
        with stop_request():
            assert [signal.getsignal(number) for number in SIGNALS] != before
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        interrupted()
    assert [signal.getsignal(number) for number in SIGNALS] == before
