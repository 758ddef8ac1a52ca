"""Weights of pretrained networks: read from a file, without running code, and loaded."""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from hasse.models.errors import BackboneError
from hasse.models.regular_file import raise_system_error
from hasse.models.tensor_files import system_errors

if TYPE_CHECKING:
    from torch import Tensor, nn

_COUNTER = "num_batches_tracked"


def require_weights(
    name: str,
    network: nn.Module,
    weights: Mapping[str, Tensor],
    path: Path,
    ignored: tuple[str, ...] = (),
) -> None:
    """Load the weights of a file into a network; they have to be complete and no others.

    Args:
        name: of the encoder.
        path: the file of the weights, for messages.
        ignored: prefixes of other weights that the file may have.

    Raises:
        BackboneError: the weights are not those of the network.
    """
    try:
        result = network.load_state_dict(dict(weights), strict=False)
        # Old files lack batch counters, and whole networks have classifiers.
        problems = [
            *(f"{key} is missing" for key in result.missing_keys if not key.endswith(_COUNTER)),
            *(
                f"{key} is not part of it"
                for key in result.unexpected_keys
                if not key.startswith(ignored)
            ),
        ]
    except RuntimeError as error:  # other shapes; or sparse, quantised or meta tensors
        problems = str(error).splitlines()[1:] or [str(error)]
    if problems:
        first = problems[0].strip().rstrip(".")
        rest = f", and {len(problems) - 1:,} more" if len(problems) > 1 else ""
        raise BackboneError(
            f"{path} does not hold weights of {name} ({first}{rest}): name the encoder they belong "
            f"to, or another file"
        )


def read_weights(path: Path) -> dict[str, Tensor]:
    """Read a state dict: a `.safetensors` file, or one that torch saved.

    Raises:
        BackboneError: there is no such file, or it holds something else.
        OSError: see `raise_system_error`.
    """
    import torch
    from safetensors.torch import load_file

    if not path.is_file():
        raise BackboneError(f"there is no weights file {path}")
    try:
        if path.suffix == ".safetensors":
            with system_errors(path):
                content: object = load_file(path)
        else:
            with warnings.catch_warnings():  # old pickles warn; the error below is clearer
                warnings.simplefilter("ignore", UserWarning)
                content = torch.load(path, map_location="cpu", weights_only=True)
    except Exception as error:  # torch's reader of pickles may raise any error on other files
        raise_system_error(error)
        reason = str(error).splitlines()[0] if str(error) else type(error).__name__
        if type(error).__name__ == "UnpicklingError":  # its message advises to run the file's code
            reason = "it holds other things than tensors"
        raise BackboneError(
            f"{path} cannot be read as weights ({reason}): "
            f"it should be a .safetensors file or a state dict saved by torch"
        ) from error
    if not isinstance(content, Mapping) or not all(
        isinstance(key, str) and isinstance(value, torch.Tensor) for key, value in content.items()
    ):
        raise BackboneError(f"{path} is not a state dict: save model.state_dict() and name that")
    return dict(content)
