"""One model over one dataset, or two on the same: everything that `hasse lab evaluate` reports."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from hasse.models.checkpoints import checkpoint, named_models
from hasse.models.checkpoints.checkpoint import Checkpoint
from hasse.models.datasets import Dataset, DatasetError, load
from hasse.models.evaluation.calibration import Calibrations, calibrations
from hasse.models.evaluation.retrieval import Evaluation, Retrieval, retrieve
from hasse.models.evaluation.significance import difference, differences, intervals
from hasse.models.score import Score
from hasse.service.pipelines.dataset_encoding import Encoded, encode_dataset
from hasse.service.pipelines.training import ProgressBars, part_to_measure
from hasse.service.plural import count
from hasse.service.writing.image_source import ImageSource


@dataclass(frozen=True, slots=True)
class Measured:
    """The retrieval of a model on a dataset.

    Attributes:
        encoded: the dataset and its points.
        blocks: the ranks of all queries, block by block of the images.
    """

    name: str
    fingerprint: str
    score: Score
    encoded: Encoded
    blocks: Sequence[Retrieval]

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
        }


@dataclass(frozen=True, slots=True)
class EvaluationRequest:
    """The options of `hasse lab evaluate`.

    Attributes:
        split: the images to measure on; None for the usual ones (`part_to_measure`).
        model: a checkpoint; None for the built-in one that suits the dataset.
        against: a second checkpoint to compare with.
        source: where the points of pictures come from.
        against_features: the features that `against` reads, if they are others.
        captions_per_image: only the first so many of each image count.
    """

    dataset: Path
    split: str | None = None
    model: Path | None = None
    against: Path | None = None
    source: ImageSource = field(default_factory=ImageSource)
    against_features: Path | None = None
    folds: int = 1
    captions_per_image: int | None = None

    def run(
        self, device: str, bars: ProgressBars, tell: Callable[[str], None]
    ) -> tuple[Measured, dict[str, Any]]:
        """Measure; return the first model's figures and the whole report as plain values.

        Raises:
            DatasetError, CheckpointError, FeaturesError: the request cannot be met.
        """
        limit = self.captions_per_image
        whole = part_to_measure(load(self.dataset), self.split, "test", tell)
        collection = whole if limit is None else whole.first_captions(limit)
        first = checkpoint.load(named_models.find_or_default(self.model, collection), device)
        # Loaded before the first is measured, which may take hours.
        second = None
        if self.against is not None:
            second = checkpoint.load(named_models.find(self.against), device)
        _require_blocks(self.folds, collection)

        def measured(model: Checkpoint, of: Dataset, features: Path | None) -> Measured:
            source = replace(self.source, features=features)
            with bars(f"encoding by {model.name}") as progress:
                encoded = encode_dataset(model.model, of, source, progress)
            _require_blocks(self.folds, encoded.dataset)  # which lacks unreadable pictures
            if not all(len(block.captions) for block in encoded.blocks(self.folds)):
                raise DatasetError(
                    f"one of {self.folds} blocks has no caption at all: use fewer --folds"
                )
            with bars("ranking") as progress:
                return measure(model, encoded, self.folds, progress)

        evaluated = measured(first, collection, self.source.features)
        dataset = evaluated.encoded.dataset
        there = {image.id for image in dataset.images}
        captions = sum(len(image.captions) for image in whole.images if image.id in there)
        report = {
            "dataset": dataset.name,
            "split": ", ".join(dataset.splits()),
            "captions_per_image": limit,
            "captions_left_out": captions - len(evaluated.encoded.captions),
            **evaluated.to_json(),
        }
        if second is not None:
            other = measured(second, dataset, self.against_features or self.source.features)
            if len(other.encoded.dataset) < len(dataset):
                raise DatasetError(
                    f"{self.against} could not be measured on all images that {evaluated.name} "
                    f"was: compare on features of the same images"
                )
            report["against"] = other.to_json() | {"difference": comparison(evaluated, other)}
        return evaluated, report


def _require_blocks(folds: int, dataset: Dataset) -> None:
    if folds > len(dataset):
        raise DatasetError(
            f"{folds} blocks cannot be made of {count(len(dataset), 'image')}: use fewer --folds"
        )


def measure(
    checkpoint: Checkpoint,
    encoded: Encoded,
    folds: int,
    progress: Callable[[int, int], None],
) -> Measured:
    """Rank both ways in that many consecutive blocks."""
    score = checkpoint.model.config.score
    blocks: list[Retrieval] = []
    for block in encoded.blocks(folds):
        blocks.append(retrieve(block.dataset, block.images, block.captions, score))
        progress(len(blocks), folds)
    return Measured(checkpoint.name, checkpoint.fingerprint, score, encoded, blocks)


def calibrate(
    folder: Path, dataset: Dataset, source: ImageSource, device: str, bars: ProgressBars
) -> Calibrations:
    """Calibrate a model on captioned pictures, and store the calibration with the model.

    Raises:
        CheckpointError: the folder holds no model.
        DatasetError: there are no captions to measure on.
    """
    loaded = checkpoint.load(folder, device)
    with bars("encoding") as progress:
        encoded = encode_dataset(loaded.model, dataset, source, progress)
    score = loaded.model.config.score
    fitted = calibrations(encoded.dataset, encoded.images, encoded.captions, score)
    checkpoint.calibrate(folder, fitted)
    return fitted


def comparison(first: Measured, second: Measured) -> dict[str, Any]:
    """Subtract the second's metrics from the first's, with paired 95 % intervals.

    Raises:
        ValueError: they were not measured on the same images and captions.
    """
    return difference(first.evaluation, second.evaluation) | {
        "intervals": differences(first.blocks, second.blocks).to_json()
    }
