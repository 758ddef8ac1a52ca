"""The half of a grounded model that encodes captions, without torch."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from hasse.models.embedding_model import Network, Points
from hasse.models.encoders.model_config import ImagePooling, ModelConfig
from hasse.models.grounding.demands import Demands
from hasse.models.grounding.evidence import Classifier, Floats
from hasse.models.grounding.part_scores import Floats as Doubles
from hasse.models.grounding.part_scores import PartScores
from hasse.models.grounding.reading import Part, parts_of
from hasse.models.images.preprocessing import Pixels, Preprocessing
from hasse.models.score import Score
from hasse.models.vocabulary import Vocabulary

# A demanded coordinate without evidence adds the square of this to a violation.
SCALE = math.sqrt(0.2)
# Length of the learned part of a text that only names things: evidence is more reliable.
NAMING_LENGTH = 0.8
_MOST_POINTS = 10_000  # of parts of texts that are remembered: 26 MB


@dataclass(frozen=True, slots=True)
class GroundedConfig:
    """The shape of points, with the fields of `ModelConfig`.

    Attributes:
        backbone: the name of the encoder of pictures.
        dimension: N, the number of learned coordinates and of those of things.
    """

    backbone: str
    dimension: int
    score: Score = "order"
    image_pooling: ImagePooling = "regions"
    length: str = "unit"


class TrainedTexts(Protocol):
    """The half of a trained model that encodes captions; see `TextModel`."""

    config: ModelConfig
    vocabulary: Vocabulary
    preprocessing: Preprocessing

    @property
    def references(self) -> Points | None: ...
    def encode_captions(self, texts: Sequence[str], batch_size: int = 256) -> Points: ...


class GroundingNetwork(Network, Protocol):
    """A network with a classifier; see `PictureNetwork`."""

    def classifier(self) -> Classifier: ...


class TrainedModel(TrainedTexts, Protocol):
    """A trained model; see `PictureModel`."""

    @property
    def backbone(self) -> GroundingNetwork: ...
    @property
    def device(self) -> object: ...
    def cells(self, pixels: Pixels) -> Floats: ...
    def picture_features(self, pixels: Sequence[Pixels]) -> Floats: ...
    def encode_features(self, features: NDArray[np.floating], batch_size: int = 1024) -> Points: ...


class GroundedTexts:
    """Encodes captions to points with coordinates that stand for things.

    Attributes:
        base: the trained model, or the half of it that encodes captions.
        demands: the table of demands.
        learned_coordinates: (M,), rising, coordinates of the trained model's points.
    """

    def __init__(
        self,
        base: TrainedTexts,
        learned_coordinates: NDArray[np.integer],
        demands: Demands,
    ) -> None:
        """Make an encoder on top of a trained model; `learned_coordinates` are (M,), rising."""
        self.base, self.demands = base, demands
        self.learned_coordinates = np.asarray(learned_coordinates, np.int64)
        self.config = GroundedConfig(base.config.backbone, len(learned_coordinates) + demands.size)
        self.preprocessing = base.preprocessing
        self._points: dict[str, Points] = {}  # of parts of texts

    @property
    def vocabulary(self) -> Vocabulary:
        """The words of captions."""
        return self.base.vocabulary

    @property
    def references(self) -> Points | None:
        """Points of training pictures, as if they showed all things: (R, N), or None.

        Their evidence was not recorded, so they compare texts by the learned part alone.
        """
        references = self.base.references
        if references is None:
            return None
        all_things = np.full((len(references), self.demands.size), SCALE, np.float32)
        return np.concatenate([self._learned(references), all_things], 1)

    def encode_captions(self, texts: Sequence[str], batch_size: int = 256) -> Points:
        """Return the points of captions, in their order: (B, N) float32."""
        learned = self._learned(self.base.encode_captions(texts, batch_size))
        points = np.empty((len(texts), self.config.dimension), np.float32)
        for row, text in enumerate(texts):
            demand = self.demands.of(text)
            length = np.float32(NAMING_LENGTH if demand.names_things else 1.0)
            points[row, : len(self.learned_coordinates)] = learned[row] * length
            points[row, len(self.learned_coordinates) :] = demand.row * np.float32(SCALE)
        return points

    def log_odds(self, scores: PartScores, texts: Sequence[str], premises: Points) -> Doubles:
        """Return how likely each text follows from its premise: (P,).

        Args:
            scores: of pictures, or of texts.
            texts: (P,).
            premises: (P, N), points of pictures, or of texts by `as_premises`.
        """
        rows: dict[str, list[int]] = {}
        for row, text in enumerate(texts):
            rows.setdefault(text, []).append(row)
        found = np.full(len(texts), -np.inf)
        for of_text, parts in zip(rows.values(), self.parts(list(rows)), strict=True):
            learned, evidence = self.split(premises[of_text])
            each = [
                scores.score(part.units, violations(learned, point), evidence)
                for part, point in parts
            ]
            if each:  # least, so that no text is more probable than what follows from it
                found[of_text] = np.min(each, axis=0)
        return found

    def parts(self, texts: Sequence[str]) -> list[list[tuple[Part, Points]]]:
        """Return the parts of each text with their learned points (M,), encoded in one batch."""
        parts = [parts_of(self.demands, text) for text in texts]
        every = dict.fromkeys(part.text for of_text in parts for part in of_text)
        # Another thread may replace the memory meanwhile.
        known = self._points if len(self._points) + len(every) <= _MOST_POINTS else {}
        new = [text for text in every if text not in known]
        if new:
            known.update(zip(new, self._learned(self.base.encode_captions(new)), strict=True))
        self._points = known
        return [[(part, known[part.text]) for part in of_text] for of_text in parts]

    def split(self, points: Points) -> tuple[Points, Doubles]:
        """Return the learned coordinates and the evidence of points: (P, M) and (P, K)."""
        count = len(self.learned_coordinates)
        return points[:, :count], points[:, count:].astype(np.float64) / SCALE

    def as_premises(self, points: Points) -> Points:
        """Return the points of captions as premises of other captions: (B, N).

        A thing that a caption names is there, however small it may be in a picture.
        """
        premises = points.copy()
        things = premises[:, len(self.learned_coordinates) :]
        things[things > 0] = SCALE
        return premises

    def in_base(self, points: Points) -> Points:
        """Return points in the space of the trained model: (B, N) -> (B, its dimension)."""
        base_points = np.zeros((len(points), self.base.config.dimension), np.float32)
        base_points[:, self.learned_coordinates] = points[:, : len(self.learned_coordinates)]
        return base_points

    def _learned(self, points: Points) -> Points:
        """Return the learned coordinates of a trained model's points, scaled to their length."""
        # Contiguous rows, summed one by one: otherwise sums round by the number of rows.
        coordinates = np.take(points, self.learned_coordinates, axis=1)
        length = np.sqrt(np.square(points).sum(1, keepdims=True))
        learned_length = np.sqrt(np.square(coordinates).sum(1, keepdims=True))
        learned: Points = coordinates * (length / np.maximum(learned_length, 1e-9))
        return learned


def violations(premises: Points, point: Points) -> Doubles:
    """Return how much each premise violates a point: (P, M), (M,) -> (P,)."""
    missing: Points = np.maximum(point - premises, 0)
    return np.asarray(np.square(missing).sum(1), np.float64)
