"""A network from pictures to features, run by OpenVINO on a processor, without torch.

It takes half of torch's time for a picture, and a sixth of a second to import. Pictures go through
it one by one, each on one thread: a picture has the same bits alone and among others.
"""

from __future__ import annotations

import sys
import threading
import warnings
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from tempfile import TemporaryDirectory
from types import ModuleType
from typing import TYPE_CHECKING, Any, cast

import numpy as np
from numpy.typing import NDArray

from hasse.models.encoders.names import LITE
from hasse.models.kernels.compiled import encoder_threads

if TYPE_CHECKING:
    from hasse.models.encoders.backbone import Backbone

Array = NDArray[Any]


@dataclass(frozen=True, eq=False, slots=True)
class ExportedNetwork:
    """A network as OpenVINO reads it.

    Attributes:
        name: the encoder's.
        fingerprint: that of the network it is a copy of.
        arrays: the bytes of the graph and of its weights; "weight" and "bias" of the classifier,
            where its classes are synsets of WordNet.
    """

    name: str
    fingerprint: str
    arrays: Mapping[str, Array]

    @property
    def classifier(self) -> tuple[Array, Array]:
        """Its weights and biases; raises KeyError where there is none."""
        return self.arrays["weight"], self.arrays["bias"]


class CompiledNetwork:
    """Runs an exported network; any threads may call it at a time.

    Attributes:
        name: the encoder's.
        exported: what it runs.
    """

    def __init__(self, exported: ExportedNetwork) -> None:
        self.name, self.exported = exported.name, exported
        self._threads = encoder_threads()
        self._lock = threading.Lock()
        self._compiled: dict[tuple[int, int], Any] = {}  # by the sides of pictures
        self._requests = threading.local()

    def fingerprint(self) -> str:
        """Return the fingerprint of the network, as `Backbone.fingerprint`."""
        return self.exported.fingerprint

    @property
    def dtype(self) -> str:
        """The type that it computes in."""
        return f"{'bfloat16' if self.precision == 'bf16' else 'float32'} by OpenVINO"

    def features(self, pixels: NDArray[np.float32]) -> NDArray[np.float32]:
        """Return what `Backbone.forward` does: (B, 3, H, W) -> (B, F) or (B, cells, F)."""
        request = self._request(pixels.shape[2], pixels.shape[3])
        found = []
        for one in pixels:
            request.infer({0: np.ascontiguousarray(one[None])})
            found.append(request.get_output_tensor().data.copy())
        return np.concatenate(found)

    def _request(self, height: int, width: int) -> Any:
        """Return the calling thread's request for pictures of some sides."""
        of_thread: dict[tuple[int, int], Any] = vars(self._requests).setdefault("made", {})
        if (height, width) not in of_thread:
            with self._lock:
                if (height, width) not in self._compiled:
                    self._compiled[height, width] = self._compile(height, width)
            of_thread[height, width] = self._compiled[height, width].create_infer_request()
        return of_thread[height, width]

    def _compile(self, height: int, width: int) -> Any:
        graph = self._graph.clone()
        graph.reshape([1, 3, height, width])
        settings = {
            "INFERENCE_PRECISION_HINT": self.precision,
            "NUM_STREAMS": self._threads,  # each is a thread
            "INFERENCE_NUM_THREADS": self._threads,
            "ENABLE_CPU_PINNING": False,  # pinned threads wait for other programs on their core
        }
        return self._core.compile_model(graph, "CPU", settings)

    @cached_property
    def precision(self) -> str:
        """What OpenVINO calls the type that it computes in."""
        supported = self._core.get_property("CPU", "OPTIMIZATION_CAPABILITIES")
        return "bf16" if "BF16" in supported else "f32"

    @cached_property
    def _core(self) -> Any:
        return import_openvino().Core()

    @cached_property
    def _graph(self) -> Any:
        arrays = self.exported.arrays
        weights = import_openvino().Tensor(arrays["graph.weights"], shared_memory=True)
        return self._core.read_model(arrays["graph"].tobytes(), weights)


def import_openvino() -> Any:
    """Import OpenVINO without its telemetry.

    Otherwise each process that imports it sends an event to Google Analytics, with an id that is
    kept in the user's home, and waits up to three seconds where the network does not answer.
    """
    # What stands here as None cannot be imported, and OpenVINO has a stub for that case.
    sys.modules.setdefault("openvino_telemetry", cast(ModuleType, None))
    import openvino

    return openvino


def export(backbone: Backbone) -> ExportedNetwork | None:
    """Return a network as OpenVINO reads it, or None where it cannot run one like it."""
    openvino = import_openvino()
    import torch
    from openvino.frontend import FrontEndManager
    from openvino.frontend.pytorch.ts_decoder import TorchScriptPythonDecoder
    from openvino.passes import ConstantFolding, Manager

    fused = backbone.for_inference()
    side = backbone.preprocessing.crop
    with torch.inference_mode(), warnings.catch_warnings():
        warnings.simplefilter("ignore")  # torch's, of what it will call otherwise one day
        example = (torch.zeros(1, 3, side, side),)
        try:
            frontend = FrontEndManager().load_by_framework("pytorch")
            traced = TorchScriptPythonDecoder(fused, example_input=example)
            graph = frontend.convert(frontend.load(traced))
            # What does not depend on the sides of pictures is computed here, once.
            graph.reshape([1, 3, -1, -1])
            passes = Manager()
            passes.register_pass(ConstantFolding())
            passes.run_passes(graph)
        except RuntimeError:
            return None
    with TemporaryDirectory() as folder:
        paths = Path(folder, "graph.xml"), Path(folder, "graph.bin")
        openvino.serialize(graph, *map(str, paths))
        written, weights = (np.fromfile(path, np.uint8) for path in paths)
    arrays = {"graph": written, "graph.weights": weights, **_classifier(backbone)}
    return ExportedNetwork(backbone.name, fused.fingerprint(), arrays)


def _classifier(backbone: Backbone) -> dict[str, Array]:
    if backbone.name != LITE:
        return {}
    from hasse.models.encoders.libraries.efficientnet_lite import classifier

    return dict(zip(("weight", "bias"), classifier(), strict=True))
