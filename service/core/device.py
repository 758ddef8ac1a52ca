"""The device of the encoders and of the index."""

from __future__ import annotations

import ctypes
import re
import sys
from functools import cache
from importlib.util import find_spec

from hasse.models.errors import HasseError, pip_install
from hasse.service.telemetry.logs import event


class DeviceError(HasseError):
    """This machine has no such device. The message names its devices."""


def pick_device(name: str) -> str:
    """Return the name of a device; `auto` is CUDA if this machine can use it, else the CPU.

    Raises:
        DeviceError: this machine has no such device, or the packages for it are missing.
    """
    kind, _, number = name.partition(":")
    if not re.fullmatch(r"auto|cpu|cuda(:\d+)?", name):
        raise DeviceError(f"'{name}' is not a device we run on: use cpu, cuda, cuda:1 or auto")
    if kind == "cpu" or (kind == "auto" and not _has_driver()):
        return "cpu"
    if kind == "auto":
        return "cuda" if _has_packages() and _devices() else "cpu"
    if not _has_packages():
        raise DeviceError(f"{name} needs packages that are missing: {pip_install('gpu')}")
    if int(number or 0) >= _devices():
        raise DeviceError(
            f"this machine has no {name} ({_devices()} CUDA devices in all): "
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


@cache
def _has_packages() -> bool:
    """Return whether the extra for GPUs is installed; if not, log the command that installs it."""
    installed = all(find_spec(package) is not None for package in ("torch", "triton"))
    if not installed:
        event("the NVIDIA GPU is not used", install=pip_install("gpu"))
    return installed


def _devices() -> int:
    from hasse.index.search.gpu_scan import count_devices

    return count_devices()
