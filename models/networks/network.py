"""A network in ONNX's format, opened by one of two runtimes.

Each request runs on one thread, so the bits of an output do not depend on other requests. Several
threads may run a network at the same time.
"""

from __future__ import annotations

import platform
from collections.abc import Mapping
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Literal, Protocol, TypeAlias

from numpy.typing import NDArray

from hasse.models.errors import HasseError

Runtime: TypeAlias = Literal["auto", "openvino", "onnxruntime"]
Array: TypeAlias = NDArray[Any]
Shape: TypeAlias = tuple[int | None, ...]  # None: any number

_X86 = {"x86_64", "AMD64"}


class NetworkError(HasseError):
    """A network or its runtime cannot be used; the message has the reason and the remedy."""


class Network(Protocol):
    """An opened network; several threads may run it at the same time.

    Attributes:
        inputs: shapes of the inputs by their names.
        outputs: shapes of the outputs by their names.
        device: where it runs: "cpu", "cuda" or "mps".
        dtype: the type of the computation and the runtime, in words.
    """

    @property
    def inputs(self) -> Mapping[str, Shape]: ...
    @property
    def outputs(self) -> Mapping[str, Shape]: ...
    @property
    def device(self) -> str: ...
    @property
    def dtype(self) -> str: ...

    def run(self, inputs: Mapping[str, Array]) -> dict[str, Array]:
        """Compute all outputs of one request.

        Raises:
            NetworkError: the network cannot take inputs of these names, types or shapes.
        """
        ...


def open_network(source: Path | bytes, runtime: Runtime = "auto", device: str = "cpu") -> Network:
    """Open a network.

    Args:
        source: an ONNX file, beside which lie the files it refers to; or the content of one.
        runtime: `auto` is OpenVINO on processors of x86-64, where it is fastest, else ONNX Runtime.
        device: "cpu", or "cuda" or "mps" to run there if ONNX Runtime can, else on the processor.

    Raises:
        NetworkError: the runtime is not installed, or cannot run the network.
    """
    if (chosen := choose_runtime(runtime, device)) == "openvino":
        from hasse.models.networks.openvino_network import OpenVinoNetwork

        return OpenVinoNetwork(source)
    if find_spec(chosen) is None:
        raise NetworkError(
            "no runtime for networks is installed", "pip install openvino (or onnxruntime)"
        )
    from hasse.models.networks.onnxruntime_network import OnnxRuntimeNetwork

    return OnnxRuntimeNetwork(source, device)


def choose_runtime(runtime: Runtime, device: str = "cpu") -> Literal["openvino", "onnxruntime"]:
    """Return the runtime that opens networks on a device.

    Raises:
        NetworkError: the named runtime is not installed.
    """
    if runtime != "auto":
        if find_spec(runtime) is None:
            raise NetworkError(
                f"HASSE_ENCODER_RUNTIME is {runtime}, which is not installed",
                f"pip install {runtime}, or unset HASSE_ENCODER_RUNTIME",
            )
        return runtime
    if find_spec("onnxruntime") is None:
        return "openvino" if find_spec("openvino") is not None else "onnxruntime"
    on_processor = device == "cpu" or not has_provider(device)
    if on_processor and platform.machine() in _X86 and find_spec("openvino") is not None:
        return "openvino"
    return "onnxruntime"


def has_provider(device: str) -> bool:
    """Return whether the installed ONNX Runtime can run networks on a device such as "cuda:1"."""
    from hasse.models.networks.onnxruntime_network import provider_of

    return provider_of(device) is not None


def unfit(network: Network, inputs: Mapping[str, Array]) -> NetworkError:
    """Return the error for inputs that a network cannot take."""
    given = ", ".join(f"{name} {array.dtype} {array.shape}" for name, array in inputs.items())
    taken = ", ".join(f"{name} {shape}" for name, shape in network.inputs.items())
    return NetworkError(f"the network takes {taken or 'no inputs'}, not {given or 'none'}")
