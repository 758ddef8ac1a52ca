"""Judges how likely texts are true of pictures, or follow from texts: one place for all answers."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, cast

import numpy as np
from numpy.typing import ArrayLike

from hasse.models.calibration import Calibration, Floats, Known
from hasse.models.embedding_model import EmbeddingModel, Points

if TYPE_CHECKING:
    from hasse.models.grounding.grounded_texts import GroundedTexts


@dataclass(frozen=True, slots=True)
class Judge:
    """Judges texts by a model and what was measured of it.

    Attributes:
        model: the model, which is grounded if scores of parts were fitted.
        known: of pictures as premises, or of texts.
    """

    model: EmbeddingModel
    known: Known

    @property
    def reads_points(self) -> bool:
        """Whether violations alone do not tell a probability."""
        return not isinstance(self.known, Calibration)

    def probabilities(
        self, texts: Sequence[str], premises: Points, violations: ArrayLike
    ) -> Floats:
        """Return how likely each text follows from its premise: (P,).

        Args:
            texts: (P,).
            premises: (P, N), points of pictures, or of texts by `as_premises`.
            violations: (P,), of the whole texts. They or the premises are not used.
        """
        if isinstance(self.known, Calibration):
            return self.known.of_texts(texts, violations)
        odds = cast("GroundedTexts", self.model).log_odds(self.known, texts, premises)
        with np.errstate(over="ignore"):
            return np.asarray(1 / (1 + np.exp(-odds)))

    def table(self, texts: Sequence[str], premises: Points, violations: Points) -> Floats:
        """Return how likely each text follows from each premise: (P, T).

        Args:
            texts: (T,).
            premises: (P, N).
            violations: (P, T).
        """
        rows, columns = np.indices((len(premises), len(texts))).reshape(2, -1)
        found = self.probabilities(
            [texts[column] for column in columns], premises[rows], violations.ravel()
        )
        return found.reshape(len(premises), len(texts))
