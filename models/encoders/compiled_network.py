"""A network from pictures to features, run by OpenVINO on a processor, without torch.

It takes half of torch's time for a picture, and a sixth of a second to import. Pictures are encoded
one by one, each on one thread, so the bits of features do not depend on the batch.
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
    from hasse.lab.encoders.backbone import Backbone

Array = NDArray[Any]


@dataclass(frozen=True, eq=False, slots=True)
class ExportedNetwork:
    """A network in OpenVINO's format.

    Attributes:
        name: the encoder's.
        fingerprint: of the original network.
        arrays: the bytes of the graph and of its weights; "weight" and "bias" of a classifier
            whose classes are synsets of WordNet.
    """

    name: str
    fingerprint: str
    arrays: Mapping[str, Array]

    @property
    def classifier(self) -> tuple[Array, Array]:
        """Weights and biases of the classifier; raises KeyError if there is none."""
        return self.arrays["weight"], self.arrays["bias"]


class CompiledNetwork:
    """Runs an exported network; several threads may call it at the same time.

    Attributes:
        name: the encoder's.
        exported: the network.
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
        """The type of the computation."""
        return f"{'bfloat16' if self.precision == 'bf16' else 'float32'} by OpenVINO"

    def features(self, pixels: NDArray[np.float32]) -> NDArray[np.float32]:
        """Return features, as `Backbone.forward`: (B, 3, H, W) -> (B, F) or (B, cells, F)."""
        request = self._request(pixels.shape[2], pixels.shape[3])
        features = []
        for picture in pixels:
            request.infer({0: np.ascontiguousarray(picture[None])})
            features.append(request.get_output_tensor().data.copy())
        return np.concatenate(features)

    def _request(self, height: int, width: int) -> Any:
        """Return the calling thread's request for pictures of a height and width."""
        requests: dict[tuple[int, int], Any] = vars(self._requests).setdefault("made", {})
        if (height, width) not in requests:
            with self._lock:
                if (height, width) not in self._compiled:
                    self._compiled[height, width] = self._compile(height, width)
            requests[height, width] = self._compiled[height, width].create_infer_request()
        return requests[height, width]

    def _compile(self, height: int, width: int) -> Any:
        graph = self._graph.clone()
        graph.reshape([1, 3, height, width])
        settings = {
            "INFERENCE_PRECISION_HINT": self.precision,
            "NUM_STREAMS": self._threads,  # each is a thread
            "INFERENCE_NUM_THREADS": self._threads,
            "ENABLE_CPU_PINNING": False,  # a pinned thread waits for other programs on its core
        }
        return self._core.compile_model(graph, "CPU", settings)

    @cached_property
    def precision(self) -> str:
        """OpenVINO's name of the type of the computation."""
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

    Otherwise each process that imports it sends an event to Google Analytics, with an id in the
    user's home, and waits up to three seconds if the network does not answer.
    """
    # A module that is None here cannot be imported, and OpenVINO has a stub for that case.
    sys.modules.setdefault("openvino_telemetry", cast(ModuleType, None))
    import openvino

    return openvino


def export(backbone: Backbone) -> ExportedNetwork | None:
    """Export a network to OpenVINO's format; None if OpenVINO cannot run it."""
    openvino = import_openvino()
    import torch
    from openvino.frontend import FrontEndManager
    from openvino.frontend.pytorch.ts_decoder import TorchScriptPythonDecoder
    from openvino.passes import ConstantFolding, Manager

    fused = backbone.for_inference()
    side = backbone.preprocessing.crop
    with torch.inference_mode(), warnings.catch_warnings():
        warnings.simplefilter("ignore")  # torch's deprecation warnings
        example = (torch.zeros(1, 3, side, side),)
        try:
            frontend = FrontEndManager().load_by_framework("pytorch")
            traced = TorchScriptPythonDecoder(fused, example_input=example)
            graph = frontend.convert(frontend.load(traced))
            # Computes here, once, all values that do not depend on the sides of pictures.
            graph.reshape([1, 3, -1, -1])
            passes = Manager()
            passes.register_pass(ConstantFolding())
            passes.run_passes(graph)
        except RuntimeError:
            return None
    with TemporaryDirectory() as folder:
        paths = Path(folder, "graph.xml"), Path(folder, "graph.bin")
        openvino.serialize(graph, *map(str, paths))
        graph_bytes, weights = (np.fromfile(path, np.uint8) for path in paths)
    arrays = {"graph": graph_bytes, "graph.weights": weights, **_classifier(backbone)}
    return ExportedNetwork(backbone.name, fused.fingerprint(), arrays)


def _classifier(backbone: Backbone) -> dict[str, Array]:
    if backbone.name != LITE:
        return {}
    from hasse.lab.encoders.libraries.efficientnet_lite import classifier

    return dict(zip(("weight", "bias"), classifier(), strict=True))
