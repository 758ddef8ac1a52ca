"""open_clip's models: an encoder of pictures and one of texts, with one space for both."""

from __future__ import annotations

import difflib
import json
from collections.abc import Mapping, Sequence
from copy import deepcopy
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Self, get_args

import open_clip
from open_clip.transform import PreprocessCfg, merge_preprocess_dict
from torch import Tensor, nn

from hasse.models.encoders.backbone import Backbone
from hasse.models.encoders.libraries.tokenizer import Tokenizer
from hasse.models.encoders.pretrained_text import PretrainedText
from hasse.models.encoders.weights import BackboneError, read_weights, require_weights
from hasse.models.images.preprocessing import Interpolation, Preprocessing

CONFIG = "open_clip_config.json"
_WEIGHTS = ("open_clip_model.safetensors", "model.safetensors", "open_clip_pytorch_model.bin")
_TOKENIZER, _TOKENIZER_CONFIG = "tokenizer.json", "tokenizer_config.json"
_LIBRARY = "open_clip/"
_ANY_TEXT = "a photo of a dog and a cat"


class OpenClipImages(Backbone):
    """The encoder of pictures; its features are the points before they have unit length."""

    def has_grid(self) -> bool:
        """Tell whether the network ends in the average of a grid, which it could keep."""
        return False

    def _remove_average(self) -> None:
        raise NotImplementedError

    def _fuse(self) -> None:
        """There is no batch normalisation that is worth it."""

    def load_weights(self, path: Path) -> None:
        """Load the encoder of pictures from a model's folder or file; see `towers`."""
        self.load_state_dict(towers(Source.of(self.name, path)).images.state_dict())


class OpenClipText(PretrainedText):
    """The encoder of texts.

    Attributes:
        network: the library's model without its encoder of pictures.
        tokenizer: numbers the parts of texts.
    """

    def __init__(self, name: str, network: nn.Module, dimension: int, tokenizer: Tokenizer) -> None:
        super().__init__(name, dimension)
        self.network = network
        self.tokenizer = tokenizer

    def forward(self, texts: Sequence[str]) -> Tensor:
        """Return features of texts: B texts -> (B, F), the points before they have unit length."""
        tokens = self.tokenizer(texts).to(next(self.parameters()).device)
        features: Tensor = self.network.encode_text(tokens)  # type: ignore[operator]
        return features

    def _knows_word(self, word: str) -> bool:
        return self.tokenizer.knows_word(word)


@dataclass(frozen=True, slots=True)
class Architecture:
    """What must be known, beside weights, to build both encoders.

    Attributes:
        model: open_clip's configuration of the model.
        preprocessing: how it prepares pictures.
        tokenizer: how it reads texts.
    """

    model: dict[str, Any]
    preprocessing: Preprocessing
    tokenizer: Tokenizer

    @classmethod
    def from_parts(
        cls, model: Mapping[str, Any], preprocessing: Mapping[str, Any], tokenizer: Tokenizer
    ) -> Self:
        """Take a model's configuration and how open_clip says it prepares pictures."""
        vision = model["vision_cfg"]
        looks: dict[str, Any] = merge_preprocess_dict(PreprocessCfg(), dict(preprocessing))
        looks["size"] = vision.get("image_size", looks["size"])
        return cls(deepcopy(dict(model)), _preprocessing(looks), tokenizer)


