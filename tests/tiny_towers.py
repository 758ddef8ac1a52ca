"""Two tiny encoders with random weights, as others publish them, and their points by numpy.

Pictures have 8 x 8 pixels, points 16 coordinates. A picture's point is linear in its pixels, a
text's is the mean of its tokens' vectors.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import tokenizers
from numpy.typing import NDArray
from onnx import TensorProto, helper, numpy_helper
from tokenizers import models, pre_tokenizers, processors

SIDE, DIMENSION, LENGTH = 8, 16, 6
WORDS = ("<pad>", "<s>", "</s>", "<unk>", "a", "red", "dog", "circle", "square", "blue", "!")
PAD, START, END, UNKNOWN = range(4)

_draw = np.random.default_rng(7)
PIXEL_WEIGHTS = _draw.normal(size=(3 * SIDE * SIDE, DIMENSION)).astype(np.float32)
TOKEN_VECTORS = _draw.normal(size=(len(WORDS), DIMENSION)).astype(np.float32)


def tokenizer() -> bytes:
    """Return a tokenizer.json of WORDS, which puts a start and an end around a text."""
    known = {word: number for number, word in enumerate(WORDS)}
    made = tokenizers.Tokenizer(models.WordLevel(known, unk_token="<unk>"))  # noqa: S106
    made.pre_tokenizer = pre_tokenizers.Whitespace()
    made.post_processor = processors.TemplateProcessing(
        single="<s> $A </s>", special_tokens=[("<s>", START), ("</s>", END)]
    )
    made.add_special_tokens(["<pad>", "<s>", "</s>", "<unk>"])
    return made.to_str().encode()


def picture_graph(
    input_name: str = "image",
    output_name: str = "embedding",
    batch: int | str = 1,
    side: int = SIDE,
) -> onnx.ModelProto:
    """Return a graph: pixels (B, 3, SIDE, SIDE) -> points (B, DIMENSION)."""
    weights = PIXEL_WEIGHTS if side == SIDE else np.ones((3 * side * side, DIMENSION), np.float32)
    return _model(
        [
            helper.make_node("Flatten", [input_name], ["flat"], axis=1),
            helper.make_node("MatMul", ["flat", "weights"], [output_name]),
        ],
        [helper.make_tensor_value_info(input_name, TensorProto.FLOAT, (batch, 3, side, side))],
        (output_name, batch),
        {"weights": weights},
    )


def text_graph(
    input_name: str = "text",
    output_name: str = "embedding",
    batch: int | str = 1,
    length: int | str = LENGTH,
    dtype: int = TensorProto.INT32,
    *,
    masked: bool = False,
) -> onnx.ModelProto:
    """Return a graph: tokens (B, L) -> points (B, DIMENSION); a mask leaves out padding."""
    inputs = [helper.make_tensor_value_info(input_name, dtype, (batch, length))]
    nodes = [helper.make_node("Gather", ["weights", input_name], ["vectors"], axis=0)]
    if masked:
        inputs.append(helper.make_tensor_value_info("attention_mask", dtype, (batch, length)))
        nodes += [
            helper.make_node("Cast", ["attention_mask"], ["flags"], to=TensorProto.FLOAT),
            helper.make_node("Unsqueeze", ["flags", "last"], ["column"]),
            helper.make_node("Mul", ["vectors", "column"], ["present"]),
            helper.make_node("ReduceSum", ["present", "middle"], ["sum"], keepdims=0),
            helper.make_node("ReduceSum", ["column", "middle"], ["number"], keepdims=0),
            helper.make_node("Div", ["sum", "number"], [output_name]),
        ]
    else:
        nodes.append(
            helper.make_node("ReduceMean", ["vectors"], [output_name], axes=[1], keepdims=0)
        )
    constants = {"weights": TOKEN_VECTORS}
    if masked:
        constants |= {"last": np.array([2]), "middle": np.array([1])}
    return _model(nodes, inputs, (output_name, batch), constants)


def immich_folder(
    folder: Path,
    *,
    masked: bool = False,
    pixels: Mapping[str, Any] | None = None,
    text: Mapping[str, Any] | None = None,
    save: Callable[[onnx.ModelProto, Path], None] | None = None,
) -> Path:
    """Write a folder of immich's layout; its graphs take one picture or text at a time."""
    write = save or save_graph
    tokens = "input_ids" if masked else "text"
    write(picture_graph(), folder / "visual" / "model.onnx")
    write(text_graph(tokens, masked=masked), folder / "textual" / "model.onnx")
    _json(
        folder / "visual" / "preprocess_cfg.json",
        {
            "size": [SIDE, SIDE],
            "mode": "RGB",
            "mean": [0.5, 0.4, 0.3],
            "std": [0.2, 0.25, 0.3],
            "interpolation": "bicubic",
            "resize_mode": "shortest",
            "fill_color": 0,
        }
        | dict(pixels or {}),
    )
    (folder / "textual" / "tokenizer.json").write_bytes(tokenizer())
    _json(folder / "textual" / "tokenizer_config.json", {"pad_token": "<pad>"})
    _json(folder / "textual" / "special_tokens_map.json", {"sep_token": {"content": "</s>"}})
    _json(
        folder / "config.json",
        {"embed_dim": DIMENSION, "text_cfg": {"context_length": LENGTH} | dict(text or {})},
    )
    return folder


