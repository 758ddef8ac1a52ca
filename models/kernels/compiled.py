"""How numba compiles the kernels of a CPU."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar, cast

import numba

F = TypeVar("F", bound=Callable[..., Any])


def compiled(**options: Any) -> Callable[[F], F]:
    """Compile on first use, without the GIL; keep the machine code on disk where possible."""

    def decorate(function: F) -> F:
        try:
            return cast(F, numba.njit(nogil=True, cache=True, **options)(function))
        except RuntimeError:  # numba found no folder it may write to: a read-only installation
            return cast(F, numba.njit(nogil=True, **options)(function))

    return decorate
