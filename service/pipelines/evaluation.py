"""One model over one dataset: everything that `hasse evaluate` says of it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from models.checkpoints.checkpoint import Checkpoint
from models.evaluation.length_study import LengthStudy, length_study
from models.evaluation.retrieval import Evaluation, Retrieval, retrieve
from models.evaluation.significance import difference, differences, intervals
from models.score import Score
from service.pipelines.dataset_encoding import Encoded


@dataclass(frozen=True, slots=True)
class Measured:
    """What a model was found to do.

    Attributes:
        encoded: the dataset and its points.
        blocks: what every query found, block by block of the images.
        lengths: the length study, over the whole of the dataset.
    """

    name: str
    fingerprint: str
    score: Score
    encoded: Encoded
    blocks: Sequence[Retrieval]
    lengths: LengthStudy | None

    @property
    def evaluation(self) -> Evaluation:
        """The mean over blocks."""
        return Evaluation.mean([block.evaluation for block in self.blocks])

    def to_json(self) -> dict[str, Any]:
        """Return everything measured, with 95 % intervals, as plain values."""
        return {
            "model": self.name,
            "fingerprint": self.fingerprint,
            "score": self.score,
            "folds": len(self.blocks),
            **self.evaluation.to_json(),
            "intervals": intervals(self.blocks).to_json(),
            "length_study": self.lengths and self.lengths.to_json(),
        }


def measure(
    checkpoint: Checkpoint, encoded: Encoded, folds: int, progress: Callable[[int, int], None]
) -> Measured:
    """Rank both ways in that many consecutive blocks, and run the length study."""
    score = checkpoint.model.config.score
    blocks: list[Retrieval] = []
    for block in encoded.blocks(folds):
        blocks.append(retrieve(block.dataset, block.images, block.captions, score))
        progress(len(blocks), folds + 1)
    lengths = length_study(encoded.dataset, encoded.images, encoded.captions, score)
    progress(folds + 1, folds + 1)
    return Measured(checkpoint.name, checkpoint.fingerprint, score, encoded, blocks, lengths)


def comparison(first: Measured, second: Measured) -> dict[str, Any]:
    """Subtract the second's metrics from the first's, with paired 95 % intervals.

    Raises:
        ValueError: they were not measured on the same images and captions.
    """
    return difference(first.evaluation, second.evaluation) | {
        "intervals": differences(first.blocks, second.blocks).to_json()
    }
