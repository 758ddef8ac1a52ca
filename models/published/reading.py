"""Reads a folder with a published model: graphs, tokenizer and settings."""

from __future__ import annotations

import json
from pathlib import Path, PurePosixPath
from typing import Any

from hasse.models.checkpoints.dual_encoder_folder import EncoderFiles
from hasse.models.checkpoints.model_folder import sum_of
from hasse.models.networks.graph_file import external_files
from hasse.models.networks.network import open_network
from hasse.models.published.layout import Layout, PublishedModelError, layout_of_folder
from hasse.models.published.pixels import preprocessing_of
from hasse.models.published.tokens import TokenizerFiles, settings_of
from hasse.models.tokenizer import read_tokenizer


def read(folder: Path, encoder: str) -> EncoderFiles:
    """Read a folder of either layout; `encoder` is where it comes from.

    Raises:
        PublishedModelError: it has no such layout, a file is missing, or Hasse cannot prepare
            pictures or texts as the settings say.
        NetworkError: a graph cannot be read.
        TokenizerError: the tokenizer cannot be read.
    """
    layout = layout_of_folder(folder)
    if layout is None:
        raise PublishedModelError(
            f"{folder} holds no published model: no visual/model.onnx and no onnx/vision_model.onnx"
            f" is there; docs/encoders.md describes both layouts"
        )
    settings = _settings(folder, layout.preprocessing)
    try:
        preprocessing = preprocessing_of(settings, layout.maker)
    except (ValueError, KeyError, TypeError) as error:
        raise _unfit(folder / layout.preprocessing, error) from error
    content = (folder / layout.tokenizer).read_bytes()
    texts = open_network(folder / layout.texts)
    shape = next(iter(texts.inputs.values()), ())
    beside = PurePosixPath(layout.tokenizer).parent
    files = TokenizerFiles(
        _settings(folder, layout.config),
        read_tokenizer(content),
        _settings(folder, str(beside / "tokenizer_config.json")),
        _settings(folder, str(beside / "special_tokens_map.json")),
    )
    try:
        tokens = settings_of(
            files,
            layout.maker,
            shape[1] if len(shape) == 2 else None,
            masked="attention_mask" in texts.inputs,
        )
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise _unfit(folder / layout.config, error) from error
    return EncoderFiles(
        encoder,
        folder / layout.pictures,
        folder / layout.texts,
        content,
        preprocessing,
        tokens,
        checksums(folder, layout),
    )


def checksums(folder: Path, layout: Layout) -> dict[str, str]:
    """Return the SHA-256 of the files that a model is made of, by their names in its folder.

    Raises:
        NetworkError: a graph is none, or its weights are missing.
    """
    names = {*layout.required, *layout.optional}
    for graph in (layout.pictures, layout.texts):
        beside = PurePosixPath(graph).parent
        names.update(str(beside / name) for name in external_files(folder / graph))
    present = sorted(name for name in names if (folder / name).is_file())
    return {name: sum_of(folder / name) for name in present}


def _settings(folder: Path, name: str) -> dict[str, Any]:
    """Read a JSON file of settings; {} if it does not exist."""
    path = folder / name
    if not path.is_file():
        return {}
    try:
        settings = json.loads(path.read_bytes())
        if not isinstance(settings, dict):
            raise ValueError("no object")
    except ValueError as error:
        raise PublishedModelError(
            f"{path} is not a file of settings ({error}): download it again"
        ) from error
    return settings


def _unfit(path: Path, error: Exception) -> PublishedModelError:
    reason = f"{error} is missing" if isinstance(error, KeyError) else str(error)
    return PublishedModelError(
        f"Hasse cannot use the model of {path} ({reason}): choose another model"
    )
