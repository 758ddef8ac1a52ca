"""Tokenizers of pretrained text encoders, the same as in their libraries.

A tokenizer is stored as one JSON file, so a model's folder needs no other: settings, and the
content of the `tokenizer.json` of the Hugging Face libraries. CLIP's tokenizer is part of
open_clip, so its content is not stored.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from functools import cached_property
from typing import Any, Self

import torch
from torch import Tensor


@dataclass(frozen=True)
class Tokenizer:
    """A tokenizer of open_clip.

    Attributes:
        context_length: number of tokens of a text; longer texts are cut.
        clean: how open_clip cleans texts: "lower", "whitespace" or "canonicalize".
        vocabulary: the content of `tokenizer.json`; None for CLIP's tokenizer.
        padding: the padding token, for a `vocabulary`.
        separator: a token that becomes 0, if any.
    """

    context_length: int
    clean: str = "lower"
    vocabulary: dict[str, Any] | None = None
    padding: int = 0
    separator: int | None = None

    def __call__(self, texts: Sequence[str]) -> Tensor:
        """Return tokens of texts: B texts -> (B, context_length)."""
        if self.vocabulary is None:
            numbers: Tensor = self._built_in(list(texts))
            return numbers
        from open_clip.tokenizer import get_clean_fn

        encoded = self._from_vocabulary.encode_batch(list(map(get_clean_fn(self.clean), texts)))
        numbers = torch.tensor([text.ids for text in encoded])
        return numbers if self.separator is None else numbers.where(numbers != self.separator, 0)

    def knows_word(self, word: str) -> bool:
        """Return whether a word is one token, or has a token of two characters or more.

        Words in an unknown script are split into characters or bytes.
        """
        parts = self._parts(word.lower())
        return len(parts) == 1 or any(len(part) > 1 for part in parts)

    def _parts(self, word: str) -> list[str]:
        """Return the tokens of a word as texts, without bytes of incomplete characters."""
        if self.vocabulary is not None:
            encoded = self._from_vocabulary.encode(word, add_special_tokens=False)
            unknown = self._from_vocabulary.token_to_id("<unk>")
            pieces = zip(encoded.ids, encoded.tokens, strict=True)
            parts = [
                token.strip("▁") for id_, token in pieces if id_ not in {unknown, self.padding}
            ]
            return [part for part in parts if part and not part.startswith("<0x")]
        clip = self._built_in
        parts = [clip.decoder[number].removesuffix("</w>") for number in clip.encode(word)]
        return [bytes(map(clip.byte_decoder.get, part)).decode(errors="ignore") for part in parts]

    @cached_property
    def _built_in(self) -> Any:
        from open_clip.tokenizer import SimpleTokenizer

        return SimpleTokenizer(context_length=self.context_length, clean=self.clean)

    @cached_property
    def _from_vocabulary(self) -> Any:
        import tokenizers

        tokenizer = tokenizers.Tokenizer.from_str(json.dumps(self.vocabulary))
        tokenizer.enable_truncation(self.context_length)
        tokenizer.enable_padding(length=self.context_length, pad_id=self.padding)
        return tokenizer

    def to_bytes(self) -> bytes:
        """Return the tokenizer as JSON."""
        return json.dumps(asdict(self), ensure_ascii=False).encode()

    @classmethod
    def from_bytes(cls, content: bytes) -> Self:
        """Read the result of `to_bytes`; raises ValueError or TypeError for anything else."""
        return cls(**json.loads(content))
