"""Training of a model of images and captions, validated and saved after each epoch."""

from __future__ import annotations

import copy
import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from hasse.lab.checkpoints import learned_model
from hasse.lab.checkpoints.learned_model import order_embedding_of
from hasse.lab.encoders.backbone import fingerprint_of
from hasse.lab.encoders.hubness_weights import HubnessWeights
from hasse.lab.encoders.order_embedding import OrderEmbedding
from hasse.lab.evaluation.calibrating import calibrations
from hasse.lab.evaluation.ground_truth import known_ground_truth
from hasse.lab.evaluation.retrieval import evaluate
from hasse.lab.tensors import tensors
from hasse.lab.training.batches import Batch, Batches, Rows, seed_layers
from hasse.lab.training.config import TrainingConfig, learning_rate
from hasse.lab.training.distributed import ALONE, World
from hasse.lab.training.inputs import TrainingInputs, dataset_points, rows_of, usable_dataset
from hasse.lab.training.lesson import BatchRows, Lesson, Measurement
from hasse.lab.training.recipe import Recipe
from hasse.lab.training.run import Progress, ResumableRun, Stop, TrainingError
from hasse.lab.training.state import difference
from hasse.lab.training.step import TrainingStep
from hasse.models.calibration import Calibrations
from hasse.models.checkpoints import checkpoint
from hasse.models.checkpoints.weights import dequantize, quantize
from hasse.models.datasets import Dataset, DatasetError, fingerprint
from hasse.models.embedding_model import Points
from hasse.models.encoders.model_config import without_options_of_studies
from hasse.models.vocabulary import Vocabulary

_REFERENCES = 2**32  # no epoch has this number: the seed of the draw of reference points
_NO_NUMBER = "look for features that are not numbers, or lower --learning-rate"


def identity(
    config: TrainingConfig,
    datasets: tuple[Dataset, Dataset],
    backbone_weights: dict[str, Tensor] | None,
    start: checkpoint.Checkpoint | None,
    lessons: Sequence[Lesson] = (),
) -> dict[str, Any]:
    """Return what distinguishes a training from others, before its images are read."""
    network = None
    if backbone_weights is not None:
        network = fingerprint_of(config.model.backbone, backbone_weights)[:12]
    training, validation = datasets
    return {
        "config": asdict(config) | {"model": without_options_of_studies(asdict(config.model))},
        "dataset": training.name,
        "text": fingerprint(training),
        "validation": fingerprint(validation),
        "network": network,
        "start": None if start is None else start.fingerprint,
        "lessons": [lesson.fingerprint() for lesson in lessons],
    }


