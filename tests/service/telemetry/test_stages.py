"""The stopwatch of a request."""

from __future__ import annotations

from hasse.service.telemetry.stages import STAGES, Stages


def test_measure_of_a_stage_that_happens_twice_adds_both() -> None:
    stages = Stages()
    for _ in range(2):
        before = stages.seconds["decode"]
        with stages.measure("decode"):
            pass
        assert stages.seconds["decode"] > before


def test_header_names_every_stage_in_milliseconds() -> None:
    stages = Stages()
    stages.seconds["queue"] = 21.5
    header = stages.header()
    assert [part.split(";")[0] for part in header.split(", ")] == [*STAGES, "statements"]
    assert "queue;dur=21500.00" in header
    stages.statements = 7
    assert stages.header().endswith('statements;desc="7"')
