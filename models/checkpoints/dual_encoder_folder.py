"""The folder of a model of two published encoders.

pictures.onnx     the graph that encodes pictures; pictures.onnx.data has the weights of a large
                  one
texts.onnx        the graph that encodes texts, likewise
tokenizer.json    from texts to tokens
config.json       the encoders' source, the preprocessing of pictures, the settings of tokens,
                  and the names of the graphs' inputs and outputs
calibration.json  probabilities by violation, if they were measured
metrics.json      empty
SHA256SUMS        the checksums of all files
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from hasse.models.calibration import Calibrations
from hasse.models.checkpoints.model_folder import (
    CALIBRATION,
    CONFIG,
    METRICS,
    CheckpointError,
    ModelKind,
)
from hasse.models.dual_encoder import (
    DualEncoder,
    DualEncoderConfig,
    PictureEncoder,
    TextEncoder,
)
from hasse.models.images.preprocessing import Preprocessing
from hasse.models.networks.graph_file import SUFFIX, copy_graph, input_types
from hasse.models.networks.network import Network, NetworkError, Runtime, open_network
from hasse.models.tokenizer import Tokenizer, TokenizerError, TokenSettings

PICTURES, TEXTS, TOKENIZER = "pictures.onnx", "texts.onnx", "tokenizer.json"
DUAL_KIND = ModelKind(
    "two towers",
    "hasse use",
    2,
    (TOKENIZER, CALIBRATION, METRICS),
    weights=(PICTURES, TEXTS),
    optional=(PICTURES + SUFFIX, TEXTS + SUFFIX),
    older="'hasse lab model convert' brings a model of format 1 to format 2",
)
ENCODING_FILES = (*DUAL_KIND.weights, *DUAL_KIND.optional, CONFIG, TOKENIZER)

_PIXELS, _TOKENS, _MASK = ("image", "pixel_values"), ("text", "input_ids"), "attention_mask"
_POINTS = ("embedding", "image_embeds", "text_embeds", "pooler_output")
_ANY_TEXT = "a photo of a dog and a cat"


@dataclass(frozen=True, slots=True)
class EncoderFiles:
    """What makes a model of two encoders.

    Attributes:
        encoder: the source, such as a repository of the Hugging Face hub.
        pictures: the graph that encodes pictures.
        texts: the graph that encodes texts.
        tokenizer: the content of tokenizer.json.
        preprocessing: of pictures.
        tokens: the settings of the tokenizer.
        source: checksums of the files that the model is made of, by their names.
        network: the fingerprint of the network that the graph of pictures was exported from, if
            any: features that were cached with it are features of the graph.
    """

    encoder: str
    pictures: Path
    texts: Path
    tokenizer: bytes
    preprocessing: Preprocessing
    tokens: TokenSettings
    source: Mapping[str, str] = field(default_factory=dict)
    network: str | None = None


@dataclass(frozen=True, slots=True)
class Ports:
    """Names of the inputs and outputs of both graphs; see `PictureEncoder` and `TextEncoder`."""

    pixels: str
    picture_points: str
    tokens: str
    mask: str | None
    text_points: str
    dtype: str


def save(
    folder: Path,
    name: str,
    files: EncoderFiles,
    calibration: bytes | None = None,
    fingerprint: str | None = None,
) -> None:
    """Check that two graphs encode pictures and texts into one space, and write their model.

    Args:
        folder: of the model.
        name: of the model.
        files: graphs, tokenizer and settings.
        calibration: the content of calibration.json, if probabilities were measured.
        fingerprint: of a model with the same points that this one replaces.

    Raises:
        CheckpointError: they do not, or a file cannot be used.
    """
    try:
        pictures, texts = open_network(files.pictures), open_network(files.texts)
        tokenizer = Tokenizer(files.tokenizer, files.tokens)
        ports, dimension = _connect(files, pictures, texts, tokenizer)
        folder.mkdir(parents=True, exist_ok=True)
        copy_graph(files.pictures, folder / PICTURES)
        copy_graph(files.texts, folder / TEXTS)
    except (NetworkError, TokenizerError) as error:
        raise CheckpointError(str(error)) from error
    config = {
        "name": name,
        "model": asdict(DualEncoderConfig(files.encoder, dimension)),
        "preprocessing": asdict(files.preprocessing),
        "tokens": asdict(files.tokens),
        "ports": asdict(ports),
        "source": dict(files.source),
        "network": files.network,
        "fingerprint": fingerprint,
    }
    calibration = calibration or json.dumps(Calibrations().to_json()).encode()
    other_files = {TOKENIZER: files.tokenizer, CALIBRATION: calibration, METRICS: b"{}"}
    DUAL_KIND.complete(folder, config, other_files)


def load(
    folder: Path,
    config: Mapping[str, Any],
    sums: Mapping[str, str],
    device: str,
    *,
    with_pictures: bool,
    runtime: Runtime,
) -> DualEncoder:
    """Read a model, with or without its encoder of pictures.

    Raises:
        CheckpointError: a package or runtime is missing, or cannot read a file.
    """
    ports, shape = Ports(**config["ports"]), DualEncoderConfig(**config["model"])
    try:
        tokenizer = Tokenizer((folder / TOKENIZER).read_bytes(), TokenSettings(**config["tokens"]))
        pictures = None
        if with_pictures:
            network = open_network(folder / PICTURES, runtime, device)
            identity = config.get("network") or sums[PICTURES]
            pictures = _picture_encoder(shape.encoder, network, ports, identity)
        texts = _text_encoder(open_network(folder / TEXTS, runtime, device), tokenizer, ports)
    except (NetworkError, TokenizerError) as error:
        raise CheckpointError(str(error)) from error
    return DualEncoder(shape, Preprocessing(**config["preprocessing"]), pictures, texts)


def _picture_encoder(
    name: str, network: Network, ports: Ports, identity: str = ""
) -> PictureEncoder:
    return PictureEncoder(name, network, ports.pixels, ports.picture_points, identity)


def _text_encoder(network: Network, tokenizer: Tokenizer, ports: Ports) -> TextEncoder:
    return TextEncoder(network, tokenizer, ports.tokens, ports.mask, ports.text_points, ports.dtype)


def _connect(
    files: EncoderFiles, pictures: Network, texts: Network, tokenizer: Tokenizer
) -> tuple[Ports, int]:
    """Return the names of inputs and outputs, and the coordinates of a point, by encoding once."""
    pixels = _input(files.pictures, pictures, _PIXELS)
    tokens = _input(files.texts, texts, _TOKENS, _MASK)
    if (dtype := input_types(files.pictures)[pixels]) != "float32":
        raise NetworkError(
            f"{files.pictures} takes pixels of {dtype or 'another type'}: take the graph in float32"
        )
    dtype = input_types(files.texts)[tokens]
    if dtype not in {"int32", "int64"}:
        raise NetworkError(f"{files.texts} takes no whole numbers as tokens: choose another model")
    ports = Ports(
        pixels,
        _output(files.pictures, pictures),
        tokens,
        _MASK if _MASK in texts.inputs else None,
        _output(files.texts, texts),
        dtype,
    )
    side = files.preprocessing.crop
    blank = np.zeros((1, 3, side, side), np.float32)
    try:
        (picture,) = _picture_encoder(files.encoder, pictures, ports).features(blank)
    except NetworkError as error:
        raise NetworkError(
            f"{files.pictures} does not encode pictures of {side} x {side} pixels ({error}): take "
            f"the settings of the same model"
        ) from error
    try:
        text = _text_encoder(texts, tokenizer, ports).features(_ANY_TEXT)
    except NetworkError as error:
        raise NetworkError(
            f"{files.texts} does not encode the tokens of its tokenizer ({error}): take the "
            f"tokenizer of the same model"
        ) from error
    if picture.ndim != 1 or picture.shape != text.shape:
        raise NetworkError(
            f"{files.pictures} gives points of {picture.shape} and {files.texts} of {text.shape}: "
            f"take both from one model"
        )
    if not (np.isfinite(picture).all() and np.isfinite(text).all()):
        raise NetworkError(
            f"{files.pictures} or {files.texts} gives points that are no numbers: take graphs in "
            f"float32"
        )
    return ports, len(picture)


def _input(graph: Path, network: Network, known: tuple[str, ...], *others: str) -> str:
    """Return the name of a graph's input; it may have `others` besides."""
    names = [name for name in known if name in network.inputs]
    if len(names) != 1 or not set(network.inputs) <= {names[0], *others}:
        further = f", and {', '.join(others)}" if others else ""
        raise NetworkError(
            f"{graph} takes {', '.join(network.inputs) or 'nothing'}, where Hasse gives "
            f"{' or '.join(known)}{further}: choose a model of a layout that docs/encoders.md "
            f"describes"
        )
    return names[0]


def _output(graph: Path, network: Network) -> str:
    """Return the name of a graph's points: a known one, or the only one."""
    names = [name for name in _POINTS if name in network.outputs] or list(network.outputs)
    if names[0] not in _POINTS and len(names) > 1:
        raise NetworkError(
            f"{graph} gives {', '.join(names)}, none of which Hasse knows as points "
            f"({', '.join(_POINTS)}): choose another model"
        )
    return names[0]