class RetrievalTraining(ResumableRun[Batch, Measurement]):
    """The training of a model of images and captions.

    Its folder holds the checkpoint of the best validation so far, at any time.

    Attributes:
        least_references: minimum number of reference points of the hubness correction, and of
            other images that it is fitted to. Fewer give a poor correction.
    """

    remedy = _NO_NUMBER
    least_references = 500
    model: OrderEmbedding

    def __init__(
        self,
        config: TrainingConfig,
        folder: Path,
        inputs: TrainingInputs,
        lessons: Sequence[Lesson] = (),
        world: World = ALONE,
    ) -> None:
        """Prepare a training, new or resumed from `folder`.

        Args:
            config: the options.
            folder: the folder of the checkpoint and of the training's state. The checkpoint gets
                the folder's name.
            inputs: the data, and the first weights.
            lessons: auxiliary losses.
            world: the device, or this process among several that share the training.

        Raises:
            TrainingError: the start has another shape or vocabulary, or there are lessons and
                several processes.
            DatasetError: there is nothing to train or validate on.
        """
        images, start = inputs.training[1], inputs.start
        dataset, held_out = usable_dataset(*inputs.training), usable_dataset(*inputs.validation)
        if len(dataset) < 2:
            raise DatasetError("training needs at least two captioned images")
        if lessons and world.size > 1:
            raise TrainingError("lessons are for one process: leave torchrun out")
        self.config, self.world, self.lessons = config, world, lessons
        self.dataset, self.images = dataset, images
        self.held_out = held_out, inputs.validation[1]
        self.rows = rows_of(dataset, images)
        self.ground_truth = known_ground_truth(dataset)
        vocabularies = (lesson.vocabulary(config) for lesson in lessons)
        vocabulary = next((words for words in vocabularies if words is not None), None)
        vocabulary = vocabulary or _vocabulary(dataset, config.min_word_count)
        self.plan = _batches(config, dataset, vocabulary)
        config_here = _with_usable_hubness(config, len(dataset), self.least_references)
        self.model = _first_model(config_here, vocabulary, inputs)
        for lesson in lessons:
            lesson.prepare(config, dataset, images, self.model)
            if start is None:
                lesson.begin(self.model)
        learned = nn.ModuleList([self.model, *lessons]) if lessons else self.model
        learned.to(world.device)
        self.training_step = TrainingStep(config, self.model, images, world, lessons)
        training_identity = identity(
            config, inputs.datasets, inputs.backbone_weights, start, lessons
        )
        # A picture may be readable in one call and not in another.
        training_identity["selection"] = _selection(dataset, held_out)
        super().__init__(
            folder,
            training_identity,
            learned,
            self.training_step.optimizer,
            epochs=config.epochs,
            steps=self.plan.steps,
            patience=config.patience,
            measure_every=config.validate_every,
        )

    def train(
        self,
        report: Callable[[Progress[Measurement]], None] | None = None,
        stop: Stop | None = None,
    ) -> checkpoint.Checkpoint:
        """Train to the end and return the best epoch's model; see `Run.run`."""
        self.run(report, stop)
        return learned_model.load(
            self.folder,
            self.world.device,
            to_learn=True,
            with_pictures=self.model.has_images,
        )

    def begin(self) -> None:
        """Go on where an earlier call stopped; see `ResumableRun`."""
        super().begin()
        if checkpoint.KIND.is_torn(self.folder):
            self.notes["best"] = -math.inf  # the epoch that was being saved is the best again

    def batches(self, epoch: int, first: int) -> Iterator[Batch]:
        """Yield the batches of an epoch."""
        self.training_step.begin()
        for step, rows, captions, owners in self.plan.of_epoch(epoch, first):
            draw = self.plan.draw(epoch, step)
            inputs = self._inputs(rows, captions, owners, draw)
            if self.training_step.on_gpu:
                # A GPU copies pinned memory by itself, while the processor goes on.
                inputs = tuple(value.pin_memory() for value in inputs)
            batch_rows = BatchRows(rows, self.rows[rows], captions)
            lesson_inputs = tuple(lesson.read(batch_rows, draw) for lesson in self.lessons)
            yield Batch(len(captions), inputs, lesson_inputs)

    def _inputs(
        self, rows: Rows, captions: Rows, owners: Rows, draw: np.random.Generator
    ) -> tuple[Tensor, ...]:
        """Return this process's part of a step's images and captions, on the CPU."""
        tokens, lengths = self.plan.tokens(captions, draw)
        image_part, caption_part = self.world.part(len(rows)), self.world.part(len(captions))
        # Each process varies its part differently. numpy's types have `jumped` in subclasses only.
        bits: Any = draw.bit_generator
        draw = np.random.Generator(bits.jumped(self.world.rank))
        images = self.images.read(self.rows[rows[image_part]], draw)
        pair_tables = [owners, self.ground_truth.holds(rows, captions)]
        if self.config.entailment > 0:
            entailed = self.ground_truth.entails(captions, captions)
            pair_tables += [] if entailed is None else [entailed]
        pairs = (torch.from_numpy(array) for array in pair_tables)
        return images, tokens[caption_part], lengths[caption_part], *pairs

    def step(self, epoch: int, step: int, batch: Batch) -> Tensor:
        """Take a step; return its loss, the mean over captions and members of the ensemble."""
        rate = learning_rate(
            self.config.learning_rate,
            self.config.schedule,
            epoch * self.steps + step,
            self.epochs * self.steps,
            self.config.warm_up,
        )
        seed_layers(self.config.seed, epoch, step, self.world.rank)
        loss = self.training_step(batch.inputs, rate, batch.lessons)
        return loss / (batch.captions * self.config.model.ensemble)

    def measure(self, loss: float) -> Measurement:
        """Validate the model as it would be saved."""
        # A copy, rounded as its checkpoint will be. Features come from the frozen network before
        # rounding.
        model, (dataset, images) = copy.deepcopy(self.model).eval(), self.held_out
        model.set_matmul_dtype(torch.float32)
        self._round(model)
        if model.hubness is not None:
            self._fit_hubness(model, model.hubness)
            self._round(model)  # rounding again changes no weight
        points = dataset_points(model, dataset, images)
        epoch = self.notes["epoch"] + 1
        # Rounding to bytes makes numbers of NaN.
        finite = all(weight.isfinite().all() for weight in self.model.state_dict().values())
        if not finite or not all(np.isfinite(each).all() for each in points):
            raise TrainingError(f"after epoch {epoch} points are not numbers: {_NO_NUMBER}")
        measurement = self._validate(model, dataset, points)
        self.record({"loss": loss, "validation": measurement.to_json()})
        self._measured = model, points
        return measurement

    def _validate(
        self, model: OrderEmbedding, dataset: Dataset, points: tuple[Points, Points]
    ) -> Measurement:
        """Return the measurement of a lesson that has one, else of retrieval."""
        measurements = (lesson.measure(model, dataset) for lesson in self.lessons)
        measurement = next((each for each in measurements if each is not None), None)
        return measurement or evaluate(dataset, *points, self.config.model.score)

    def quality(self, measurement: Measurement) -> float:
        """Compare epochs; see `Evaluation.quality`."""
        return measurement.quality

    def save_model(self, measurement: Measurement) -> None:
        """Write the checkpoint, with its coordinates ordered by their weight in captions.

        Coordinates in which captions are far from zero come first. They decide most violations,
        so a search that reads a point from its beginning can stop early.
        """
        model, points = self._measured
        calibration = Calibrations()
        if model.has_images:
            calibration = calibrations(self.held_out[0], *points, self.config.model.score)
        selection = self.notes["selection"]
        metrics = {
            "dataset": {
                "name": self.dataset.name,
                "images": selection["images"],
                "captions": selection["captions"],
            },
            "training": self.notes["config"],
            "start": self.notes["start"],
            "seconds": round(self.seconds, 1),
            "torch": str(torch.__version__),
            "history": self.notes["history"],
        }
        if self.config.model.has_free_order:
            model.renumber(model.heaviest_first(points[1]))
        name = self.folder.resolve().name
        learned_model.save(self.folder, model, name, metrics, calibration, self.config.saved_dtype)
        options = (lesson.options for lesson in self.lessons if lesson.options is not None)
        Recipe(self.config, tuple(options)).write(self.folder)

    def _round(self, model: OrderEmbedding) -> None:
        """Round the weights of a model as its checkpoint does."""
        stored = quantize(learned_model.arrays_to_store(model), self.config.saved_dtype)
        rounded = dequantize(stored)
        model.load_state_dict(model.state_dict() | tensors(rounded))

    def _fit_hubness(self, model: OrderEmbedding, hubness: HubnessWeights) -> None:
        """Fit a model's hubness correction to training images, each with one of its captions."""
        draw = np.random.default_rng([self.config.seed, _REFERENCES])
        rows = draw.permutation(len(self.dataset))[: len(hubness.images) + self.least_references]
        drawn_images = [self.dataset.images[row] for row in rows]
        with_one_caption = tuple(
            replace(image, captions=(image.captions[draw.integers(len(image.captions))],))
            for image in drawn_images
        )
        hubness.inverse_temperature.zero_()  # no correction: the points below are of unit length
        images, captions = dataset_points(
            model, replace(self.dataset, images=with_one_caption), self.images
        )
        hubness.fit(
            torch.from_numpy(images),
            torch.from_numpy(captions),
            self.config.inverse_temperature,
        )


