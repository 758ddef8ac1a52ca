"""Tensors in safetensors files, written whole or not at all."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray
from safetensors import SafetensorError
from safetensors.numpy import save_file

from hasse.models import files

Value = TypeVar("Value")


def with_prefix(prefix: str, tensors: Mapping[str, Value]) -> dict[str, Value]:
    """Return the tensors whose names have a prefix, by their names without it."""
    return {
        key.removeprefix(prefix): value for key, value in tensors.items() if key.startswith(prefix)
    }


def write_weights(
    path: Path, weights: Mapping[str, NDArray[Any]], notes: Mapping[str, str] | None = None
) -> None:
    """Write arrays to one safetensors file, as `write_atomically` does.

    `notes` are stored in its header.

    Raises:
        OSError: the file cannot be written; it is deleted.
    """
    partial = path.with_name(f"{path.name}.partial")
    contiguous = {key: np.asarray(value, order="C") for key, value in weights.items()}
    try:
        with system_errors(path):
            save_file(contiguous, partial, dict(notes) if notes else None)
    except (SafetensorError, OSError):
        partial.unlink(missing_ok=True)  # a full disk has no room for half a file
        raise
    partial.chmod(0o644)  # safetensors allows only the owner; a container runs as another user
    files.publish_file(partial, path)


@contextmanager
def system_errors(path: Path) -> Iterator[None]:
    """Raise OSErrors that safetensors and torch hide when they read or write `path`.

    Raises:
        OSError: the library's message has an error number; or `path` exists and cannot be opened,
            which safetensors reports as "no such file".
    """
    try:
        yield
    except (SafetensorError, RuntimeError, FileNotFoundError) as error:
        if isinstance(error, FileNotFoundError):
            with path.open("rb"):
                pass
        for number in re.findall(r"\((?:os error )?(\d+)\)", str(error)):
            cause = os.strerror(int(number))
            if cause in str(error):
                raise OSError(int(number), cause, str(path)) from error
        raise
