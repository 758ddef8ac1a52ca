"""Exports open_clip's encoders of pictures and texts to ONNX graphs, and older models of them."""

from __future__ import annotations

import importlib.util
import json
import shutil
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import torch
from torch import Tensor, nn

from hasse.lab.encoders.libraries.clip_tokenizer import clip_tokenizer
from hasse.lab.encoders.libraries.open_clip import Architecture, EncoderPair, build
from hasse.lab.tensors import tensors
from hasse.models.checkpoints import dual_encoder_folder
from hasse.models.checkpoints.checkpoint import fingerprint_of
from hasse.models.checkpoints.dual_encoder_folder import EncoderFiles
from hasse.models.checkpoints.model_folder import (
    CALIBRATION,
    METRICS,
    VOCABULARY,
    ModelKind,
)
from hasse.models.checkpoints.weights import weights
from hasse.models.errors import BackboneError, pip_install
from hasse.models.files import lock_folder
from hasse.models.images.preprocessing import Preprocessing
from hasse.models.tokenizer import TokenSettings

OLD_KIND = ModelKind("two towers", "hasse use", 1, (VOCABULARY, CALIBRATION, METRICS))

_OPSET = 17


@contextmanager
def exported(encoder: str, pair: EncoderPair) -> Iterator[EncoderFiles]:
    """Yield the files of both encoders, in a folder that is deleted afterwards.

    Raises:
        BackboneError: a package is missing, or torch cannot export the encoders.
    """
    architecture = pair.architecture
    if architecture.tokenizer is None or architecture.tokens is None:
        raise BackboneError(f"{encoder} has no tokenizer: name a model of pictures and texts")
    side, length = architecture.preprocessing.crop, architecture.tokens.context_length
    pair.images.require_side(side)
    with TemporaryDirectory(prefix="hasse-") as folder:
        pictures, texts = Path(folder, "pictures.onnx"), Path(folder, "texts.onnx")
        pixels = torch.zeros(1, 3, side, side)
        _export(pair.images.freeze(), pixels, ("pixel_values", "image_embeds"), pictures)
        tokens = torch.zeros(1, length, dtype=torch.int64)
        _export(pair.texts.eval(), tokens, ("input_ids", "text_embeds"), texts)
        yield EncoderFiles(
            encoder,
            pictures,
            texts,
            architecture.tokenizer,
            architecture.preprocessing,
            architecture.tokens,
            network=pair.images.fingerprint(),
        )


def convert(folder: Path) -> None:
    """Replace a model of version 0.3.0, with torch's weights, by one of ONNX graphs.

    It keeps its name, its calibration, and the fingerprint by which libraries know it.

    Raises:
        CheckpointError: the folder holds no such model, or a damaged one.
        BackboneError: a package is missing, or torch cannot export the encoders.
    """
    with OLD_KIND.open(folder) as (config, sums):
        pair = _old_pair(folder, config)
        calibration = (folder / CALIBRATION).read_bytes()
    new, old = (folder.with_name(f".{folder.name}.{suffix}") for suffix in ("new", "old"))
    for leftover in (new, old):
        shutil.rmtree(leftover, ignore_errors=True)
    name, encoder = str(config["name"]), str(config["model"]["encoder"])
    with exported(encoder, pair) as files, lock_folder(folder):
        dual_encoder_folder.save(new, name, files, calibration, fingerprint_of(sums))
        folder.rename(old)
        new.rename(folder)
    shutil.rmtree(old)


def _old_pair(folder: Path, config: dict[str, Any]) -> EncoderPair:
    """Read the encoders of a model of version 0.3.0."""
    name = config["model"]["encoder"]
    stored = json.loads((folder / VOCABULARY).read_bytes())
    vocabulary = stored["vocabulary"]
    architecture = Architecture(
        config["architecture"],
        Preprocessing(**config["preprocessing"]),
        clip_tokenizer() if vocabulary is None else json.dumps(vocabulary).encode(),
        TokenSettings(
            stored["context_length"], stored["padding"], stored["clean"], stored["separator"]
        ),
    )
    pair = build(name, architecture)
    with weights(folder) as arrays:
        state = tensors(arrays)
    halves = {"images.": pair.images, "texts.": pair.texts}
    for prefix, half in halves.items():
        half.load_state_dict(
            {key.removeprefix(prefix): state[key] for key in state if key.startswith(prefix)}
        )
    return pair


def _export(network: nn.Module, example: Tensor, names: tuple[str, str], path: Path) -> None:
    """Write a network of one picture or text as an ONNX graph; name its input and output."""
    if importlib.util.find_spec("onnx") is None:
        raise BackboneError(
            f"the export needs a package that is missing: {pip_install('open-clip')}"
        )
    fast_path = torch.backends.mha.get_fastpath_enabled()
    torch.backends.mha.set_fastpath_enabled(False)  # it has no operator of ONNX
    try:
        with torch.inference_mode(), warnings.catch_warnings():
            warnings.simplefilter("ignore")
            torch.onnx.export(
                network,
                (example,),
                path,
                input_names=names[:1],
                output_names=names[1:],
                opset_version=_OPSET,
                dynamo=False,  # the newer exporter takes 10 s for what this one does in 0.3 s
            )
    except torch.onnx.OnnxExporterError as error:
        raise BackboneError(
            f"torch cannot export this encoder to ONNX ({str(error).partition(chr(10))[0]}): "
            f"choose another model"
        ) from error
    finally:
        torch.backends.mha.set_fastpath_enabled(fast_path)
