"""Compilation of CPU kernels by numba, and the number of threads that run them."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from typing import Any, TypeVar, cast

_MAX_ENCODERS = 4  # of pictures; each takes a few hundred megabytes

F = TypeVar("F", bound=Callable[..., Any])


def compiled(**options: Any) -> Callable[[F], F]:
    """Compile on first use, without the GIL; cache the machine code on disk if possible."""

    import numba  # takes longer than a command that needs no kernel

    def decorate(function: F) -> F:
        try:
            return cast(F, numba.njit(nogil=True, cache=True, **options)(function))
        except RuntimeError:  # numba found no folder it may write to: a read-only installation
            return cast(F, numba.njit(nogil=True, **options)(function))

    return decorate


def processor_threads() -> int:
    """Return the number of threads to use: torch's if it is imported, else that of processors.

    OMP_NUM_THREADS bounds both.
    """
    if (torch := sys.modules.get("torch")) is not None:
        return int(torch.get_num_threads())
    # macOS does not know which processors a process may use.
    knows_processors = hasattr(os, "sched_getaffinity")
    processors = len(os.sched_getaffinity(0)) if knows_processors else os.cpu_count() or 1
    limit = os.environ.get("OMP_NUM_THREADS", "")
    return min(processors, int(limit)) if limit.isdecimal() and int(limit) else processors


def encoder_threads() -> int:
    """Return the number of threads that encode pictures in parallel."""
    return min(processor_threads(), _MAX_ENCODERS)
