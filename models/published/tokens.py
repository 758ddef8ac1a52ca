"""How a published text encoder wants its tokens, from its settings and its graph."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from hasse.models.published.layout import Maker
from hasse.models.tokenizer import Cleaning, TokenSettings

_LENGTHS = {"clip": 77, "siglip": 64, "siglip2": 64}
_OPEN_CLIP_LENGTH = 77
# Texts of any length all get this one: a runtime prepares a graph for each length anew.
_MASKED_LENGTH = 77
_MAX_LENGTH = 10_000  # tokenizers without a limit name a huge number


@dataclass(frozen=True, slots=True)
class TokenizerFiles:
    """The settings beside a tokenizer.

    Attributes:
        config: config.json, of the model.
        tokenizer: a tokenizer that is read.
        tokenizer_config: tokenizer_config.json, or empty.
        special_tokens: special_tokens_map.json, or empty.
    """

    config: Mapping[str, Any]
    tokenizer: Any
    tokenizer_config: Mapping[str, Any]
    special_tokens: Mapping[str, Any]


def settings_of(
    files: TokenizerFiles, maker: Maker, sequence: int | None, *, masked: bool
) -> TokenSettings:
    """Return how texts become tokens.

    Args:
        files: the settings.
        maker: whose layout it is.
        sequence: the number of tokens that the graph takes, None for any.
        masked: whether the graph has an input that tells tokens from padding.

    Raises:
        ValueError: the padding token is unknown; KeyError or TypeError: a value is missing or of
            another type.
    """
    if maker == "immich":
        text = files.config["text_cfg"]
        options = text.get("tokenizer_kwargs") or {}
        length = sequence or int(text.get("context_length", _OPEN_CLIP_LENGTH))
        clean: Cleaning = options.get("clean", "whitespace")
        separator = _number(files, "sep_token") if options.get("strip_sep_token") else None
    else:
        length = sequence or _transformers_length(files)
        clean, separator = _transformers_cleaning(files), None
    if masked and sequence is None:
        length = min(length, _MASKED_LENGTH)
    return TokenSettings(length, _padding(files, masked=masked), clean, separator)


def _transformers_length(files: TokenizerFiles) -> int:
    limit = int(files.tokenizer_config.get("model_max_length", _MAX_LENGTH))
    if limit < _MAX_LENGTH:
        return limit
    known = _LENGTHS.get(str(files.config.get("model_type")), _OPEN_CLIP_LENGTH)
    return int(files.config.get("text_config", {}).get("max_position_embeddings", known))


def _transformers_cleaning(files: TokenizerFiles) -> Cleaning:
    """Return how texts are cleaned before the tokenizer, whose file leaves it to its class.

    SigLIP learned from texts without punctuation and in lower case, SigLIP 2 in lower case.
    """
    if not str(files.config.get("model_type")).startswith("siglip"):
        return "whitespace"
    is_first = "Siglip" in str(files.tokenizer_config.get("tokenizer_class"))
    is_second = "Siglip2" in str(files.tokenizer_config.get("tokenizer_class"))
    return "canonicalize" if is_first and not is_second else "lower"


def _padding(files: TokenizerFiles, *, masked: bool) -> int:
    number = _number(files, "pad_token")
    if number is None and files.tokenizer.padding is not None:
        number = files.tokenizer.padding["pad_id"]
    if number is None:
        number = files.config.get("text_config", {}).get("pad_token_id")
    if number is None and not masked:
        raise ValueError("no file says which token fills short texts up")
    return int(number or 0)


def _number(files: TokenizerFiles, kind: str) -> int | None:
    """Return the number of a special token, such as "pad_token", or None."""
    for settings in (files.tokenizer_config, files.special_tokens):
        token = settings.get(kind)
        text = token["content"] if isinstance(token, Mapping) else token
        if text is not None and (number := files.tokenizer.token_to_id(str(text))) is not None:
            return int(number)
    return None
