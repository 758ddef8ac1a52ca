"""Texts to the numbers that a pretrained text encoder reads, as its own library makes them.

A tokenizer is kept as one JSON file, so that a model's folder needs no other: settings, and the
content of the `tokenizer.json` of the Hugging Face libraries unless it is CLIP's own, which
open_clip has built in.
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
    """A tokenizer of open_clip's.

    Attributes:
        context_length: numbers of each text; longer ones are cut.
        clean: how open_clip cleans texts: "lower", "whitespace" or "canonicalize".
        vocabulary: the content of `tokenizer.json`; None for CLIP's own.
        padding: the number that fills up, in a vocabulary of its own.
        separator: a number that becomes 0, if any.
    """

    context_length: int
    clean: str = "lower"
    vocabulary: dict[str, Any] | None = None
    padding: int = 0
    separator: int | None = None

    def __call__(self, texts: Sequence[str]) -> Tensor:
        """Number the parts of texts: B texts -> (B, context_length)."""
        if self.vocabulary is None:
            numbers: Tensor = self._built_in(list(texts))
            return numbers
        from open_clip.tokenizer import get_clean_fn

        encoded = self._own.encode_batch(list(map(get_clean_fn(self.clean), texts)))
        numbers = torch.tensor([each.ids for each in encoded])
        return numbers if self.separator is None else numbers.where(numbers != self.separator, 0)

    def knows_word(self, word: str) -> bool:
        """Tell whether a word is one part, or has a part of two characters or more.

        Texts in a script that was not learned come apart into characters or bytes.
        """
        parts = self._parts(word.lower())
        return len(parts) == 1 or any(len(part) > 1 for part in parts)

    def _parts(self, word: str) -> list[str]:
        """Return the parts of a word as characters; bytes of a character are no part of it."""
        if self.vocabulary is not None:
            encoded = self._own.encode(word, add_special_tokens=False)
            unknown = self._own.token_to_id("<unk>")
            pieces = zip(encoded.ids, encoded.tokens, strict=True)
            parts = [
                token.strip("▁") for id_, token in pieces if id_ not in {unknown, self.padding}
            ]
            return [part for part in parts if part and not part.startswith("<0x")]
        known = self._built_in
        parts = [known.decoder[number].removesuffix("</w>") for number in known.encode(word)]
        return [bytes(map(known.byte_decoder.get, part)).decode(errors="ignore") for part in parts]

    @cached_property
    def _built_in(self) -> Any:
        from open_clip.tokenizer import SimpleTokenizer

        return SimpleTokenizer(context_length=self.context_length, clean=self.clean)

    @cached_property
    def _own(self) -> Any:
        import tokenizers

        own = tokenizers.Tokenizer.from_str(json.dumps(self.vocabulary))
        own.enable_truncation(self.context_length)
        own.enable_padding(length=self.context_length, pad_id=self.padding)
        return own

    def to_bytes(self) -> bytes:
        """Return all of it as JSON."""
        return json.dumps(asdict(self), ensure_ascii=False).encode()

    @classmethod
    def from_bytes(cls, content: bytes) -> Self:
        """Read what `to_bytes` gave; raises ValueError or TypeError for anything else."""
        return cls(**json.loads(content))
