"""open_clip's models: an encoder of pictures and one of texts, with a common space."""

from __future__ import annotations

import difflib
import json
from collections.abc import Mapping
from copy import deepcopy
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, get_args

import open_clip
from open_clip.tokenizer import DEFAULT_CONTEXT_LENGTH
from open_clip.transform import PreprocessCfg, merge_preprocess_dict
from torch import Tensor, nn

from hasse.lab.encoders.backbone import Backbone
from hasse.lab.encoders.libraries.clip_tokenizer import clip_tokenizer
from hasse.lab.encoders.libraries.downloads import EncoderFiles
from hasse.lab.encoders.weights import read_weights, require_weights
from hasse.models.errors import BackboneError
from hasse.models.images.preprocessing import Interpolation, Preprocessing
from hasse.models.published.tokens import TokenizerFiles, settings_of
from hasse.models.tokenizer import Tokenizer, TokenSettings, read_tokenizer

CONFIG = "open_clip_config.json"
_TOKENIZER, _TOKENIZER_CONFIG = "tokenizer.json", "tokenizer_config.json"
FILES = EncoderFiles(
    weights=("open_clip_model.safetensors", "model.safetensors", "open_clip_pytorch_model.bin"),
    optional=(CONFIG, _TOKENIZER, _TOKENIZER_CONFIG),
)
_LIBRARY, _VISUAL = "open_clip/", "visual."
_ANY_TEXT = "a photo of a dog and a cat"


class OpenClipImages(Backbone):
    """The encoder of pictures; its features are the points before normalisation."""

    def has_grid(self) -> bool:
        """Return whether the network ends in the average of a grid, which `keep_grid` needs."""
        return False

    def _remove_average(self) -> None:
        raise NotImplementedError

    def _fuse(self) -> None:
        """Do nothing: these networks have little batch normalisation."""

    def load_weights(self, path: Path) -> None:
        """Load the encoder of pictures from a model's folder or file; see `load`."""
        self.load_state_dict(load(self.name, path).images.state_dict())


class OpenClipText(nn.Module):
    """The encoder of texts.

    Attributes:
        network: the library's model without its encoder of pictures.
    """

    def __init__(self, network: nn.Module) -> None:
        super().__init__()
        self.network = network

    def forward(self, tokens: Tensor) -> Tensor:
        """Return features of tokens: (B, L) -> (B, F), the points before normalisation."""
        features: Tensor = self.network.encode_text(tokens)  # type: ignore[operator]
        return features


@dataclass(frozen=True, slots=True)
class Architecture:
    """The architecture of both encoders: with weights, enough to build them.

    Attributes:
        model: open_clip's configuration of the model.
        preprocessing: of pictures.
        tokenizer: the content of tokenizer.json; None for the encoder of pictures alone.
        tokens: the settings of the tokenizer, if there is one.
    """

    model: dict[str, Any]
    preprocessing: Preprocessing
    tokenizer: bytes | None = None
    tokens: TokenSettings | None = None


@dataclass(frozen=True)
class EncoderPair:
    """Both encoders of a model."""

    architecture: Architecture
    images: OpenClipImages
    texts: OpenClipText = field(repr=False)


def build(name: str, architecture: Architecture) -> EncoderPair:
    """Build both encoders with random weights."""
    return _split(name, architecture, _build_model(architecture.model))


def build_images(name: str, weights: Path | None) -> OpenClipImages:
    """Build the encoder of pictures with random weights, or those of a model's folder or file.

    Raises:
        BackboneError: there is no such model, or the weights are of another one.
    """
    if weights is not None:
        return load(name, weights).images
    model, preprocessing = _known_configuration(name)
    return build(name, Architecture(model, preprocessing)).images


