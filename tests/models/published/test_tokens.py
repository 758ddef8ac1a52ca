"""Texts are padded, cut and cleaned as the settings of a published model say."""

from __future__ import annotations

from typing import Any

import pytest

from hasse.models.published.tokens import TokenizerFiles, settings_of
from hasse.models.tokenizer import TokenSettings, read_tokenizer
from tests.tiny_towers import END, PAD, tokenizer

HUGE = 10**30


def files(
    config: dict[str, Any],
    tokenizer_config: dict[str, Any] | None = None,
    special_tokens: dict[str, Any] | None = None,
) -> TokenizerFiles:
    settings = {"pad_token": "<pad>"} if tokenizer_config is None else tokenizer_config
    return TokenizerFiles(config, read_tokenizer(tokenizer()), settings, special_tokens or {})


def immich(text: dict[str, Any], **options: Any) -> TokenSettings:
    return settings_of(files({"text_cfg": text}, **options), "immich", None, masked=False)


def transformers(
    config: dict[str, Any], sequence: int | None = None, *, masked: bool = False, **options: Any
) -> TokenSettings:
    return settings_of(files(config, **options), "Transformers.js", sequence, masked=masked)


def test_immich_texts_have_77_tokens_or_those_that_the_config_says() -> None:
    assert immich({}) == TokenSettings(77, PAD, "whitespace")
    assert immich({"context_length": 64}).context_length == 64


def test_immich_siglip_is_canonicalized() -> None:
    options = {"context_length": 64, "tokenizer_kwargs": {"clean": "canonicalize"}}
    assert immich(options) == TokenSettings(64, PAD, "canonicalize")


def test_immich_separator_is_replaced_where_the_config_says() -> None:
    options = {"tokenizer_kwargs": {"strip_sep_token": True}}
    settings = immich(options, special_tokens={"sep_token": {"content": "</s>"}})
    assert settings.separator == END


def test_padding_is_a_token_of_any_of_the_files() -> None:
    named = {"pad_token": {"content": "</s>"}}
    assert immich({}, tokenizer_config=named).padding == END
    assert immich({}, tokenizer_config={}, special_tokens=named).padding == END
    config = {"model_type": "clip", "text_config": {"pad_token_id": 9}}
    assert transformers(config, tokenizer_config={}).padding == 9
    with pytest.raises(ValueError, match="which token fills short texts up"):
        immich({}, tokenizer_config={})


@pytest.mark.parametrize(("kind", "length"), [("clip", 77), ("siglip", 64), ("siglip2", 64)])
def test_transformers_texts_without_a_stated_length_have_that_of_their_kind(
    kind: str, length: int
) -> None:
    settings = {"pad_token": "<pad>", "model_max_length": HUGE}
    assert transformers({"model_type": kind}, tokenizer_config=settings).context_length == length


def test_transformers_length_is_the_graph_s_then_the_tokenizer_s_then_the_config_s() -> None:
    config = {"model_type": "clip", "text_config": {"max_position_embeddings": 20}}
    limited = {"pad_token": "<pad>", "model_max_length": 30}
    assert transformers(config, 10, tokenizer_config=limited).context_length == 10
    assert transformers(config, tokenizer_config=limited).context_length == 30
    assert transformers(config).context_length == 20


def test_transformers_texts_with_a_mask_have_at_most_77_tokens() -> None:
    limited = {"pad_token": "<pad>", "model_max_length": 512}
    config = {"model_type": "xlm-roberta"}
    assert transformers(config, tokenizer_config=limited).context_length == 512
    assert transformers(config, masked=True, tokenizer_config=limited).context_length == 77


@pytest.mark.parametrize(
    ("kind", "tokenizer_class", "clean"),
    [
        ("clip", "CLIPTokenizer", "whitespace"),
        ("siglip", "SiglipTokenizer", "canonicalize"),
        ("siglip", "GemmaTokenizerFast", "lower"),
        ("siglip2", "Siglip2Tokenizer", "lower"),
    ],
)
def test_transformers_siglip_is_cleaned_as_it_was_trained(
    kind: str, tokenizer_class: str, clean: str
) -> None:
    settings = {"pad_token": "<pad>", "tokenizer_class": tokenizer_class}
    assert transformers({"model_type": kind}, tokenizer_config=settings).clean == clean
