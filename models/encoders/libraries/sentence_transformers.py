"""Sentence encoders of the sentence-transformers, as their repositories have them."""

from __future__ import annotations

from collections.abc import Sequence

_WEIGHTS = "model.safetensors"
_NEEDED = ("config.json", "tokenizer.json", _WEIGHTS)
_OTHERS = ("tokenizer_config.json", "special_tokens_map.json", "vocab.txt")


def wanted_files(names: Sequence[str]) -> list[str]:
    """Choose from the files of a repository those that make an encoder, its weights last."""
    if not all(name in names for name in _NEEDED):
        return []
    return [*(name for name in _OTHERS if name in names), *_NEEDED]
