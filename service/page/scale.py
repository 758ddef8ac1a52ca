"""The scale of fits in a collection: how long the bar of a violation is, and its word.

Which violations are small depends on the model, so a bar is measured against the collection. It is
full for a caption that fits as the best of those written for their pictures do. It is empty for one
that fits no better than chance. If a collection has too few captions, the calibration of the model
gives both ends. In either case, what the calibration calls unlikely to be true never "fits".
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Self

import numpy as np

from hasse.index.store import Index
from hasse.models.evaluation.calibration import Calibration
from hasse.models.score import penalties_between

# The best twentieth of pairs of a picture and its own caption hold beyond doubt.
_FULL_QUANTILE = 0.05
# With fewer pairs, captions that say nothing of their pictures would often seem to fit them.
_LEAST_PAIRS = 100
# A picture's own captions must fit better than chance by this share, or the model is of no use.
_LEAST_GAIN = 0.05
_FITS = 75  # the shortest bar of what fits

# CSS class and word by the shortest bar. On scenes, whose truth is known, about as many of a
# hundred captions are true as a bar is long.
_LEVELS = (
    (_FITS, "well", "fits"),
    (55, "nearly", "nearly"),
    (30, "partly", "in part"),
    (0, "hardly", "hardly"),
)


@dataclass(frozen=True, slots=True)
class Fit:
    """A violation, the length of its bar, 0 to 100, and the bar's CSS class and word."""

    violation: float
    percent: int
    level: str
    word: str
    is_known: bool = True

    @classmethod
    def unknown(cls, violation: float) -> Fit:
        """Return the fit of a caption without any word that the model knows."""
        return cls(violation, 0, "hardly", "unknown words", is_known=False)


@dataclass(frozen=True, slots=True)
class Scale:
    """The violations of a full bar, of the shortest bar that fits, and of an empty one.

    `fits` takes precedence over `empty`: nothing beyond it fits.
    """

    full: float
    fits: float
    empty: float

    @classmethod
    def even(cls, full: float = 0.0, empty: float = 1.0) -> Self:
        """Return the linear scale between two violations."""
        return cls(full, empty - _FITS / 100 * (empty - full), empty)

    @classmethod
    def calibrated(cls, known: Calibration) -> Self:
        """Return the scale on which exactly that fits which a calibration calls true.

        Its empty end is where a pair is no likelier to be true than a random one.
        """
        chance = np.interp(
            known.true / known.pairs, known.probabilities[::-1], known.violations[::-1]
        )
        return cls(0.0, known.threshold, float(chance))

    def fit(self, violation: float) -> Fit:
        """Return the fit of a violation; 0 always fills the bar."""
        percent = 0
        if violation <= self.full:
            percent = 100
        elif violation <= self.fits:
            left = (self.fits - violation) / (self.fits - self.full)
            percent = _FITS + round((100 - _FITS) * left)
        elif violation < self.empty:
            left = (self.empty - violation) / (self.empty - self.fits)
            percent = round((_FITS - 1) * left)
        level, word = next((level, word) for least, level, word in _LEVELS if percent >= least)
        return Fit(violation, percent, level, word)


def measure(
    index: Index, captions_of: Mapping[int, Sequence[int]], known: Calibration | None
) -> Scale:
    """Measure the scale of a collection by a sample: caption ids by image id.

    The empty end is the median violation over all pairs of the sample. A collection that is too
    small, or whose model is untrained, gets the scale of the calibration `known`, or 0 to 1.
    """
    fallback = Scale.even() if known is None else Scale.calibrated(known)
    images = index.points("image", list(captions_of))
    captions = index.points("caption", [c for found in captions_of.values() for c in found])
    pairs = [
        (image_id, caption_id)
        for image_id, found in captions_of.items()
        for caption_id in found
        if image_id in images and caption_id in captions
    ]
    if len(pairs) < _LEAST_PAIRS:
        return fallback
    rows = {image_id: row for row, image_id in enumerate(images)}
    found = penalties_between(
        index.model.score,
        np.stack(list(images.values())),
        np.stack([captions[caption_id] for _, caption_id in pairs]),
    )  # (I, C)
    own = found[[rows[image_id] for image_id, _ in pairs], np.arange(len(pairs))]
    full, usual, empty = *np.quantile(own, [_FULL_QUANTILE, 0.5]), np.median(found)
    if empty - usual <= _LEAST_GAIN * empty:
        return fallback
    measured = Scale.even(float(full), float(empty))
    if known is None:
        return measured
    fits = min(measured.fits, known.threshold)
    return replace(measured, fits=fits) if fits > measured.full else fallback