def load(name: str, path: Path) -> EncoderPair:
    """Build both encoders with the weights of a file, or of a folder laid out as on the hub.

    Args:
        name: as `open_clip/ViT-B-32:laion2b_s34b_b79k`, with or without the tag after the colon.

    Raises:
        BackboneError: open_clip has no such model, the weights are of another one, or Hasse cannot
            read the tokenizer.
    """
    file, folder = _weights_at(path)
    model, preprocessing = _configuration(name, folder)
    if "hf_model_name" in model["text_cfg"] or "multimodal_cfg" in model:
        raise BackboneError(
            f"Hasse cannot read the text encoder of {name}: choose a model whose texts "
            f"open_clip itself encodes, such as open_clip/ViT-B-32:laion2b_s34b_b79k"
        )
    tokenizer = _tokenizer(name, model["text_cfg"], folder)
    architecture = Architecture(model, preprocessing, *tokenizer)
    network = _build_model(model)
    weights = read_weights(file)
    if "positional_embedding" in weights and not hasattr(network, "positional_embedding"):
        weights = open_clip.model.convert_to_custom_text_state_dict(weights)
    require_weights(name, network, weights, file, ("text.transformer.embeddings",))
    return _split(name, architecture, network)


def hub_repository(name: str) -> str:
    """Return the repository of a model's weights on the Hugging Face hub.

    Raises:
        BackboneError: there is none, or open_clip has no such model.
    """
    model, tag = _parts(name)
    _known_configuration(name)  # refuses unknown names
    if not tag:
        known = open_clip.list_pretrained_tags_by_model(model)
        raise BackboneError(
            f"say which weights of {name}: {', '.join(f'{name}:{each}' for each in known)}"
            if known
            else f"open_clip publishes no weights of {name}: name yours with --weights"
        )
    repository = str(open_clip.get_pretrained_cfg(model, tag).get("hf_hub", "")).strip("/")
    if repository.count("/") != 1:
        raise BackboneError(
            f"the weights of {name} are not on the Hugging Face hub: download them elsewhere and "
            f"name them with --weights"
        )
    return repository


def _build_model(config: Mapping[str, Any]) -> Any:
    """Build both encoders as one model of the library, with random weights, offline."""
    options = deepcopy(dict(config))
    custom = options.pop("custom_text", False)
    if "timm_model_name" in options["vision_cfg"]:
        options["vision_cfg"]["timm_model_pretrained"] = False
    return (open_clip.CustomTextCLIP if custom else open_clip.CLIP)(**options).eval()


def _split(name: str, architecture: Architecture, whole: Any) -> EncoderPair:
    visual, dimension = whole.visual, int(architecture.model["embed_dim"])
    del whole.visual
    images = OpenClipImages(name, visual, dimension, architecture.preprocessing)
    return EncoderPair(architecture, images, OpenClipText(whole))


def _weights_at(path: Path) -> tuple[Path, Path | None]:
    """Return the file of weights, and the folder of the model's files, if any."""
    if not path.exists():
        raise BackboneError(f"there is no file or folder {path}: name weights that are there")
    if not path.is_dir():
        return path, None
    names = FILES.choose({file.name for file in path.iterdir() if file.is_file()})
    if not names:
        raise BackboneError(
            f"{path} holds no weights of open_clip's: none of {', '.join(FILES.weights)} is there"
        )
    return path / names[-1], path


def _parts(name: str) -> tuple[str, str]:
    model, _, tag = name.removeprefix(_LIBRARY).partition(":")
    return model, tag


def _configuration(name: str, folder: Path | None) -> tuple[dict[str, Any], Preprocessing]:
    """Return a model's configuration from its folder if it has one, else by its name."""
    file = None if folder is None else folder / CONFIG
    if file is None or not file.is_file():
        return _known_configuration(name)
    try:
        content = json.loads(file.read_bytes())
        model, settings = content["model_cfg"], content.get("preprocess_cfg", {})
        shape = _shape(model)
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise BackboneError(f"{file} is not a configuration of open_clip's") from error
    by_name = open_clip.get_model_config(_parts(name)[0])
    if by_name is not None and _shape(by_name) != shape:
        raise BackboneError(f"{folder} holds another model than {name}: name the one that it holds")
    return model, _preprocessing(model, settings)


def _shape(model: Mapping[str, Any]) -> list[object]:
    """Return sizes that identify most models."""
    vision, text = model["vision_cfg"], model["text_cfg"]
    sizes = (vision.get(key) for key in ("layers", "width", "patch_size"))
    return [model["embed_dim"], text.get("context_length"), text.get("width"), *sizes]


