"""Calibrations of running applications."""

from __future__ import annotations

from dataclasses import replace

import pytest

from service.core.engine import Engine
from tests.service.client import Client


def learn(client: Client, monkeypatch: pytest.MonkeyPatch, threshold: float | None) -> None:
    """Let a model call that true between captions which violates no more; None: nobody knows."""
    engine: Engine = client.engine
    known = engine.checkpoint.calibration
    assert known.caption is not None
    told = None if threshold is None else replace(known.caption, threshold=threshold)
    known = replace(known, caption=told)
    monkeypatch.setattr(engine, "checkpoint", replace(engine.checkpoint, calibration=known))
