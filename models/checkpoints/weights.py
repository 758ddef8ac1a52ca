"""The weights of a model on disk: float32, float16, or one byte each.

    float32, float16   every matrix in that type
    int8               `NAME` int8, and beside it `NAME.scale` float32, one for each row (the first
                       dimension): weight = byte * scale

Vectors (biases, batch statistics) are few and stay float32. Scales are powers of two, so rounding
a matrix to bytes a second time changes nothing, whatever type it had in between.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Literal, TypeAlias

import numpy as np
from numpy.typing import NDArray
from safetensors import SafetensorError, safe_open

from hasse.models.checkpoints.model_folder import CONFIG, WEIGHTS, CheckpointError
from hasse.models.tensor_files import system_errors

Array: TypeAlias = NDArray[Any]
WeightDtype: TypeAlias = Literal["float32", "float16", "int8"]

SCALE = ".scale"
# Names of tensors: of versions up to 0.2.0, and the current ones.
_OLD_NAMES = (
    ("crowd.sharpness", "hubness.inverse_temperature"),
    ("crowd.", "hubness."),
    ("extent.", "length_head."),
)
_TOP = 127
_LEAST = 2.0**-24  # smallest positive float16


def quantize(weights: Mapping[str, Array], dtype: WeightDtype) -> dict[str, Array]:
    """Convert weights to a stored type."""
    stored: dict[str, Array] = {}
    for key, value in weights.items():
        if value.dtype.kind != "f" or value.ndim < 2 or dtype == "float32":
            stored[key] = value
        elif dtype == "float16":
            stored[key] = value.astype(np.float16)
        else:
            stored[key], stored[key + SCALE] = _to_bytes(value.astype(np.float32, copy=False))
    return stored


def dequantize(stored: Mapping[str, Array]) -> dict[str, Array]:
    """Convert stored weights to float32, in new memory.

    Raises:
        ValueError: a matrix of bytes has no scales; the message names it.
    """
    weights = {}
    for key, value in stored.items():
        scale = stored.get(key + SCALE)
        if key.endswith(SCALE) and key.removesuffix(SCALE) in stored:
            continue
        if scale is not None:
            weights[key] = value.astype(np.float32) * scale.reshape(-1, *[1] * (value.ndim - 1))
        elif value.dtype == np.int8:
            raise ValueError(f"{key} is stored in bytes, and {key + SCALE} is missing")
        else:
            weights[key] = value.astype(np.float32 if value.dtype.kind == "f" else value.dtype)
    return weights


def _to_bytes(matrix: Array) -> tuple[Array, Array]:
    largest = np.abs(matrix).reshape(len(matrix), -1).max(1, initial=0)
    # largest / 127 is fraction * 2^power, fraction in [1/2, 1): take the next power of two.
    fraction, power = np.frexp(largest / np.float32(_TOP))
    scale = np.ldexp(np.ones_like(largest), power - (fraction == 0.5))
    scale = np.where(largest > 0, scale, 0).clip(_LEAST).astype(np.float32)
    rounded = np.rint(matrix / scale.reshape(-1, *[1] * (matrix.ndim - 1)))
    with np.errstate(invalid="ignore"):  # a training looks for weights that are no numbers itself
        return rounded.astype(np.int8), scale


@contextmanager
def weights(folder: Path, without: str | None = None) -> Iterator[dict[str, Array]]:
    """Yield the weights of a folder as float32, for a model to load.

    Those whose names begin with `without` are not read.

    Raises:
        CheckpointError: the weights are damaged or not finite; or the caller's block raised a
            RuntimeError, ValueError or KeyError, which weights of another model cause.
        OSError: the file cannot be opened.
    """
    path = folder / WEIGHTS
    try:
        with system_errors(path):
            stored = _read(path, without)
        arrays = {current_name(key): array for key, array in dequantize(stored).items()}
        # No violation compares as smaller than NaN, so a metric would call NaN perfect.
        bad = next((key for key, array in arrays.items() if not np.isfinite(array).all()), None)
        if bad is not None:
            raise CheckpointError(
                f"{path} has weights that are not finite numbers ({bad}): restore it or train "
                f"the model again, at a lower learning rate"
            )
        yield arrays
    except (SafetensorError, RuntimeError, ValueError, KeyError) as error:
        reason = str(error).splitlines()[0]
        raise CheckpointError(
            f"{path} does not hold the weights of {CONFIG} ({reason}); restore it or train the "
            f"model again"
        ) from error


def stored_names(folder: Path) -> list[str]:
    """Return the names of the tensors in the weights of a folder; raises as `weights`."""
    path = folder / WEIGHTS
    try:
        with system_errors(path), safe_open(path, "numpy") as file:
            return list(file.keys())
    except SafetensorError as error:
        raise CheckpointError(f"{path} is damaged ({error}): restore it") from error


def _read(path: Path, without: str | None) -> dict[str, Array]:
    with safe_open(path, "numpy") as file:
        names = (key for key in list(file.keys()) if without is None or not key.startswith(without))
        return {key: file.get_tensor(key) for key in names}


def current_name(key: str) -> str:
    """Return the current name of a tensor that an earlier version may have written."""
    for old, new in _OLD_NAMES:
        key = key.replace(old, new)
    return key