@dataclass(frozen=True, slots=True)
class Source:
    """A name and where its files lie.

    Attributes:
        name: as `open_clip/ViT-B-32:laion2b_s34b_b79k`, with or without what follows the colon.
        weights: the file.
        folder: of the other files, if there is one.
    """

    name: str
    weights: Path
    folder: Path | None = None

    @classmethod
    def of(cls, name: str, path: Path) -> Self:
        """Find the weights in a folder laid out as on the hub, or take a file of weights.

        Raises:
            BackboneError: there are none.
        """
        if not path.exists():
            raise BackboneError(f"there is no file or folder {path}: name weights that are there")
        if not path.is_dir():
            return cls(name, path)
        weights = next((path / file for file in _WEIGHTS if (path / file).is_file()), None)
        if weights is None:
            raise BackboneError(
                f"{path} holds no weights of open_clip's: none of {', '.join(_WEIGHTS)} is there"
            )
        return cls(name, weights, path)

    def architecture(self) -> Architecture:
        """Read how the model is built, from its folder or, where that says nothing, by its name.

        Raises:
            BackboneError: open_clip knows no such model, the folder holds another, or Hasse cannot
                read its tokenizer.
        """
        model, looks = self._described()
        if "hf_model_name" in model["text_cfg"] or "multimodal_cfg" in model:
            raise BackboneError(
                f"Hasse cannot read the text encoder of {self.name}: choose a model whose texts "
                f"open_clip itself encodes, such as open_clip/ViT-B-32:laion2b_s34b_b79k"
            )
        tokenizer, known = _tokenizer(self, model["text_cfg"]), model["text_cfg"]["vocab_size"]
        if (largest := int(tokenizer([_ANY_TEXT]).max())) >= known:
            raise BackboneError(
                f"the tokenizer of {self.name} gives a part of a word the number {largest:,}, and "
                f"its text encoder knows {known:,}: take the {_TOKENIZER} of the same model"
            )
        return Architecture.from_parts(model, looks, tokenizer)

    def _described(self) -> tuple[dict[str, Any], dict[str, Any]]:
        """Return the configuration of the model, and how it prepares pictures."""
        file = None if self.folder is None else self.folder / CONFIG
        if file is None or not file.is_file():
            return _known(self.name)
        try:
            content = json.loads(file.read_bytes())
            model, looks = content["model_cfg"], content.get("preprocess_cfg", {})
            shape = _shape(model)
        except (ValueError, KeyError, TypeError, AttributeError) as error:
            raise BackboneError(f"{file} is not a configuration of open_clip's") from error
        by_name = open_clip.get_model_config(_parts(self.name)[0])
        if by_name is not None and _shape(by_name) != shape:
            raise BackboneError(
                f"{self.folder} holds another model than {self.name}: name the one that it holds"
            )
        return model, looks


@dataclass(frozen=True)
class Towers:
    """Both encoders of a model."""

    architecture: Architecture
    images: OpenClipImages
    texts: OpenClipText = field(repr=False)


def build(name: str, architecture: Architecture) -> Towers:
    """Build both encoders with random weights."""
    towers, images = _model(architecture), architecture.preprocessing
    visual = towers.visual
    del towers.visual
    dimension = int(architecture.model["embed_dim"])
    return Towers(
        architecture,
        OpenClipImages(name, visual, dimension, images),
        OpenClipText(name, towers, dimension, architecture.tokenizer),
    )


def build_images(name: str, weights: Path | None) -> OpenClipImages:
    """Build the encoder of pictures with random weights, or those of a model's folder or file.

    Raises:
        BackboneError: there is no such model, or its weights are others.
    """
    if weights is not None:
        return towers(Source.of(name, weights)).images
    model, looks = _known(name)
    return build(name, Architecture.from_parts(model, looks, Tokenizer(1))).images


def towers(source: Source) -> Towers:
    """Build both encoders with the weights of a file.

    Raises:
        BackboneError: the file does not hold their weights.
    """
    architecture = source.architecture()
    whole = _model(architecture)
    weights = read_weights(source.weights)
    if "positional_embedding" in weights and not hasattr(whole, "positional_embedding"):
        weights = open_clip.model.convert_to_custom_text_state_dict(weights)
    require_weights(source.name, whole, weights, source.weights, ("text.transformer.embeddings",))
    built = build(source.name, architecture)
    state = whole.state_dict()
    visual = "visual."
    built.images.network.load_state_dict(
        {key.removeprefix(visual): value for key, value in state.items() if key.startswith(visual)}
    )
    built.texts.network.load_state_dict(
        {key: value for key, value in state.items() if not key.startswith(visual)}
    )
    return built


def hub_repository(name: str) -> str:
    """Return the repository of the Hugging Face hub that has the weights of a model.

    Raises:
        BackboneError: none has, or open_clip knows no such model.
    """
    model, tag = _parts(name)
    if not tag:
        known = open_clip.list_pretrained_tags_by_model(model)
        _known(name)  # refuses what is no model at all
        raise BackboneError(
            f"say which weights of {name}: {', '.join(f'{name}:{each}' for each in known)}"
            if known
            else f"open_clip publishes no weights of {name}: name yours with --weights"
        )
    _known(name)
    repository = str(open_clip.get_pretrained_cfg(model, tag).get("hf_hub", "")).strip("/")
    if repository.count("/") != 1:
        raise BackboneError(
            f"the weights of {name} are not on the Hugging Face hub: download them elsewhere and "
            f"name them with --weights"
        )
    return repository


