"""Calibration on chains: probabilities of texts of all lengths, from general to specific."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from hasse.lab.evaluation.calibrating import calibrate
from hasse.lab.pipelines.dataset_encoding import EncodedDataset
from hasse.models.calibration import Calibration, further_words
from hasse.models.checkpoints.checkpoint import Checkpoint, write_calibration
from hasse.models.datasets import Dataset, DatasetError
from hasse.models.embedding_model import Points
from hasse.models.score import Score, penalties_between
from hasse.studies.photographs.chain_evaluation import Pairs, mean_tau, pair
from hasse.studies.photographs.chains import Chain
from hasse.studies.photographs.class_pictures import ClassFeatures
from hasse.studies.photographs.classes import PictureClass
from hasse.studies.photographs.part_calibration import Judged

# Candidates for the word weight, and the tau that it has to reach. A tau of 0.5 on chains made by
# rules was about 0.3 on chains checked by people.
WORD_WEIGHTS = tuple(step / 1000 for step in range(21))
LEAST_TAU = 0.5

Floats = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class ChainedImages:
    """Images with chains from general to specific; points (I, N) in the order of the dataset's."""

    dataset: Dataset
    points: Points
    chains: Sequence[Chain]

    def pairs(
        self, encode: Callable[[Sequence[str]], Points], score: Score
    ) -> tuple[Pairs, Floats, Floats]:
        """Return pairs (P,), their violations, and the numbers of further words of their texts."""
        pairs, _ = pair(self.dataset, self.chains)
        rows, of_pair = np.unique(pairs.images, return_inverse=True)
        every = penalties_between(score, self.points[rows], encode(pairs.texts))
        further = np.array([further_words(text) for text in pairs.texts], dtype=np.float64)
        violations = every[of_pair, pairs.text_rows].astype(np.float64)
        return pairs, violations, further[pairs.text_rows]

    def judged(self) -> Judged:
        """Return pairs of texts and images."""
        pairs, _ = pair(self.dataset, self.chains)
        return Judged(self.points, pairs.texts, pairs.images, pairs.text_rows, pairs.true)


def calibrate_chains(
    first: ChainedImages,
    *others: ChainedImages,
    encode: Callable[[Sequence[str]], Points],
    score: Score,
) -> Calibration | None:
    """Fit a calibration for texts of all lengths on chains from general to specific.

    The pairs are those of `chain_evaluation.pair`. The word weight is the smallest of
    `WORD_WEIGHTS` with which general texts are more probable than specific ones that are as true
    (Kendall's tau on the first images is at least `LEAST_TAU`), or the largest.

    Args:
        first, others: images of several kinds, so that the probability fits more than one.
        encode: encodes texts to points.
        score: the model's score.
    """
    shown = [one.pairs(encode, score) for one in (first, *others)]
    pairs, violations, further = shown[0]
    for weight in WORD_WEIGHTS:
        if mean_tau(pairs, -(violations + weight * further)) >= LEAST_TAU:
            break
    found = calibrate((penalty + weight * count, of.true) for of, penalty, count in shown)
    return None if found is None else replace(found, word_weight=weight)


def calibrate_model(
    model: Checkpoint,
    encoded: EncodedDataset,
    chains: Sequence[Chain],
    real: ClassFeatures | None = None,
    classes: Sequence[PictureClass] = (),
) -> Calibration:
    """Calibrate a model on chains of encoded images, and store the calibration with the model.

    Args:
        real: features of real pictures of `classes`, to calibrate on too.

    Raises:
        DatasetError: the images have too few chains.
    """
    shown = [ChainedImages(encoded.dataset, encoded.images, chains)]
    if real is not None and len(real.dataset) > 1:
        points = model.model.encode_features(real.rows)
        shown.append(ChainedImages(real.dataset, points, real.chains(classes)))
    score, encode = model.model.config.score, model.model.encode_captions
    found = calibrate_chains(*shown, encode=encode, score=score)
    if found is None:
        raise DatasetError("all pairs of the chains are true, or all are false: give more chains")
    write_calibration(model.folder, replace(model.calibration, image=found))
    return found
