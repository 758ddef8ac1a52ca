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

from hasse.models.checkpoints import checkpoint, trained_model
from hasse.models.checkpoints.weights import arrays, dequantize, quantize, tensors
from hasse.models.datasets import Dataset, DatasetError, fingerprint
from hasse.models.embedding_model import Points
from hasse.models.encoders.backbone import fingerprint_of
from hasse.models.encoders.hubness_weights import HubnessWeights
from hasse.models.encoders.model_config import without_options_of_studies
from hasse.models.evaluation.calibration import Calibrations, calibrations
from hasse.models.evaluation.ground_truth import known_ground_truth
from hasse.models.evaluation.retrieval import evaluate
from hasse.models.model import OrderEmbedding
from hasse.models.training.batches import Batch, Batches, Rows, seed_layers
from hasse.models.training.config import TrainingConfig, learning_rate
from hasse.models.training.distributed import ALONE, World
from hasse.models.training.inputs import TrainingInputs, available, dataset_points, rows_of
from hasse.models.training.lesson import BatchRows, Lesson, Measurement
from hasse.models.training.recipe import Recipe
from hasse.models.training.run import Progress, ResumableRun, Stop, TrainingError
from hasse.models.training.state import difference
from hasse.models.training.step import TrainingStep
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
    """Return what distinguishes a training from others, known before its images are read."""
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
        least_references: minimum number of reference points for the hubness correction, and of
            further images to find the usual distance with. Fewer give a poor correction.
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
        """Prepare a training, or to go on with the one in `folder`.

        Args:
            config: the options.
            folder: the folder of the checkpoint and of the training's state. The checkpoint gets
                the folder's name.
            inputs: the data, and the first weights.
            lessons: auxiliary losses.
            world: a device, or one of several processes that each make this training.

        Raises:
            TrainingError: the start is of another shape or has other words, or several processes
                were to use lessons.
            DatasetError: there is nothing to train or validate on.
        """
        images, start = inputs.training[1], inputs.start
        dataset, held_out = available(*inputs.training), available(*inputs.validation)
        if len(dataset) < 2:
            raise DatasetError("training needs at least two captioned images")
        if lessons and world.size > 1:
            raise TrainingError("lessons are for one process: leave torchrun out")
        self.config, self.world, self.lessons = config, world, lessons
        self.dataset, self.images = dataset, images
        self.held_out = held_out, inputs.validation[1]
        self.rows = rows_of(dataset, images)
        self.ground_truth = known_ground_truth(dataset)
        known = (lesson.vocabulary(config) for lesson in lessons)
        vocabulary = next((one for one in known if one is not None), None)
        vocabulary = vocabulary or _vocabulary(dataset, config.min_word_count)
        self.plan = _batches(config, dataset, vocabulary)
        fitted = _with_hubness_of(config, len(dataset), self.least_references)
        self.model = _initial(fitted, vocabulary, inputs)
        for lesson in lessons:
            lesson.prepare(config, dataset, images, self.model)
            if start is None:
                lesson.begin(self.model)
        learned = nn.ModuleList([self.model, *lessons]) if lessons else self.model
        learned.to(world.device)
        self.training_step = TrainingStep(config, self.model, images, world, lessons)
        same = identity(config, inputs.datasets, inputs.backbone_weights, start, lessons)
        # A picture may be readable in one call and not in another.
        same["selection"] = _selection(dataset, held_out)
        super().__init__(
            folder,
            same,
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
        return checkpoint.load(
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
            drawn = BatchRows(rows, self.rows[rows], captions)
            read = tuple(lesson.read(drawn, draw) for lesson in self.lessons)
            yield Batch(len(captions), inputs, read)

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
        known = [owners, self.ground_truth.holds(rows, captions)]
        if self.config.entailment > 0:
            entailed = self.ground_truth.entails(captions, captions)
            known += [] if entailed is None else [entailed]
        pairs = (torch.from_numpy(array) for array in known)
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
        # A copy with the weights that its checkpoint will give back. Features were made by the
        # frozen network before its weights were rounded.
        model, (dataset, images) = copy.deepcopy(self.model).eval(), self.held_out
        model.set_matmul_dtype(torch.float32)
        self._round(model)
        if model.hubness is not None:
            self._fit_hubness(model, model.hubness)
            self._round(model)  # rounding again changes no weight
        points = dataset_points(model, dataset, images)
        epoch = self.notes["epoch"] + 1
        # Rounded to bytes, weights that are not numbers become some.
        sound = all(weight.isfinite().all() for weight in self.model.state_dict().values())
        if not sound or not all(np.isfinite(each).all() for each in points):
            raise TrainingError(f"after epoch {epoch} points are not numbers: {_NO_NUMBER}")
        measured = self._validated(model, dataset, points)
        self.record({"loss": loss, "validation": measured.to_json()})
        self._measured = model, points
        return measured

    def _validated(
        self, model: OrderEmbedding, dataset: Dataset, points: tuple[Points, Points]
    ) -> Measurement:
        """Measure retrieval, or what a lesson measures in its place."""
        found = (lesson.measure(model, dataset) for lesson in self.lessons)
        measured = next((one for one in found if one is not None), None)
        return measured or evaluate(dataset, *points, self.config.model.score)

    def quality(self, measured: Measurement) -> float:
        """Compare epochs; see `Evaluation.quality`."""
        return measured.quality

    def keep(self, measured: Measurement) -> None:
        """Write the checkpoint, its coordinates ordered by their weight in captions.

        Those on which captions are far from zero come first. They decide most violations, so a
        search that reads a point from its beginning can stop early.
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
        checkpoint.save(self.folder, model, name, metrics, calibration, self.config.saved_dtype)
        options = (lesson.options for lesson in self.lessons if lesson.options is not None)
        Recipe(self.config, tuple(options)).write(self.folder)

    def _round(self, model: OrderEmbedding) -> None:
        """Give a model the weights that its checkpoint will give back."""
        rounded = dequantize(arrays(quantize(trained_model.stored(model), self.config.saved_dtype)))
        model.load_state_dict(model.state_dict() | tensors(rounded))

    def _fit_hubness(self, model: OrderEmbedding, hubness: HubnessWeights) -> None:
        """Fit a model's hubness correction to training images, each with one of its captions."""
        draw = np.random.default_rng([self.config.seed, _REFERENCES])
        rows = draw.permutation(len(self.dataset))[: len(hubness.images) + self.least_references]
        chosen = [self.dataset.images[row] for row in rows]
        each = tuple(
            replace(image, captions=(image.captions[draw.integers(len(image.captions))],))
            for image in chosen
        )
        hubness.inverse_temperature.zero_()  # no correction: the points below are of unit length
        images, captions = dataset_points(model, replace(self.dataset, images=each), self.images)
        hubness.fit(
            torch.from_numpy(images),
            torch.from_numpy(captions),
            self.config.inverse_temperature,
        )


def _vocabulary(dataset: Dataset, least: int) -> Vocabulary:
    """Return the words that captions have at least `least` times."""
    try:
        return Vocabulary.build([caption.text for caption in dataset.captions], least)
    except ValueError:
        raise DatasetError(
            f"the captions of '{dataset.name}' have no word"
            + (f" that comes {least:,} times" if least > 1 else "")
            + ": check the caption file"
            + (", or lower min_word_count" if least > 1 else "")
        ) from None


def _batches(config: TrainingConfig, dataset: Dataset, vocabulary: Vocabulary) -> Batches:
    return Batches(
        dataset,
        [vocabulary.encode(one.text, config.model.max_words) for one in dataset.captions],
        size=config.batch_size,
        captions_per_image=config.captions_per_image,
        unknown_rate=config.unknown_rate,
        seed=config.seed,
    )


def _with_hubness_of(config: TrainingConfig, images: int, least: int) -> TrainingConfig:
    """Return the options with no more reference points than a number of images allows."""
    hubness = min(config.model.hubness, images - least)
    hubness = hubness if hubness >= least else 0
    return replace(config, model=replace(config.model, hubness=hubness))


def _initial(
    config: TrainingConfig, vocabulary: Vocabulary, inputs: TrainingInputs
) -> OrderEmbedding:
    """Return the model that a training starts from, on the CPU."""
    torch.manual_seed(config.seed)
    model = OrderEmbedding(config.model, vocabulary, config.preprocessing)
    learns_backbone, start = inputs.training[1].learns_backbone, inputs.start
    if start is not None:
        other = difference(asdict(start.trained.config), asdict(config.model))
        if other or start.trained.vocabulary.words != vocabulary.words:
            what = f"another shape ({other})" if other else "other words"
            raise TrainingError(
                f"{start.folder} has {what} than this training: start from a model trained on "
                f"these captions with these options, or from none"
            )
        model.load_state_dict(start.trained.state_dict())
    # Cached features need the exact network that made them. A checkpoint may hold it rounded.
    if inputs.backbone_weights is not None and (start is None or not learns_backbone):
        model.images.backbone.load_state_dict(inputs.backbone_weights)
    if not learns_backbone:
        backbone = model.images.backbone.freeze()
        backbone.origin = backbone.fingerprint()  # also when a checkpoint has rounded it
    return model.to(memory_format=torch.channels_last)


def _selection(training: Dataset, validation: Dataset) -> dict[str, Any]:
    """Return the numbers and the fingerprint of the images that a training can read."""
    return {
        "images": len(training),
        "captions": sum(len(image.captions) for image in training.images),
        "fingerprint": fingerprint(training, validation),
    }