def wanted_files(names: Sequence[str]) -> list[str]:
    """Choose from the files of a repository those that make a model."""
    weights = next((file for file in _WEIGHTS if file in names), None)
    if weights is None:
        return []
    return [*(each for each in (CONFIG, _TOKENIZER, _TOKENIZER_CONFIG) if each in names), weights]


def _parts(name: str) -> tuple[str, str]:
    model, _, tag = name.removeprefix(_LIBRARY).partition(":")
    return model, tag


def _shape(model: Mapping[str, Any]) -> list[object]:
    """Return sizes that tell most models apart."""
    vision, text = model["vision_cfg"], model["text_cfg"]
    sizes = (vision.get(key) for key in ("layers", "width", "patch_size"))
    return [model["embed_dim"], text.get("context_length"), text.get("width"), *sizes]


def _known(name: str) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return the configuration of a model that open_clip knows, and how it prepares pictures."""
    model, tag = _parts(name)
    found: dict[str, Any] | None = open_clip.get_model_config(model)
    if found is None:
        near = difflib.get_close_matches(model, open_clip.list_models(), n=3)
        raise BackboneError(
            f"open_clip has no model '{model}'; "
            + (f"there is {', '.join(near)}" if near else "open_clip.list_models() lists them")
        )
    looks: dict[str, Any] = open_clip.get_pretrained_cfg(model, tag) if tag else {}
    if tag and not looks:
        tags = open_clip.list_pretrained_tags_by_model(model)
        raise BackboneError(
            f"open_clip has no weights '{tag}' of {model}; there is {', '.join(tags) or 'none'}"
        )
    if tag:  # the activation that the weights were trained with
        found["quick_gelu"] = bool(looks.get("quick_gelu", False))
    return found, looks


def _model(architecture: Architecture) -> Any:
    """Build the library's whole model with random weights, without asking any other computer."""
    config = deepcopy(architecture.model)
    own = config.pop("custom_text", False)
    if "timm_model_name" in config["vision_cfg"]:
        config["vision_cfg"]["timm_model_pretrained"] = False
    model = open_clip.CustomTextCLIP if own else open_clip.CLIP
    return model(**config).eval()


def _tokenizer(source: Source, text: Mapping[str, Any]) -> Tokenizer:
    length = int(text.get("context_length", 77))
    options = dict(text.get("tokenizer_kwargs", {}))
    named = text.get("hf_tokenizer_name")
    if not named:
        return Tokenizer(length, options.get("clean", "lower"))
    file = None if source.folder is None else source.folder / _TOKENIZER
    if file is None or not file.is_file() or text.get("tokenizer_mode"):
        raise BackboneError(
            f"the tokenizer of {source.name} is a file of its own: give --weights a folder with "
            f"its {_TOKENIZER} and {_TOKENIZER_CONFIG} beside the weights"
        )
    vocabulary = json.loads(file.read_bytes())
    numbers = {each["content"]: int(each["id"]) for each in vocabulary.get("added_tokens", [])}
    told = source.folder / _TOKENIZER_CONFIG if source.folder else file
    settings = json.loads(told.read_bytes()) if told.is_file() else {}
    separator = settings.get("sep_token") if options.get("strip_sep_token") else None
    return Tokenizer(
        length,
        options.get("clean", "whitespace"),
        vocabulary,
        numbers.get(_content(settings.get("pad_token")), 0),
        None if separator is None else numbers.get(_content(separator)),
    )


def _content(token: object) -> str:
    """Return a special token as text: some configurations describe it further."""
    return str(token["content"] if isinstance(token, Mapping) else token)


def _preprocessing(looks: Mapping[str, Any]) -> Preprocessing:
    size = looks["size"]
    sides = tuple(size) if isinstance(size, list | tuple) else (size, size)
    mode = looks["resize_mode"]
    if sides[0] != sides[1] or mode not in {"shortest", "squash"}:
        raise BackboneError(
            f"Hasse cannot prepare pictures as this model wants them ({sides[0]} x {sides[1]}, "
            f"{mode}): choose another model"
        )
    given = looks["interpolation"]
    return Preprocessing(
        resize=int(sides[0]),
        crop=int(sides[0]),
        mean=looks["mean"],
        std=looks["std"],
        framing="whole" if mode == "squash" else "centre",
        interpolation=given if given in get_args(Interpolation) else "bicubic",
    )
