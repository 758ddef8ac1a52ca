"""Waiting for a device, so that what it was asked for counts in what is timed."""

from __future__ import annotations

import torch


def wait(device: str) -> None:
    """Return when a GPU has done all it was asked for; a CPU has."""
    if torch.device(device).type == "cuda":
        torch.cuda.synchronize()
