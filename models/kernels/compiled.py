"""How numba compiles the kernels of a CPU, and the threads they run on."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from typing import Any, TypeVar, cast

_MOST_ENCODERS = 4  # of pictures; each takes a few hundred megabytes

F = TypeVar("F", bound=Callable[..., Any])


def compiled(**options: Any) -> Callable[[F], F]:
    """Compile on first use, without the GIL; keep the machine code on disk where possible."""

    import numba  # takes longer than a command that needs no kernel

    def decorate(function: F) -> F:
        try:
            return cast(F, numba.njit(nogil=True, cache=True, **options)(function))
        except RuntimeError:  # numba found no folder it may write to: a read-only installation
            return cast(F, numba.njit(nogil=True, **options)(function))

    return decorate


def processor_threads() -> int:
    """Return how many threads to use: torch's number where it runs, else that of the processors.

    OMP_NUM_THREADS bounds both.
    """
    if (torch := sys.modules.get("torch")) is not None:
        return int(torch.get_num_threads())
    # macOS does not tell which processors a process may use.
    known = hasattr(os, "sched_getaffinity")
    processors = len(os.sched_getaffinity(0)) if known else os.cpu_count() or 1
    given = os.environ.get("OMP_NUM_THREADS", "")
    return min(processors, int(given)) if given.isdecimal() and int(given) else processors


def encoder_threads() -> int:
    """Return how many threads encode pictures side by side."""
    return min(processor_threads(), _MOST_ENCODERS)
