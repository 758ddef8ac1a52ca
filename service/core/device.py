"""The device of the encoders."""

from __future__ import annotations

import ctypes
import sys

from hasse.models.errors import HasseError


class DeviceError(HasseError):
    """This machine has no such device. The message names its devices."""


def pick_device(name: str) -> str:
    """Return torch's name of a device; `auto` is CUDA if this machine has it, else the CPU.

    Raises:
        DeviceError: this machine has no such device.
    """
    if name == "cpu" or (name == "auto" and not _has_driver()):
        return "cpu"
    import torch

    if name == "auto":
        return "cuda" if torch.cuda.is_available() else "cpu"
    try:
        device = torch.device(name)
    except RuntimeError:
        device = torch.device("meta")
    if device.type not in {"cpu", "cuda"}:
        raise DeviceError(f"'{name}' is not a device we run on: use cpu, cuda, cuda:1 or auto")
    if device.type == "cuda" and (device.index or 0) >= torch.cuda.device_count():
        raise DeviceError(
            f"this machine has no {name} ({torch.cuda.device_count()} CUDA devices in all): "
            f"use --device cpu, or auto for CUDA where there is one"
        )
    return name


def _has_driver() -> bool:
    """Return whether a CUDA driver is installed, without torch, which takes seconds to import."""
    try:
        ctypes.CDLL("nvcuda.dll" if sys.platform == "win32" else "libcuda.so.1")
    except OSError:
        return False
    return True
