"""Small networks in ONNX's format."""

from __future__ import annotations

import numpy as np

from hasse.models.networks.onnx_graph import OnnxGraph

FEATURES = 6


def small_network(inputs: str = "pixels") -> bytes:
    """Return a network from pictures (1, 3, H, W) to features (cells, FEATURES) of its cells."""
    random = np.random.default_rng(0)
    graph = OnnxGraph("small")
    x = graph.add(
        "Conv",
        inputs,
        graph.constant(random.normal(size=(FEATURES, 3, 3, 3)).astype(np.float32)),
        graph.constant(random.normal(size=FEATURES).astype(np.float32)),
        strides=(2, 2),
        auto_pad="SAME_UPPER",
    )
    flat = graph.add("Flatten", graph.add("Relu", x), axis=2)
    graph.add("Transpose", flat, output="features", perm=(1, 0))
    return graph.to_bytes({inputs: (1, 3, "height", "width")}, {"features": ("cells", FEATURES)})


def picture(height: int, width: int, seed: int = 0) -> np.typing.NDArray[np.float32]:
    """Return random pixels (1, 3, height, width)."""
    random = np.random.default_rng(seed)
    return random.normal(size=(1, 3, height, width)).astype(np.float32)
