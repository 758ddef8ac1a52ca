"""Networks run by ONNX Runtime in float32: on any processor, NVIDIA's cards or Apple's chips."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from hasse.models.networks.network import Array, NetworkError, Shape, unfit

_PROVIDERS = {"cuda": "CUDAExecutionProvider", "mps": "CoreMLExecutionProvider"}
_ERRORS_ONLY = 3  # ONNX Runtime's level of logs


class OnnxRuntimeNetwork:
    """A network in a session of ONNX Runtime; see `Network`."""

    def __init__(self, source: Path | bytes, device: str = "cpu") -> None:
        """Open an ONNX file, or its content, on a device or else on the processor.

        Raises:
            NetworkError: ONNX Runtime cannot read it.
        """
        runtime = import_onnxruntime()
        options = runtime.SessionOptions()
        # A request runs on the thread that makes it.
        options.intra_op_num_threads = options.inter_op_num_threads = 1
        options.log_severity_level = _ERRORS_ONLY
        provider = provider_of(device)
        self.device = "cpu" if provider is None else device
        try:
            self._session = runtime.InferenceSession(
                source,
                options,
                providers=[*([provider] if provider else []), "CPUExecutionProvider"],
            )
        except Exception as error:  # its errors have no common base class
            raise NetworkError(
                f"{source if isinstance(source, Path) else 'a built graph'} is not a network that "
                f"ONNX Runtime reads ({str(error).strip().splitlines()[0]})",
                "restore it",
            ) from error
        self.inputs: Mapping[str, Shape] = _shapes(self._session.get_inputs())
        self.outputs: Mapping[str, Shape] = _shapes(self._session.get_outputs())

    @property
    def dtype(self) -> str:
        """The type of the computation and the runtime, in words."""
        return "float32 by ONNX Runtime"

    def run(self, inputs: Mapping[str, Array]) -> dict[str, Array]:
        """Compute all outputs of one request; see `Network.run`."""
        try:
            outputs = self._session.run(None, dict(inputs))
        except Exception as error:
            raise unfit(self, inputs) from error
        return dict(zip(self.outputs, outputs, strict=True))


def import_onnxruntime() -> Any:
    """Import ONNX Runtime without its telemetry, which would report its use to its maker."""
    os.environ["ORT_DISABLE_TELEMETRY"] = "1"
    import onnxruntime

    onnxruntime.disable_telemetry_events()
    return onnxruntime


def provider_of(device: str) -> tuple[str, dict[str, str]] | None:
    """Return what the installed ONNX Runtime uses for a device such as "cuda:1"; None for none."""
    kind, _, number = device.partition(":")
    provider = _PROVIDERS.get(kind)
    if provider is None or provider not in import_onnxruntime().get_available_providers():
        return None
    return provider, {"device_id": number} if number else {}


def _shapes(ports: list[Any]) -> dict[str, Shape]:
    return {
        port.name: tuple(side if isinstance(side, int) else None for side in port.shape)
        for port in ports
    }
