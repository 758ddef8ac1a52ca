"""Networks run by OpenVINO, on processors; in bfloat16 where the processor has it.

It takes half of torch's time for a picture, and a sixth of a second to import.
"""

from __future__ import annotations

import sys
import threading
from collections.abc import Mapping
from functools import cache, lru_cache
from pathlib import Path
from types import ModuleType
from typing import Any, cast

import numpy as np

from hasse.models.kernels.compiled import encoder_threads
from hasse.models.networks.network import Array, NetworkError, Shape, unfit

# Compiled variants that are kept, by the shapes of inputs; each takes a few tens of megabytes.
_VARIANTS = 8
_LOCK = threading.Lock()


class OpenVinoNetwork:
    """A network compiled once for each shape of its inputs; see `Network`."""

    device = "cpu"

    def __init__(self, source: Path | bytes) -> None:
        """Open an ONNX file, or its content.

        Raises:
            NetworkError: OpenVINO cannot read it.
        """
        try:
            self._graph = _core().read_model(source)
        except RuntimeError as error:
            raise NetworkError(
                f"{_name(source)} is not a network that OpenVINO reads "
                f"({str(error).strip().splitlines()[-1]})",
                "restore it",
            ) from error
        self.inputs: Mapping[str, Shape] = _shapes(self._graph.inputs)
        self.outputs: Mapping[str, Shape] = _shapes(self._graph.outputs)
        capabilities = _core().get_property("CPU", "OPTIMIZATION_CAPABILITIES")
        self._precision = "bf16" if "BF16" in capabilities else "f32"
        self._lock = threading.Lock()
        self._variant = lru_cache(_VARIANTS)(self._compile)

    @property
    def dtype(self) -> str:
        """The type of the computation and the runtime, in words."""
        return f"{'bfloat16' if self._precision == 'bf16' else 'float32'} by OpenVINO"

    def run(self, inputs: Mapping[str, Array]) -> dict[str, Array]:
        """Compute all outputs of one request; see `Network.run`."""
        try:
            with self._lock:
                shapes = tuple((name, inputs[name].shape) for name in self.inputs)
                variant = self._variant(shapes)
            return variant.run(inputs)
        except (KeyError, RuntimeError) as error:
            raise unfit(self, inputs) from error

    def _compile(self, shapes: tuple[tuple[str, tuple[int, ...]], ...]) -> _Variant:
        graph = self._graph.clone()
        graph.reshape({name: list(shape) for name, shape in shapes})
        threads = encoder_threads()
        settings = {
            "INFERENCE_PRECISION_HINT": self._precision,
            "NUM_STREAMS": threads,  # each is a thread
            "INFERENCE_NUM_THREADS": threads,
            "ENABLE_CPU_PINNING": False,  # a pinned thread waits for other programs on its core
        }
        return _Variant(_core().compile_model(graph, "CPU", settings))


class _Variant:
    """A network compiled for inputs of fixed shapes."""

    def __init__(self, compiled: Any) -> None:
        self._compiled = compiled
        self._idle: list[Any] = []  # requests that no thread uses

    def run(self, inputs: Mapping[str, Array]) -> dict[str, Array]:
        try:
            request = self._idle.pop()
        except IndexError:
            request = self._compiled.create_infer_request()
        request.infer({name: np.ascontiguousarray(array) for name, array in inputs.items()})
        outputs = {}
        for number, output in enumerate(self._compiled.outputs):
            array = request.get_output_tensor(number).data.copy()
            outputs.update(dict.fromkeys(output.get_names(), array))
        self._idle.append(request)
        return outputs


def _core() -> Any:
    """Return the core that all networks of the process share, and that is never let go of.

    Its CPU plugin gives the thread that loads it a stack for signals, and frees that stack with the
    core: in another thread, the next signal, as Ctrl-C, would end the process (SIGSEGV).
    """
    with _LOCK:
        return _only_core()


@cache
def _only_core() -> Any:
    core = import_openvino().Core()
    # Read, not mapped: a file that is overwritten in place would end the process (SIGBUS).
    core.set_property({"ENABLE_MMAP": False})
    return core


def import_openvino() -> Any:
    """Import OpenVINO without its telemetry.

    Otherwise each process that imports it sends an event to Google Analytics, with an id in the
    user's home, and waits up to three seconds if the network does not answer.
    """
    # A module that is None here cannot be imported, and OpenVINO has a stub for that case.
    sys.modules.setdefault("openvino_telemetry", cast(ModuleType, None))
    import openvino

    return openvino


def _shapes(ports: list[Any]) -> dict[str, Shape]:
    return {
        name: tuple(
            None if side.is_dynamic else side.get_length() for side in port.get_partial_shape()
        )
        for port in ports
        for name in port.get_names()
    }


def _name(source: Path | bytes) -> str:
    return str(source) if isinstance(source, Path) else "a built graph"
