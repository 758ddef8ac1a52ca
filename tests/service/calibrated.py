"""Calibrations of running applications."""

from __future__ import annotations

from dataclasses import replace

import pytest

from hasse.models.calibration import Calibrations
from hasse.service.core.caption_order import CaptionOrder
from tests.service.client import Client


def calibrate(client: Client, monkeypatch: pytest.MonkeyPatch, known: Calibrations) -> None:
    """Let the model of an application be calibrated like this until the test ends."""
    engine = client.engine
    checkpoint = replace(engine.checkpoint, calibration=known)
    monkeypatch.setattr(engine, "checkpoint", checkpoint)
    monkeypatch.setattr(engine.searcher, "caption_order", CaptionOrder(checkpoint))


def learn(client: Client, monkeypatch: pytest.MonkeyPatch, threshold: float | None) -> None:
    """Let a model call that true between captions which violates no more; None: nobody knows."""
    known = client.engine.checkpoint.calibration
    assert known.caption is not None
    told = None if threshold is None else replace(known.caption, threshold=threshold)
    calibrate(client, monkeypatch, replace(known, caption=told))
