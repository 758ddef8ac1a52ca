"""Tokenizers of published text encoders: a `tokenizer.json` and how their makers call it."""

from __future__ import annotations

import string
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal, TypeAlias, get_args

import numpy as np
from numpy.typing import NDArray

from hasse.models.errors import HasseError, pip_install
from hasse.models.vocabulary import words

Tokens: TypeAlias = NDArray[np.int64]
Cleaning: TypeAlias = Literal["whitespace", "lower", "canonicalize"]

_NO_PUNCTUATION = str.maketrans("_", " ", string.punctuation.replace("_", ""))
_UNKNOWN = ("<unk>", "[UNK]")
_HALF_A_CHARACTER = "\ufffd"  # what a token decodes to that ends within a character


class TokenizerError(HasseError):
    """A tokenizer cannot be used; the message has the reason and the remedy."""


@dataclass(frozen=True, slots=True)
class TokenSettings:
    """How a text encoder wants its texts.

    Attributes:
        context_length: largest number of tokens. Longer texts lose tokens before the last one,
            which marks the end.
        padding: the token that fills shorter texts up.
        clean: "whitespace" joins words by single spaces, "lower" also writes them in lower case,
            and "canonicalize" also leaves out punctuation.
        separator: a token that is replaced by 0, if any.
    """

    context_length: int
    padding: int = 0
    clean: Cleaning = "whitespace"
    separator: int | None = None

    def __post_init__(self) -> None:
        """Refuse impossible values (ValueError)."""
        if not 1 <= self.context_length <= 100_000:
            raise ValueError(f"a text cannot have {self.context_length} tokens")
        if self.clean not in get_args(Cleaning):
            raise ValueError(f"texts are not cleaned by '{self.clean}'")


class Tokenizer:
    """Turns texts into tokens, and tells which words are known.

    Attributes:
        settings: how the encoder wants its texts.
        words: none, since tokens are parts of words.
    """

    words: Sequence[str] = ()

    def __init__(self, content: bytes, settings: TokenSettings) -> None:
        """Read the content of a `tokenizer.json`.

        Raises:
            TokenizerError: it cannot be read, or the package `tokenizers` is missing.
        """
        self.settings = settings
        self._tokenizer = read_tokenizer(content)
        self._tokenizer.enable_truncation(settings.context_length)
        self._tokenizer.no_padding()
        self._unknown = {self._tokenizer.token_to_id(token) for token in _UNKNOWN}

    def __call__(self, text: str) -> tuple[Tokens, Tokens]:
        """Return the tokens of a text, and 1 for each that is no padding: two of (1, L)."""
        numbers = self._tokenizer.encode(self._clean(text)).ids
        tokens = np.array(numbers, np.int64)
        if self.settings.separator is not None:
            tokens[tokens == self.settings.separator] = 0
        shape = (1, self.settings.context_length)
        padded, mask = np.full(shape, self.settings.padding, np.int64), np.zeros(shape, np.int64)
        padded[0, : len(tokens)] = tokens
        mask[0, : len(tokens)] = 1
        return padded, mask

    def knows(self, text: str) -> bool:
        """Return whether any word is known; the model cannot tell texts without one apart."""
        return any(map(self._knows_word, words(text)))

    def unknown_words(self, text: str) -> list[str]:
        """List the unknown words, each once, in order."""
        return [word for word in dict.fromkeys(words(text)) if not self._knows_word(word)]

    def _knows_word(self, word: str) -> bool:
        """Return whether a word is one token, or has a token of two characters or more.

        Words in an unknown script are split into characters or bytes.
        """
        numbers = self._tokenizer.encode(word.lower(), add_special_tokens=False).ids
        decoded = [
            self._tokenizer.decode([number]).removesuffix("</w>").strip(" ▁")
            for number in numbers
            if number not in self._unknown
        ]
        whole = [text for text in decoded if text and _HALF_A_CHARACTER not in text]
        return (len(numbers) == 1 and len(whole) == 1) or any(len(text) > 1 for text in whole)

    def _clean(self, text: str) -> str:
        if self.settings.clean == "canonicalize":
            text = text.translate(_NO_PUNCTUATION)
        if self.settings.clean != "whitespace":
            text = text.lower()
        return " ".join(text.split())


def read_tokenizer(content: bytes) -> Any:
    """Read the content of a `tokenizer.json`.

    Raises:
        TokenizerError: it cannot be read, or the package `tokenizers` is missing.
    """
    try:
        import tokenizers
    except ImportError as error:
        raise TokenizerError(
            f"texts of this model need a package that is missing: {pip_install('clip')}"
        ) from error
    try:
        return tokenizers.Tokenizer.from_str(content.decode())
    except Exception as error:  # the package raises no class of its own
        raise TokenizerError(
            f"tokenizer.json is not a tokenizer ({error}): download it again"
        ) from error