def transformers_folder(
    folder: Path,
    *,
    masked: bool = False,
    pixels: Mapping[str, Any] | None = None,
    config: Mapping[str, Any] | None = None,
    tokens: Mapping[str, Any] | None = None,
) -> Path:
    """Write a folder of Transformers.js' layout; its graphs take many pictures or texts."""
    picture = picture_graph("pixel_values", "image_embeds", "batch")
    text = text_graph(
        "input_ids", "text_embeds", "batch", "length", TensorProto.INT64, masked=masked
    )
    save_graph(picture, folder / "onnx" / "vision_model.onnx")
    save_graph(text, folder / "onnx" / "text_model.onnx")
    _json(
        folder / "preprocessor_config.json",
        {
            "do_resize": True,
            "size": {"shortest_edge": SIDE},
            "do_center_crop": True,
            "crop_size": {"height": SIDE, "width": SIDE},
            "resample": 3,
            "do_rescale": True,
            "rescale_factor": 1 / 255,
            "do_normalize": True,
            "image_mean": [0.5, 0.4, 0.3],
            "image_std": [0.2, 0.25, 0.3],
        }
        | dict(pixels or {}),
    )
    (folder / "tokenizer.json").write_bytes(tokenizer())
    _json(
        folder / "tokenizer_config.json",
        {"pad_token": "<pad>", "model_max_length": LENGTH} | dict(tokens or {}),
    )
    _json(folder / "config.json", {"model_type": "clip"} | dict(config or {}))
    return folder


def save_graph(graph: onnx.ModelProto, path: Path) -> None:
    """Write a graph and the folders above it."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(graph.SerializeToString())


def save_with_weights_beside(graph: onnx.ModelProto, path: Path) -> None:
    """Write a graph, and its weights into a file beside it."""
    path.parent.mkdir(parents=True, exist_ok=True)
    onnx.save(
        graph, path, save_as_external_data=True, location=f"{path.name}_data", size_threshold=100
    )


def picture_point(pixels: NDArray[np.float32]) -> NDArray[np.float32]:
    """Return the point of preprocessed pixels: (3, SIDE, SIDE) -> (DIMENSION,)."""
    return _unit(pixels.reshape(-1) @ PIXEL_WEIGHTS)


def text_point(tokens: list[int]) -> NDArray[np.float32]:
    """Return the point of tokens, padding included."""
    return _unit(TOKEN_VECTORS[tokens].mean(0))


def _unit(vector: NDArray[np.float32]) -> NDArray[np.float32]:
    return np.asarray(vector / np.linalg.norm(vector), np.float32)


def _model(
    nodes: list[onnx.NodeProto],
    inputs: list[onnx.ValueInfoProto],
    output: tuple[str, int | str],
    constants: Mapping[str, NDArray[Any]],
) -> onnx.ModelProto:
    points = helper.make_tensor_value_info(output[0], TensorProto.FLOAT, (output[1], DIMENSION))
    tensors = [numpy_helper.from_array(array, name) for name, array in constants.items()]
    graph = helper.make_graph(nodes, "tiny", inputs, [points], tensors)
    return helper.make_model(graph, ir_version=8, opset_imports=[helper.make_opsetid("", 17)])


def _json(path: Path, content: Mapping[str, Any]) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(content))
