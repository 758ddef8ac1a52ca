"""Evidence of words that were learned from pictures: things, people, what they do, colours, places.

Each word has a linear layer on the features of a window. A picture shows the word if one of its
windows does: P = 1 - product over windows of (1 - p) (Fang et al., "From captions to visual
concepts and back", 2015). The evidence of a general word is at least that of each of its kinds.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from hasse.models.encoders.regions import REGIONS
from hasse.models.kernels.products import Product

Floats = NDArray[np.float32]


class TaughtWords:
    """Computes the odds of words from features of regions.

    Attributes:
        weight, bias: (F, T) and (T,), of all words.
        kinds: (P, 2), a general word and one of its kinds, by number; transitive.
    """

    def __init__(self, weight: Floats, bias: Floats, kinds: NDArray[np.integer]) -> None:
        """Prepare the layers of words.

        Raises:
            ValueError: the parts do not fit each other.
        """
        if weight.shape[1:] != bias.shape or (kinds.size and kinds.max() >= len(bias)):
            raise ValueError("the layers of taught words do not fit each other")
        self.weight, self.bias = weight, bias
        self.kinds = kinds.reshape(-1, 2).astype(np.int64)
        self._weight = Product(weight, REGIONS)

    def __len__(self) -> int:
        return len(self.bias)

    def log_odds(self, windows: Floats) -> Floats:
        """Return the decimal logarithm of the odds of each word: (R, F) -> (T,)."""
        hidden = np.logaddexp(np.float32(0), self._weight.of(windows) + self.bias).sum(0)
        hidden = hidden.clip(1e-6, 80)
        odds: Floats = np.log10(np.expm1(hidden))  # P / (1 - P), where 1 - P = exp(-hidden)
        general, kind = self.kinds.T
        closed = odds.copy()
        np.maximum.at(closed, general, odds[kind])
        return closed
