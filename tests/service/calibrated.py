"""Calibrations of running applications."""

from __future__ import annotations

from dataclasses import replace

import pytest

from hasse.models.calibration import Calibration, Calibrations
from hasse.service.core.caption_order import CaptionOrder
from tests.service.client import Client


def calibrate(client: Client, monkeypatch: pytest.MonkeyPatch, known: Calibrations) -> None:
    """Let the model of an application be calibrated like this until the test ends."""
    engine = client.engine
    checkpoint = replace(engine.checkpoint, calibration=known)
    monkeypatch.setattr(engine, "checkpoint", checkpoint)
    monkeypatch.setattr(engine, "judge", checkpoint.judge("image"))
    monkeypatch.setattr(engine.searcher, "caption_order", CaptionOrder(checkpoint))


def learn(client: Client, monkeypatch: pytest.MonkeyPatch, threshold: float | None) -> None:
    """Let a model call that true between captions which violates no more; None: nobody knows."""
    known = client.engine.checkpoint.calibration
    told = None
    if threshold is not None:
        told = Calibration((threshold, threshold + 1e-4), (1.0, 0.0), threshold, pairs=2, true=1)
    calibrate(client, monkeypatch, replace(known, caption=told))
