"""Ctrl-C as a request to stop, and what a second one does."""

from __future__ import annotations

import signal

import pytest

from hasse.lab.commands.long_running import stop_request

SIGNALS = (signal.SIGINT, signal.SIGTERM)


@pytest.mark.parametrize("number", SIGNALS)
def test_stop_request_first_signal_asks_and_second_interrupts(
    number: signal.Signals, capsys: pytest.CaptureFixture[str]
) -> None:
    with stop_request() as stop:
        assert not stop()
        signal.raise_signal(number)
        assert stop()
        assert (
            capsys.readouterr().err
            == "stopping after this step; press Ctrl-C again to stop at once\n"
        )
        with pytest.raises(KeyboardInterrupt):
            signal.raise_signal(number)
    assert capsys.readouterr().err == ""


def test_stop_request_patient_ignores_a_second_signal(
    capsys: pytest.CaptureFixture[str],
) -> None:
    with stop_request(patient=True) as stop:
        for _ in range(2):
            signal.raise_signal(signal.SIGINT)
        assert stop()
    assert capsys.readouterr().err == "stopping after this step\n"


def test_stop_request_silent_prints_nothing(capsys: pytest.CaptureFixture[str]) -> None:
    with stop_request(silent=True) as stop:
        signal.raise_signal(signal.SIGINT)
        assert stop()
    assert capsys.readouterr().err == ""


def test_stop_request_restores_signal_handlers() -> None:
    before = [signal.getsignal(number) for number in SIGNALS]

    def interrupted() -> None:
        with stop_request():
            assert [signal.getsignal(number) for number in SIGNALS] != before
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        interrupted()
    assert [signal.getsignal(number) for number in SIGNALS] == before
