"""What a violation means in a collection: how long its bar is, and what the bar says.

A violation alone means nothing to a visitor: what is small depends on the model. So a bar is
measured against the collection itself. It is full for a caption that fits like the best of those
that were written for their pictures, and empty for one that fits no better than chance. Where a
collection has too few captions for that, the calibration of its model says what is true and what
is chance. With either, nothing fits of which the page's sentences say that it is unlikely to be
true.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Self

import numpy as np

from index.store import Index
from models.evaluation.calibration import Calibration
from models.score import penalties_between

# Among a picture's own captions are general and very particular ones; the best twentieth of
# them hold beyond doubt.
_BEYOND_DOUBT = 0.05
# Of fewer, captions that say nothing of their pictures would often seem to fit them.
_LEAST_PAIRS = 100
# A caption of the picture must fit better than chance by this share, or the model says nothing.
_LEAST_GAIN = 0.05
_FITS = 75  # the least length of a bar that says so


@dataclass(frozen=True, slots=True)
class Fit:
    """A violation and the length of its bar, 0 to 100; none where the caption says nothing."""

    violation: float
    percent: int
    is_told: bool = True

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
        if not self.is_told:
            return "hardly", "unknown words"
        return next((level, word) for least, level, word in _READINGS if self.percent >= least)


# On scenes, whose truth is known, about as many of a hundred captions hold as a bar is long.
_READINGS = (
    (_FITS, "well", "fits"),
    (55, "nearly", "nearly"),
    (30, "partly", "in part"),
    (0, "hardly", "hardly"),
)


@dataclass(frozen=True, slots=True)
class Scale:
    """The violations whose bars are full, just long enough to say that a caption fits, and empty.

    Beyond what fits, no bar says so, wherever the empty end lies.
    """

    full: float
    fits: float
    empty: float

    @classmethod
    def even(cls, full: float = 0.0, empty: float = 1.0) -> Self:
        """Return the scale on which bars shorten evenly."""
        return cls(full, empty - _FITS / 100 * (empty - full), empty)

    @classmethod
    def calibrated(cls, known: Calibration) -> Self:
        """Return the scale on which that fits which a calibration calls true, and nothing else.

        It is empty where a pair is no likelier to be true than one drawn at random.
        """
        chance = np.interp(
            known.true / known.pairs, known.probabilities[::-1], known.violations[::-1]
        )
        return cls(0.0, known.threshold, float(chance))

    def fit(self, violation: float) -> Fit:
        """Measure a violation; one of 0 always fills the bar."""
        percent = 0
        if violation <= self.full:
            percent = 100
        elif violation <= self.fits:
            left = (self.fits - violation) / (self.fits - self.full)
            percent = _FITS + round((100 - _FITS) * left)
        elif violation < self.empty:
            left = (self.empty - violation) / (self.empty - self.fits)
            percent = round((_FITS - 1) * left)
        return Fit(violation, percent)


def measure(
    index: Index, captions_of: Mapping[int, Sequence[int]], known: Calibration | None
) -> Scale:
    """Take the scale of a collection from a sample: caption ids by image id.

    The empty end is the median violation of a caption with a picture of the sample. Nothing fits
    that the model's calibration calls unlikely to be true. A collection that tells nothing (few
    captions, one picture, an untrained model) has the scale of that calibration, or 0 to 1 where
    there is none.
    """
    plain = Scale.even() if known is None else Scale.calibrated(known)
    images = index.points("image", list(captions_of))
    captions = index.points("caption", [c for found in captions_of.values() for c in found])
    pairs = [
        (image_id, caption_id)
        for image_id, found in captions_of.items()
        for caption_id in found
        if image_id in images and caption_id in captions
    ]
    if len(pairs) < _LEAST_PAIRS:
        return plain
    rows = {image_id: row for row, image_id in enumerate(images)}
    found = penalties_between(
        index.model.score,
        np.stack(list(images.values())),
        np.stack([captions[caption_id] for _, caption_id in pairs]),
    )  # (I, C)
    own = found[[rows[image_id] for image_id, _ in pairs], np.arange(len(pairs))]
    full, usual, empty = *np.quantile(own, [_BEYOND_DOUBT, 0.5]), np.median(found)
    if empty - usual <= _LEAST_GAIN * empty:
        return plain
    measured = Scale.even(float(full), float(empty))
    if known is None:
        return measured
    # What the page calls unlikely to be true does not fit, however little all else does.
    fits = min(measured.fits, known.threshold)
    return replace(measured, fits=fits) if fits > measured.full else plain
