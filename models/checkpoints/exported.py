"""Networks that torch has exported, kept for processes that do without it.

Each is a folder of `networks` in `HASSE_HOME`, by the fingerprint of the model it is part of.
"""

from __future__ import annotations

import platform
import shutil
from collections.abc import Callable
from contextlib import suppress
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING

from safetensors import SafetensorError

from hasse.models.checkpoints.model_folder import SUMS, CheckpointError, ModelKind
from hasse.models.checkpoints.weights import tensors, weights
from hasse.models.encoders import compiled_network
from hasse.models.encoders.compiled_network import CompiledNetwork, ExportedNetwork
from hasse.models.encoders.names import Runtime
from hasse.models.encoders.weights import BackboneError
from hasse.models.home import home

if TYPE_CHECKING:
    import torch

    from hasse.models.encoders.backbone import Backbone

KIND = ModelKind("network", "hasse add", 1, ())
_MOST = 8  # networks that are kept; those of this size have 25 MB


def network_of(
    fingerprint: str, build: Callable[[], Backbone], runtime: Runtime, device: str | torch.device
) -> CompiledNetwork | None:
    """Return the network of a model, ready to run without torch.

    What was exported before is read, else what `build` returns is exported and kept. None where
    torch is to encode, or OpenVINO cannot run such a network.

    Raises:
        BackboneError: OpenVINO is to encode, and is not installed.
    """
    if str(device) != "cpu" or not (runtime == "openvino" or (runtime == "auto" and _is_fast())):
        return None
    if not is_installed():
        if runtime == "auto":
            return None
        raise BackboneError("HASSE_ENCODER_RUNTIME is openvino: pip install openvino, or unset it")
    folder = home() / "networks" / fingerprint
    exported = _read(folder)
    if exported is None and (exported := compiled_network.export(build())) is not None:
        with suppress(OSError, SafetensorError):  # a home that cannot be written, or a full disk
            _keep(folder, exported)
    return None if exported is None else CompiledNetwork(exported)


def is_installed() -> bool:
    """Tell whether OpenVINO is there."""
    return find_spec("openvino") is not None


def _is_fast() -> bool:
    """Tell whether OpenVINO was found to take less time than torch on such processors."""
    return platform.machine() in {"x86_64", "AMD64"}


def _read(folder: Path) -> ExportedNetwork | None:
    try:
        with KIND.open(folder) as (config, _), weights(folder) as arrays:
            return ExportedNetwork(config["name"], config["network"], arrays)
    except (CheckpointError, OSError):
        return None


def _keep(folder: Path, exported: ExportedNetwork) -> None:
    config = {"name": exported.name, "network": exported.fingerprint}
    KIND.save(folder, config, tensors(exported.arrays), {})
    kept = sorted(folder.parent.glob(f"*/{SUMS}"), key=lambda path: -path.stat().st_mtime)
    for path in kept[_MOST:]:
        shutil.rmtree(path.parent, ignore_errors=True)
