"""Measures a model on a dataset, or compares two, for `hasse lab evaluate`."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from hasse.lab.checkpoints import learned_model
from hasse.lab.evaluation.calibrating import calibrations
from hasse.lab.evaluation.retrieval import Evaluation, Retrieval, retrieve
from hasse.lab.evaluation.significance import difference, differences, intervals
from hasse.lab.features.source import with_features
from hasse.lab.pipelines.dataset_encoding import EncodedDataset, encode_dataset
from hasse.lab.pipelines.training import ProgressBars, part_to_measure
from hasse.models.calibration import Calibrations
from hasse.models.checkpoints import checkpoint, named_models
from hasse.models.checkpoints.checkpoint import Checkpoint
from hasse.models.checkpoints.model_folder import CheckpointError
from hasse.models.datasets import Dataset, DatasetError, load
from hasse.models.grounding.part_scores import PartScores
from hasse.models.score import Score
from hasse.service.plural import count
from hasse.service.writing.image_source import ImageSource


@dataclass(frozen=True, slots=True)
class ModelEvaluation:
    """How well a model retrieves on a dataset.

    Attributes:
        encoded: the dataset with its points.
        blocks: the ranks of all queries, one item for each block of images.
    """

    name: str
    fingerprint: str
    score: Score
    encoded: EncodedDataset
    blocks: Sequence[Retrieval]

    @property
    def evaluation(self) -> Evaluation:
        """The mean over the blocks."""
        return Evaluation.mean([block.evaluation for block in self.blocks])

    def to_json(self) -> dict[str, Any]:
        """Return all metrics, with 95 % intervals, as plain values."""
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
        split: the split to measure on; None for the default of `part_to_measure`.
        model: a checkpoint; None for the built-in model that suits the dataset.
        against: a second checkpoint to compare with.
        source: how the images are encoded.
        features: cached features of the images, or None.
        against_features: those for `against`; None for `features`.
        captions_per_image: measure only this many captions of each image, the first ones.
    """

    dataset: Path
    split: str | None = None
    model: Path | None = None
    against: Path | None = None
    source: ImageSource = field(default_factory=ImageSource)
    features: Path | None = None
    against_features: Path | None = None
    folds: int = 1
    captions_per_image: int | None = None

    def run(
        self, device: str, bars: ProgressBars, tell: Callable[[str], None]
    ) -> tuple[ModelEvaluation, dict[str, Any]]:
        """Measure; return the first model's evaluation and the whole report as plain values.

        Raises:
            DatasetError, CheckpointError, FeaturesError: the request cannot be met.
        """
        limit = self.captions_per_image
        whole = part_to_measure(load(self.dataset), self.split, "test", tell)
        collection = whole if limit is None else whole.first_captions(limit)
        model = learned_model.load(named_models.find_or_default(self.model, collection), device)
        # Loaded before `model` is measured, which may take hours.
        other_model = None
        if self.against is not None:
            other_model = learned_model.load(named_models.find(self.against), device)
        _require_blocks(self.folds, collection)

        def evaluate(model: Checkpoint, dataset: Dataset, features: Path | None) -> ModelEvaluation:
            source = with_features(self.source, features)
            with bars(f"encoding by {model.name}") as progress:
                encoded = encode_dataset(model.model, dataset, source, progress)
            _require_blocks(self.folds, encoded.dataset)  # without unreadable pictures
            if not all(len(block.captions) for block in encoded.blocks(self.folds)):
                raise DatasetError(
                    f"one of {self.folds} blocks has no caption at all: use fewer --folds"
                )
            with bars("ranking") as progress:
                return measure(model, encoded, self.folds, progress)

        evaluation = evaluate(model, collection, self.features)
        dataset = evaluation.encoded.dataset
        image_ids = {image.id for image in dataset.images}
        captions = sum(len(image.captions) for image in whole.images if image.id in image_ids)
        report = {
            "dataset": dataset.name,
            "split": ", ".join(dataset.splits()),
            "captions_per_image": limit,
            "captions_left_out": captions - len(evaluation.encoded.captions),
            **evaluation.to_json(),
        }
        if other_model is not None:
            other = evaluate(other_model, dataset, self.against_features or self.features)
            if len(other.encoded.dataset) < len(dataset):
                raise DatasetError(
                    f"{self.against} could not be measured on all images that {evaluation.name} "
                    f"was: compare on features of the same images"
                )
            report["against"] = other.to_json() | {"difference": comparison(evaluation, other)}
        return evaluation, report


def _require_blocks(folds: int, dataset: Dataset) -> None:
    if folds > len(dataset):
        raise DatasetError(
            f"{folds} blocks cannot be made of {count(len(dataset), 'image')}: use fewer --folds"
        )


def measure(
    checkpoint: Checkpoint,
    encoded: EncodedDataset,
    folds: int,
    progress: Callable[[int, int], None],
) -> ModelEvaluation:
    """Rank images for captions and captions for images, in `folds` consecutive blocks."""
    score = checkpoint.model.config.score
    blocks: list[Retrieval] = []
    for block in encoded.blocks(folds):
        blocks.append(retrieve(block.dataset, block.images, block.captions, score))
        progress(len(blocks), folds)
    return ModelEvaluation(checkpoint.name, checkpoint.fingerprint, score, encoded, blocks)


def calibrate(
    folder: Path, dataset: Dataset, source: ImageSource, device: str, bars: ProgressBars
) -> Calibrations:
    """Calibrate a model on captioned pictures, and store the calibration in its folder.

    Raises:
        CheckpointError: the folder holds no model, or one whose probabilities agree with the order.
        DatasetError: there are no captions to measure on.
    """
    loaded = learned_model.load(folder, device)
    if isinstance(loaded.calibration.image, PartScores):
        raise CheckpointError(
            f"{folder} has probabilities that agree with the order; a curve would replace them",
            "'hasse study photographs ground' fits them anew",
        )
    with bars("encoding") as progress:
        encoded = encode_dataset(loaded.model, dataset, source, progress)
    score = loaded.model.config.score
    fitted = calibrations(encoded.dataset, encoded.images, encoded.captions, score)
    checkpoint.write_calibration(folder, fitted)
    return fitted


def comparison(first: ModelEvaluation, second: ModelEvaluation) -> dict[str, Any]:
    """Return the metrics of `first` less those of `second`, with paired 95 % intervals.

    Raises:
        ValueError: the two were not measured on the same images and captions.
    """
    return difference(first.evaluation, second.evaluation) | {
        "intervals": differences(first.blocks, second.blocks).to_json()
    }