def _known_configuration(name: str) -> tuple[dict[str, Any], Preprocessing]:
    """Return open_clip's configuration of a model, by its name."""
    model, tag = _parts(name)
    config: dict[str, Any] | None = open_clip.get_model_config(model)
    if config is None:
        near = difflib.get_close_matches(model, open_clip.list_models(), n=3)
        raise BackboneError(
            f"open_clip has no model '{model}'; "
            + (f"there is {', '.join(near)}" if near else "open_clip.list_models() lists them")
        )
    settings: dict[str, Any] = open_clip.get_pretrained_cfg(model, tag) if tag else {}
    if tag and not settings:
        tags = open_clip.list_pretrained_tags_by_model(model)
        raise BackboneError(
            f"open_clip has no weights '{tag}' of {model}; there is {', '.join(tags) or 'none'}"
        )
    if tag:  # the activation that the weights were trained with
        config["quick_gelu"] = bool(settings.get("quick_gelu", False))
    return config, _preprocessing(config, settings)


def _preprocessing(model: Mapping[str, Any], settings: Mapping[str, Any]) -> Preprocessing:
    merged: dict[str, Any] = merge_preprocess_dict(PreprocessCfg(), dict(settings))
    size, mode = model["vision_cfg"].get("image_size", merged["size"]), merged["resize_mode"]
    height, width = size if isinstance(size, list | tuple) else (size, size)
    if height != width or mode not in {"shortest", "squash"}:
        raise BackboneError(
            f"Hasse cannot prepare pictures as this model wants them ({height} x {width}, "
            f"{mode}): choose another model"
        )
    interpolation = merged["interpolation"]
    return Preprocessing(
        resize=int(height),
        crop=int(height),
        mean=merged["mean"],
        std=merged["std"],
        framing="whole" if mode == "squash" else "centre",
        interpolation=interpolation if interpolation in get_args(Interpolation) else "bicubic",
    )


def _tokenizer(
    name: str, text: Mapping[str, Any], folder: Path | None
) -> tuple[bytes, TokenSettings]:
    """Return the content of tokenizer.json and its settings."""
    length = int(text.get("context_length", DEFAULT_CONTEXT_LENGTH))
    options = dict(text.get("tokenizer_kwargs", {}))
    if not text.get("hf_tokenizer_name"):
        settings = TokenSettings(length, 0, options.get("clean", "lower"))
        return _require_fit(name, text, clip_tokenizer(), settings)
    file = None if folder is None else folder / _TOKENIZER
    if file is None or not file.is_file() or text.get("tokenizer_mode"):
        raise BackboneError(
            f"the tokenizer of {name} is a file of its own: give --weights a folder with "
            f"its {_TOKENIZER} and {_TOKENIZER_CONFIG} beside the weights"
        )
    content = file.read_bytes()
    settings_file = file.with_name(_TOKENIZER_CONFIG)
    files = TokenizerFiles(
        {"text_cfg": text},
        read_tokenizer(content),
        json.loads(settings_file.read_bytes()) if settings_file.is_file() else {},
        {},
    )
    try:
        settings = settings_of(files, "immich", None, masked=False)
    except ValueError as error:
        raise BackboneError(
            f"Hasse cannot use the tokenizer of {name} ({error}): put its {_TOKENIZER_CONFIG} "
            f"beside it"
        ) from error
    return _require_fit(name, text, content, settings)


def _require_fit(
    name: str, text: Mapping[str, Any], content: bytes, settings: TokenSettings
) -> tuple[bytes, TokenSettings]:
    """Refuse a tokenizer with more words than the text encoder has."""
    tokens, _ = Tokenizer(content, settings)(_ANY_TEXT)
    if (largest := int(tokens.max())) >= (known := text["vocab_size"]):
        raise BackboneError(
            f"the tokenizer of {name} gives a part of a word the number {largest:,}, and "
            f"its text encoder knows {known:,}: take the {_TOKENIZER} of the same model"
        )
    return content, settings
