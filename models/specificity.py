"""Measure how specific captions are: a specific one is true of few images."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Mapping

import numpy as np

from hasse.models.embedding_model import EmbeddingModel, Points
from hasse.models.score import penalties_between

_CACHED = 100_000  # texts
_BLOCK = 256  # captions that are compared with all references at one time


class Specificity:
    """Measures how specific captions are, and caches it by their text.

    It is the mean violation over the images that the checkpoint keeps to correct hubness. Without
    such images, where lengths of captions are learned, it is the length of a caption's point,
    which grows with what the caption claims. For other checkpoints nothing is measured.
    """

    def __init__(self, model: EmbeddingModel) -> None:
        self._score = model.config.score
        self._images = model.references
        self._measures = self._images is not None or model.config.length == "learned"
        self._known: OrderedDict[str, float] = OrderedDict()

    def of(
        self, texts: Mapping[int, str], points: Callable[[list[int]], Mapping[int, Points]]
    ) -> dict[int, float]:
        """Return how specific captions are, by id; `points` returns points by id.

        A caption whose point is no longer there is left out.
        """
        if not self._measures:
            return {}
        unknown = [caption_id for caption_id, text in texts.items() if text not in self._known]
        stored = points(unknown) if unknown else {}
        for at in range(0, len(unknown), _BLOCK):
            ids = [caption_id for caption_id in unknown[at : at + _BLOCK] if caption_id in stored]
            if ids:
                measured = self._measured(np.stack([stored[caption_id] for caption_id in ids]))
                for caption_id, value in zip(ids, measured.tolist(), strict=True):
                    self._known[texts[caption_id]] = value
        values = {
            caption_id: value
            for caption_id, text in texts.items()
            if (value := self._known.get(text)) is not None
        }
        while len(self._known) > _CACHED:
            self._known.popitem(last=False)
        return values

    def _measured(self, captions: Points) -> Points:
        """Return how specific captions (C, N) are: (C,)."""
        if self._images is None:
            return np.asarray(np.linalg.norm(captions, axis=1))
        return np.asarray(penalties_between(self._score, self._images, captions).mean(0))
