"""Decorators that compile kernels with numba, and invalidate outdated machine code on disk."""

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
    """Compile at the first call, without the GIL; cache the machine code on disk if possible."""
    return _compile(function, nogil=True)


def brief(function: F) -> F:
    """Compile as `kernel` does, but keep the GIL: for work of microseconds.

    A thread that releases the GIL may wait up to 5 ms to get it back.
    """
    return _compile(function, nogil=False)


def reduction(function: F) -> F:
    """Compile as `kernel` does, and allow sums in any order, which vectorization needs.

    The order is fixed when the function is compiled. Numba links the same machine code into every
    kernel that calls it, so all of them compute the same bits.
    """
    return _compile(function, nogil=True, fastmath=_ANY_ORDER, forceinline=True)


def _compile(function: F, **options: Any) -> F:
    try:
        compiled = numba.njit(cache=True, **options)(function)
    except RuntimeError:  # numba found no writable folder: a read-only installation
        return cast(F, numba.njit(**options)(function))
    # Numba checks only the file of the function itself, but the machine code also contains
    # functions of other files.
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
