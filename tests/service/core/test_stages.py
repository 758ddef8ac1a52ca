"""The stopwatch of a request."""

from __future__ import annotations

from service.core.stages import Stages


def test_the_time_in_line_counts_once_in_its_stage_and_in_the_total() -> None:
    stages = Stages(waited=20.0)
    stages.add("queue", 1.0)
    stages.add("queue", 0.5)
    stages.finish()
    assert stages.seconds["queue"] == 21.5
    assert stages.seconds["total"] >= 20.0
    assert "queue;dur=21500.00" in stages.header()
