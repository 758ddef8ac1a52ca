"""A pretrained network from texts to features, the base class for all libraries."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence

from torch import Tensor, nn

from hasse.models.encoders.backbone import fingerprint_of
from hasse.models.vocabulary import words


class PretrainedText(nn.Module, ABC):
    """A text encoder of another library, with its own tokenizer.

    Attributes:
        name: the encoder's, such as open_clip/ViT-B-32:laion2b_s34b_b79k.
        feature_dimension: F, the number of features of a text.
    """

    def __init__(self, name: str, feature_dimension: int) -> None:
        super().__init__()
        self.name = name
        self.feature_dimension = feature_dimension

    @abstractmethod
    def forward(self, texts: Sequence[str]) -> Tensor:
        """Return features of texts: B texts -> (B, F), of any length."""

    @abstractmethod
    def _knows_word(self, word: str) -> bool:
        """Tell whether the tokenizer has learned a word, or parts of it that are not letters."""

    def knows(self, text: str) -> bool:
        """Tell whether any word is known; texts without one are all alike to the model."""
        return any(map(self._knows_word, words(text)))

    def unknown(self, text: str) -> list[str]:
        """List the words that are not known, each once, in order."""
        return [word for word in dict.fromkeys(words(text)) if not self._knows_word(word)]

    def fingerprint(self) -> str:
        """Return the SHA-256, in hexadecimal, over the name and the weights."""
        return fingerprint_of(self.name, self.state_dict())