def _vocabulary(dataset: Dataset, min_count: int) -> Vocabulary:
    """Return the words that occur at least `min_count` times in the captions."""
    try:
        return Vocabulary.build([caption.text for caption in dataset.captions], min_count)
    except ValueError:
        raise DatasetError(
            f"the captions of '{dataset.name}' have no word"
            + (f" that comes {min_count:,} times" if min_count > 1 else "")
            + ": check the caption file"
            + (", or lower min_word_count" if min_count > 1 else "")
        ) from None


def _batches(config: TrainingConfig, dataset: Dataset, vocabulary: Vocabulary) -> Batches:
    return Batches(
        dataset,
        [vocabulary.encode(caption.text, config.model.max_words) for caption in dataset.captions],
        size=config.batch_size,
        captions_per_image=config.captions_per_image,
        unknown_rate=config.unknown_rate,
        seed=config.seed,
    )


def _with_usable_hubness(
    config: TrainingConfig, images: int, least_references: int
) -> TrainingConfig:
    """Return the options with at most as many reference points as the images allow."""
    hubness = min(config.model.hubness, images - least_references)
    hubness = hubness if hubness >= least_references else 0
    return replace(config, model=replace(config.model, hubness=hubness))


def _first_model(
    config: TrainingConfig, vocabulary: Vocabulary, inputs: TrainingInputs
) -> OrderEmbedding:
    """Return the model that a training starts from, on the CPU."""
    torch.manual_seed(config.seed)
    model = OrderEmbedding(config.model, vocabulary, config.preprocessing)
    learns_backbone, start = inputs.training[1].learns_backbone, inputs.start
    if start is not None:
        other_shape = difference(asdict(order_embedding_of(start).config), asdict(config.model))
        if other_shape or order_embedding_of(start).vocabulary.words != vocabulary.words:
            change = f"another shape ({other_shape})" if other_shape else "other words"
            raise TrainingError(
                f"{start.folder} has {change} than this training: start from a model trained on "
                f"these captions with these options, or from none"
            )
        model.load_state_dict(order_embedding_of(start).state_dict())
    # Cached features need the exact network that made them. A checkpoint may hold it rounded.
    if inputs.backbone_weights is not None and (start is None or not learns_backbone):
        model.images.backbone.load_state_dict(inputs.backbone_weights)
    if not learns_backbone:
        backbone = model.images.backbone.freeze()
        backbone.origin = backbone.fingerprint()  # also of a checkpoint's rounded weights
    return model.to(memory_format=torch.channels_last)


def _selection(training: Dataset, validation: Dataset) -> dict[str, Any]:
    """Return the counts and the fingerprint of the images that a training can read."""
    return {
        "images": len(training),
        "captions": sum(len(image.captions) for image in training.images),
        "fingerprint": fingerprint(training, validation),
    }
