"""What a violation means in a collection: how long its bar is, and what the bar says.

A violation alone means nothing to a visitor: what is small depends on the model. So a bar is
measured against the collection itself. It is full for a caption that fits like the best of those
that were written for their pictures, and empty for one that fits no better than chance.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import torch

from index.store import Index
from index.terms import Points
from models.score import Score, penalties

# Among a picture's own captions are general and very particular ones; the best twentieth of
# them hold beyond doubt.
_BEYOND_DOUBT = 0.05
# A caption of the picture must fit better than chance by this share, or the model says nothing.
_LEAST_GAIN = 0.05


@dataclass(frozen=True, slots=True)
class Fit:
    """A violation and the length of its bar, 0 to 100."""

    violation: float
    percent: int

    @property
    def level(self) -> str:
        """Return the class that colours the bar."""
        return self._reading[0]

    @property
    def word(self) -> str:
        """Return what the bar says, in a word or two."""
        return self._reading[1]

    @property
    def number(self) -> str:
        """Return the violation itself."""
        return f"{self.violation:.4f}"

    @property
    def _reading(self) -> tuple[str, str]:
        return next((level, word) for least, level, word in _READINGS if self.percent >= least)


# On scenes, whose truth is known, about as many of a hundred captions hold as a bar is long.
_READINGS = (
    (75, "well", "fits"),
    (55, "nearly", "nearly"),
    (30, "partly", "in part"),
    (0, "hardly", "hardly"),
)


@dataclass(frozen=True, slots=True)
class Scale:
    """The violations whose bars are full and empty."""

    full: float = 0.0
    empty: float = 1.0

    def fit(self, violation: float) -> Fit:
        """Measure a violation; one of 0 always fills the bar."""
        share = (self.empty - violation) / (self.empty - self.full)
        return Fit(violation, round(100 * min(1.0, max(0.0, share))))


def measure(index: Index, captions_of: Mapping[int, Sequence[int]]) -> Scale:
    """Take the scale of a collection from a sample: caption ids by image id.

    The empty end is the median violation of a caption with a picture of the sample. A collection
    that tells nothing (no captions, one picture, an untrained model) has the scale 0 to 1.
    """
    images = index.points("image", list(captions_of))
    captions = index.points("caption", [c for found in captions_of.values() for c in found])
    pairs = [
        (image_id, caption_id)
        for image_id, found in captions_of.items()
        for caption_id in found
        if image_id in images and caption_id in captions
    ]
    if not pairs:
        return Scale()
    rows = {image_id: row for row, image_id in enumerate(images)}
    found = _penalties(
        index.model.score,
        np.stack(list(images.values())),
        np.stack([captions[caption_id] for _, caption_id in pairs]),
    )  # (I, C)
    own = found[[rows[image_id] for image_id, _ in pairs], np.arange(len(pairs))]
    full, usual, empty = *np.quantile(own, [_BEYOND_DOUBT, 0.5]), np.median(found)
    return Scale(float(full), float(empty)) if empty - usual > _LEAST_GAIN * empty else Scale()


def _penalties(score: Score, images: Points, captions: Points) -> Points:
    found: Points = penalties(score, torch.from_numpy(images), torch.from_numpy(captions)).numpy()
    return found
