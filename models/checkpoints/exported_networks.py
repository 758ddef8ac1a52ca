"""Networks exported by torch, stored for processes that run without it.

Each is a folder in `HASSE_HOME/networks`, named by the fingerprint of its model.
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
from hasse.models.errors import BackboneError
from hasse.models.home import home

if TYPE_CHECKING:
    import torch

    from hasse.lab.encoders.backbone import Backbone

KIND = ModelKind("network", "hasse add", 1, ())
_MAX_NETWORKS = 8  # on disk, of about 25 MB each


def network_of(
    fingerprint: str, build: Callable[[], Backbone], runtime: Runtime, device: str | torch.device
) -> CompiledNetwork | None:
    """Return the network of a model, ready to run without torch, or None.

    Reads a stored network, else exports the one that `build` returns and stores it. None if torch
    encodes pictures, or OpenVINO cannot run such a network.

    Raises:
        BackboneError: the runtime is OpenVINO, which is not installed.
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
            _store(folder, exported)
    return None if exported is None else CompiledNetwork(exported)


def is_installed() -> bool:
    """Return whether OpenVINO is installed."""
    return find_spec("openvino") is not None


def _is_fast() -> bool:
    """Return whether OpenVINO is known to be faster than torch on such processors."""
    return platform.machine() in {"x86_64", "AMD64"}


def _read(folder: Path) -> ExportedNetwork | None:
    try:
        with KIND.open(folder) as (config, _), weights(folder) as arrays:
            return ExportedNetwork(config["name"], config["network"], arrays)
    except (CheckpointError, OSError):
        return None


def _store(folder: Path, exported: ExportedNetwork) -> None:
    config = {"name": exported.name, "network": exported.fingerprint}
    KIND.save(folder, config, tensors(exported.arrays), {})
    stored = sorted(folder.parent.glob(f"*/{SUMS}"), key=lambda path: -path.stat().st_mtime)
    for path in stored[_MAX_NETWORKS:]:
        shutil.rmtree(path.parent, ignore_errors=True)
