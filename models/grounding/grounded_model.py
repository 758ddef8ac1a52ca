"""A trained model with coordinates that stand for things.

A point has two parts. The learned part has the most useful coordinates of a trained model's point.
The other part has a coordinate for each set of classes and each taught word: the evidence of a
picture, or the demand of a text. The violation over all coordinates is the sum of both parts', so
search, joins and bounds work as for any other model.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from hasse.models.embedding_model import EncodesPictures, Network, Points
from hasse.models.grounding.demands import Demands
from hasse.models.grounding.evidence import Classifier, Evidence, Floats
from hasse.models.grounding.grounded_texts import SCALE, GroundedTexts, TrainedModel
from hasse.models.grounding.taught import TaughtWords
from hasse.models.images.preprocessing import Pixels


class GroundedModel(EncodesPictures, GroundedTexts):
    """Encodes captions and pictures to points with coordinates that stand for things.

    Attributes:
        base: the trained model.
        evidence: computes evidence from features.
    """

    base: TrainedModel

    def __init__(
        self,
        base: TrainedModel,
        learned_coordinates: NDArray[np.integer],
        sets: NDArray[np.generic],
        demands: Demands,
        classifier: Classifier,
        taught: TaughtWords | None = None,
    ) -> None:
        """Make a model of its parts; `sets` is (classes, S), `classifier` that of its network.

        Raises:
            NetworkError: the network has other classes.
            ValueError: the parts do not fit each other.
        """
        shape = base.config
        if shape.score != "order" or shape.image_pooling != "regions":
            raise ValueError("only a model of score order with features of regions is grounded")
        evidence = Evidence(sets.astype(np.float32), classifier, taught)
        if demands.size != evidence.size or not 0 <= int(learned_coordinates.min()) <= int(
            learned_coordinates.max()
        ):
            raise ValueError("the numbers of demanded coordinates and of those of evidence differ")
        super().__init__(base, learned_coordinates, demands)
        self.evidence = evidence

    @property
    def backbone(self) -> Network:
        """The network from pictures to features."""
        return self.base.backbone

    @property
    def device(self) -> object:
        """The device of the network's weights."""
        return self.base.device

    def cells(self, pixels: Pixels) -> Floats:
        """Return the features of all cells of a picture of any size: (1, 3, H, W) -> (S * S, F)."""
        return self.base.cells(pixels)

    def encode_pixels(self, pixels: Sequence[Pixels]) -> Points:
        """Return the points of preprocessed pictures, each (crops, 3, H, W): (B, N)."""
        return self.encode_features(self.base.picture_features(pixels))

    def encode_features(self, features: NDArray[np.floating], batch_size: int = 1024) -> Points:
        """Return the points of features: (B, REGIONS, F) -> (B, N) float32."""
        if not len(features):
            return np.empty((0, self.config.dimension), np.float32)
        learned_part = self._learned(self.base.encode_features(features, batch_size))
        evidence = self.evidence.of(np.asarray(features, np.float32))
        return np.concatenate([learned_part, np.float32(SCALE) * evidence], 1)
