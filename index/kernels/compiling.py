"""How numba compiles the kernels, and when its machine code on disk is out of date."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar, cast

import numba

F = TypeVar("F", bound=Callable[..., Any])

_ANY_ORDER = {"reassoc", "contract"}  # of addition; NaN and infinity keep their meaning
_PACKAGE = Path(__file__).parent.parent


def kernel(function: F) -> F:
    """Compile on first use, without the GIL; keep the machine code on disk where possible."""
    return _compiled(function, nogil=True)


def brief(function: F) -> F:
    """Compile as `kernel` does, but keep the GIL: for work that takes less than waiting for it.

    A thread that releases the GIL may wait up to 5 ms to get it back.
    """
    return _compiled(function, nogil=False)


def reduction(function: F) -> F:
    """Compile as `kernel` does, and let sums be added in any order, which vectors need.

    The order is fixed when the function is compiled. Numba links the finished code into every
    kernel that calls it, so all of them get the same bits for the same numbers.
    """
    return _compiled(function, nogil=True, fastmath=_ANY_ORDER, forceinline=True)


def _compiled(function: F, **options: Any) -> F:
    try:
        compiled = numba.njit(cache=True, **options)(function)
    except RuntimeError:  # numba found no folder it may write to: a read-only installation
        return cast(F, numba.njit(**options)(function))
    # Numba compares only the file of the function itself. The machine code also contains functions
    # of other files.
    file = compiled._cache._cache_file
    file._source_stamp = (file._source_stamp, _SOURCES)
    return cast(F, compiled)


def digest(folders: list[Path]) -> str:
    """Return the SHA-256 of all Python files in some folders."""
    fingerprint = hashlib.sha256()
    for path in sorted(path for folder in folders for path in folder.glob("*.py")):
        fingerprint.update(path.read_bytes())
    return fingerprint.hexdigest()


_SOURCES = digest([_PACKAGE / "kernels", _PACKAGE / "bounds"])
