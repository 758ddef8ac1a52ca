"""The network of pictures of a model, written in ONNX's format beside the model's weights.

The file has the operators alone. Its weights are those in model.safetensors, to which it refers by
their places, so that nothing is stored twice.
"""

from __future__ import annotations

import json
import warnings
from collections.abc import Mapping
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, NamedTuple

import numpy as np
import onnx
import torch
from onnx import NodeProto, TensorProto, helper, numpy_helper

from hasse.lab.encoders.backbone import Backbone
from hasse.models.checkpoints.trained_model import BACKBONE
from hasse.models.checkpoints.weights import SCALE
from hasse.models.errors import HasseError
from hasse.models.networks.picture_network import FEATURES, PIXELS

_OPSET = 17
_TYPES = {"F32": TensorProto.FLOAT, "F16": TensorProto.FLOAT16, "I8": TensorProto.INT8}


class ExportError(HasseError):
    """A network cannot be written in ONNX's format; the message has the reason."""


class _Place(NamedTuple):
    """The place of a tensor in a safetensors file."""

    dtype: str
    shape: list[int]
    offset: int
    length: int


def export_pictures(backbone: Backbone, weights: Path) -> bytes:
    """Return a network as an ONNX file that refers to its weights in a model's safetensors file.

    Raises:
        ExportError: torch cannot export such a network.
    """
    model = onnx.load_from_string(_exported(backbone))
    places = _places(weights)
    nodes: list[NodeProto] = []
    constants: list[TensorProto] = []
    for constant in model.graph.initializer:
        if BACKBONE + constant.name in places:
            stored, casts = _stored(constant.name, places, weights.name)
            constants += stored
            nodes += casts
        else:
            constants.append(constant)
    nodes += model.graph.node
    del model.graph.initializer[:], model.graph.node[:]
    model.graph.initializer.extend(constants)
    model.graph.node.extend(nodes)
    content: bytes = model.SerializeToString()
    return content


def _exported(backbone: Backbone) -> bytes:
    """Return the network with its weights; sides of pictures are free if it can take any."""
    side = backbone.preprocessing.crop
    pixels = next(backbone.parameters()).new_zeros(1, 3, side, side)
    for sides in ({2: "height", 3: "width"}, {}):
        try:
            with TemporaryDirectory() as folder, warnings.catch_warnings():
                path = Path(folder, "network.onnx")
                warnings.simplefilter("ignore")  # deprecation, and what tracing fixes
                torch.onnx.export(
                    backbone,
                    (pixels,),
                    path,
                    dynamo=False,
                    input_names=[PIXELS],
                    output_names=[FEATURES],
                    dynamic_axes={PIXELS: sides},
                    opset_version=_OPSET,
                    do_constant_folding=False,  # it would rename weights
                )
                return path.read_bytes()
        except (torch.onnx.OnnxExporterError, RuntimeError, TypeError) as error:
            reason = error
    raise ExportError(
        f"{backbone.name} cannot be written in ONNX's format ({str(reason).splitlines()[0]}): "
        f"train a model on another network"
    )


def _places(weights: Path) -> dict[str, _Place]:
    """Read the header of a safetensors file: its length, then JSON; offsets count from its end."""
    with weights.open("rb") as file:
        length = int.from_bytes(file.read(8), "little")
        header: dict[str, Any] = json.loads(file.read(length))
    header.pop("__metadata__", None)
    places = {}
    for name, entry in header.items():
        start, end = entry["data_offsets"]
        places[name] = _Place(entry["dtype"], entry["shape"], 8 + length + start, end - start)
    return places


def _stored(
    name: str, places: Mapping[str, _Place], file: str
) -> tuple[list[TensorProto], list[NodeProto]]:
    """Return what makes a float32 tensor of a stored one: references to the file, and operators."""
    place, scale = places[BACKBONE + name], places.get(BACKBONE + name + SCALE)
    if place.dtype == "F32":
        return [_reference(name, place, file)], []
    bits, unscaled = f"{name}.stored", f"{name}.unscaled"
    to_float = helper.make_node(
        "Cast", [bits], [name if scale is None else unscaled], to=TensorProto.FLOAT
    )
    if scale is None:
        return [_reference(bits, place, file)], [to_float]
    axes = numpy_helper.from_array(np.arange(1, len(place.shape)), f"{name}.axes")
    constants = [_reference(bits, place, file), _reference(name + SCALE, scale, file), axes]
    column = helper.make_node("Unsqueeze", [name + SCALE, axes.name], [f"{name}.column"])
    multiply = helper.make_node("Mul", [unscaled, f"{name}.column"], [name])
    return constants, [to_float, column, multiply]


def _reference(name: str, place: _Place, file: str) -> TensorProto:
    """Return a constant whose content is in a file beside the graph."""
    constant = TensorProto(name=name, dims=place.shape, data_type=_TYPES[place.dtype])
    constant.data_location = TensorProto.EXTERNAL
    for key, value in (("location", file), ("offset", place.offset), ("length", place.length)):
        constant.external_data.add(key=key, value=str(value))
    return constant
