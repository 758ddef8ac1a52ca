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
from torch.nn.functional import pad

from hasse.models.checkpoints import checkpoint
from hasse.models.checkpoints.weight_quantization import dequantize, quantize
from hasse.models.datasets import Dataset, DatasetError, fingerprint
from hasse.models.encoders.backbone import fingerprint_of
from hasse.models.encoders.hubness import HubnessCorrection
from hasse.models.evaluation.calibration import (
    Calibrations,
    ChainedImages,
    calibrate_chains,
    calibrations,
)
from hasse.models.evaluation.ground_truth import known_ground_truth
from hasse.models.evaluation.retrieval import Evaluation, evaluate
from hasse.models.model import OrderEmbedding
from hasse.models.training.batches import Batch, Batches, Rows, seed_layers
from hasse.models.training.config import TrainingConfig, learning_rate
from hasse.models.training.distributed import ALONE, World
from hasse.models.training.inputs import ImageInput, available, dataset_points, rows_of
from hasse.models.training.run import Progress, ResumableRun, Stop, TrainingError
from hasse.models.training.state import difference
from hasse.models.training.step import TrainingStep
from hasse.models.vocabulary import PADDING, Vocabulary
from hasse.studies.grounding.decoder import Perplexity, decoder_for
from hasse.studies.grounding.word_vectors import WordVectors
from hasse.studies.photographs.chains import Chain
from hasse.studies.photographs.lesson import TextLesson, TextSources

# Fewer points tell little of what is near to everything; as many more tell how near is usual.
LEAST_REFERENCES = 500
_REFERENCES = 2**32  # no epoch: the seed of the reference points' draw
_NO_NUMBER = "look for features that are not numbers, or lower --learning-rate"

Data = tuple[Dataset, ImageInput]
Measured = Evaluation | Perplexity


def identity(
    config: TrainingConfig,
    training: Dataset,
    validation: Dataset,
    backbone_weights: dict[str, Tensor] | None,
    start: checkpoint.Checkpoint | None,
    texts: TextSources | None = None,
    vectors: WordVectors | None = None,
) -> dict[str, Any]:
    """Return what distinguishes a training, known before its images are read."""
    network = None
    if backbone_weights is not None:
        network = fingerprint_of(config.model.backbone, backbone_weights)[:12]
    return {
        "config": asdict(config),
        "dataset": training.name,
        "text": fingerprint(training),
        "validation": fingerprint(validation),
        "network": network,
        "start": None if start is None else start.fingerprint,
        "texts": None if texts is None else texts.fingerprint(),
        "word_vectors": None if vectors is None else vectors.fingerprint(),
    }


class RetrievalTraining(ResumableRun[Batch, Measured]):
    """The training of a model of images and captions.

    The checkpoint in its folder is that of the best validation so far, at any time.
    """

    remedy = _NO_NUMBER
    model: OrderEmbedding

    def __init__(
        self,
        config: TrainingConfig,
        name: str,
        folder: Path,
        training: Data,
        validation: Data,
        *,
        backbone_weights: dict[str, Tensor] | None = None,
        start: checkpoint.Checkpoint | None = None,
        world: World = ALONE,
        least_references: int = LEAST_REFERENCES,
        chains: Sequence[Chain] = (),
        texts: TextSources | None = None,
        vectors: WordVectors | None = None,
    ) -> None:
        """Prepare a training, or to go on with the one in `folder`.

        Args:
            config: what to train and how.
            name: what the checkpoint is called.
            folder: where the checkpoint and the state of the training are kept.
            training: captioned images, and what to read of them.
            validation: likewise, for early stopping.
            backbone_weights: where the backbone starts, or stays when it does not learn.
            start: where all weights that learn start, instead: a model of the same shape and words.
            world: a device, or one of several processes that each make this training.
            chains: of images of `validation`, to calibrate probabilities by.
            texts: what else to learn from.
            vectors: where word vectors start, or stay where they are fixed.
            least_references: without twice as many training images there is no hubness correction.

        Raises:
            TrainingError: `start` is of another shape or has other words, or several processes
                were to learn from texts or to decode.
            DatasetError: there is nothing to train or validate on.
            FeaturesError: a text has no features.
        """
        images = training[1]
        dataset, held_out = available(*training), available(*validation)
        if len(dataset) < 2:
            raise DatasetError("training needs at least two captioned images")
        self.config, self.name, self.world = config, name, world
        self.least_references, self.chains, self.texts = least_references, chains, texts
        self.dataset, self.images, self.held_out = dataset, images, (held_out, validation[1])
        self.rows = rows_of(dataset, images)
        self.ground_truth = known_ground_truth(dataset)
        if (texts is not None or config.decoding) and world.size > 1:
            raise TrainingError("one process learns from texts or decodes them: leave torchrun out")
        if vectors is not None and config.model.word_vectors == "fixed":
            vocabulary = Vocabulary(tuple(vectors.rows))
        else:
            known = () if texts is None else texts.features.texts
            vocabulary = _vocabulary(dataset, config.min_word_count, known)
        self.plan = _batches(config, dataset, vocabulary)
        fitted = _with_hubness_of(config, len(dataset), least_references)
        learns = images.learns_backbone
        model = _initial(fitted, vocabulary, backbone_weights, start, learns_backbone=learns)
        if vectors is not None and start is None:
            for encoder in model.captions.encoders:
                vectors.fill(encoder.embedding.weight, model.vocabulary)
        learned: nn.Module = model
        self.lesson = self.decoder = None
        if config.decoding:
            self.decoder = decoder_for(model, dataset, config.min_word_count)
            learned = nn.ModuleList([model, self.decoder])
        if texts is not None:
            self.lesson = TextLesson(texts, config, dataset, images, vocabulary)
            learned = nn.ModuleList([model, self.lesson.teacher])
            if start is None:
                self.lesson.begin(model)
        self.model = model
        learned.to(world.device)
        self.training_step = TrainingStep(config, model, images, world, self.lesson, self.decoder)
        data = training[0], validation[0]
        same = identity(config, *data, backbone_weights, start, texts, vectors)
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
        report: Callable[[Progress[Measured]], None] | None = None,
        stop: Stop | None = None,
    ) -> checkpoint.Checkpoint:
        """Train to the end and return the best epoch's model; see `Run.run`."""
        self.run(report, stop)
        images = self.config.model.has_images
        return checkpoint.load(self.folder, self.world.device, to_learn=True, with_pictures=images)

    def begin(self) -> None:
        """Go on where an earlier call stopped; see `ResumableRun`."""
        super().begin()
        if checkpoint.KIND.is_torn(self.folder):
            self.notes["best"] = -math.inf  # the epoch that was being saved is the best again

    def batches(self, epoch: int, first: int) -> Iterator[Batch]:
        """Yield what the steps of an epoch learn from."""
        self.training_step.begin()
        for step, rows, captions, owners in self.plan.of_epoch(epoch, first):
            draw = self.plan.draw(epoch, step)
            inputs = self._inputs(rows, captions, owners, draw)
            if self.training_step.on_gpu:
                # A GPU copies pinned memory by itself, while the processor goes on.
                inputs = tuple(value.pin_memory() for value in inputs)
            texts = None
            if self.lesson is not None:
                texts = self.lesson.read(rows, self.rows[rows], captions, draw)
            yield Batch(len(captions), inputs, texts)

    def _inputs(
        self, rows: Rows, captions: Rows, owners: Rows, draw: np.random.Generator
    ) -> tuple[Tensor, ...]:
        """Return what a step takes, on the CPU: of images and captions this process's part."""
        tokens, lengths = self.plan.tokens(captions, draw)
        spare = -tokens.shape[1] % self.training_step.words_multiple
        tokens = pad(tokens, (0, spare), value=PADDING)
        image_part, caption_part = self.world.part(len(rows)), self.world.part(len(captions))
        # Parts of one batch are varied differently. numpy's types have `jumped` in subclasses only.
        bits: Any = draw.bit_generator
        draw = np.random.Generator(bits.jumped(self.world.rank))
        images = self.images.read(self.rows[rows[image_part]], draw)
        known = [owners, self.ground_truth.holds(rows, captions)]
        if self.config.entailment > 0:
            entailed = self.ground_truth.entails(captions, captions)
            known += [] if entailed is None else [entailed]
        told = (torch.from_numpy(array) for array in known)
        return images, tokens[caption_part], lengths[caption_part], *told

    def step(self, epoch: int, step: int, batch: Batch) -> Tensor:
        """Take a step; return its loss, the mean over captions and members of the ensemble."""
        rate = learning_rate(
            self.config.learning_rate,
            self.config.schedule,
            epoch * self.steps + step,
            self.epochs * self.steps,
            self.config.warm_up,
        )
        if self.images.learns_backbone or self.lesson is not None or self.config.dropout:
            seed_layers(self.config.seed, epoch, step, self.world.rank)
        loss = self.training_step(batch.inputs, rate, batch.texts)
        return loss / (batch.captions * self.config.model.ensemble)

    def measure(self, loss: float) -> Measured:
        """Validate the model as it would be saved."""
        # A copy with the weights that its checkpoint will give back. Features of a frozen network
        # are those of its weights before they were rounded.
        model, (dataset, images) = copy.deepcopy(self.model).eval(), self.held_out
        model.set_matmul_dtype(torch.float32)
        self._round(model)
        if model.hubness is not None:
            self._fit_hubness(model, model.hubness)
            self._round(model)  # what was rounded once stays as it is
        points = dataset_points(model, dataset, images)
        measured: Measured
        epoch = self.notes["epoch"] + 1
        # Rounded to bytes, weights that are not numbers become some.
        sound = all(weight.isfinite().all() for weight in self.model.state_dict().values())
        if not sound or not all(np.isfinite(each).all() for each in points):
            raise TrainingError(f"after epoch {epoch} points are not numbers: {_NO_NUMBER}")
        if self.decoder is not None and not self.config.model.has_images:
            measured = self.decoder.perplexity(model, dataset)
        else:
            measured = evaluate(dataset, *points, self.config.model.score)
        row = {"epoch": epoch, "loss": loss, "validation": measured.to_json()}
        before = [one for one in self.notes["history"] if one["epoch"] < epoch]
        self.notes["history"] = [*before, row]
        self._measured = model, points
        return measured

    def quality(self, measured: Measured) -> float:
        """Compare epochs; see `Evaluation.quality`."""
        return measured.quality

    def keep(self, measured: Measured) -> None:
        """Write the checkpoint, its coordinates ordered by their weight in captions.

        Those on which captions are far from zero come first. They decide most violations, so a
        search that reads a point from its beginning can stop early.
        """
        model, points = self._measured
        calibration = Calibrations()
        if self.config.model.has_images:
            calibration = calibrations(self.held_out[0], *points, self.config.model.score)
        if self.chains:
            shown = [ChainedImages(self.held_out[0], points[0], self.chains)]
            real = None if self.texts is None else self.texts.class_features
            if self.texts is not None and real is not None and len(real.dataset) > 1:
                chains = real.chains(self.texts.classes)
                seen = model.encode_features(real.rows)
                shown.append(ChainedImages(real.dataset, seen, chains))
            of_chains = calibrate_chains(
                *shown, encode=model.encode_captions, score=self.config.model.score
            )
            calibration = replace(calibration, image=of_chains)
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
        if self.config.model.image_map == "linear":
            model.renumber(model.heaviest_first(points[1]))
        checkpoint.save(
            self.folder, model, self.name, metrics, calibration, self.config.saved_dtype
        )

    def _round(self, model: OrderEmbedding) -> None:
        """Give a model the weights that come back when its own are stored."""
        rounded = dequantize(quantize(checkpoint.stored(model), self.config.saved_dtype))
        model.load_state_dict(model.state_dict() | rounded)

    def _fit_hubness(self, model: OrderEmbedding, hubness: HubnessCorrection) -> None:
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


def _vocabulary(dataset: Dataset, least: int, others: Sequence[str] = ()) -> Vocabulary:
    """Return the words of captions, or of texts that have them, which come at least so often."""
    try:
        return Vocabulary.build(others or [caption.text for caption in dataset.captions], least)
    except ValueError:
        raise DatasetError(
            f"the captions of '{dataset.name}' have no word"
            + (f" that comes {least:,} times" if least > 1 else "")
            + ": there is nothing to learn to read; look at them"
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
    """Return the configuration with no more reference points than so many images give."""
    hubness = min(config.model.hubness, images - least)
    hubness = hubness if hubness >= least else 0
    return replace(config, model=replace(config.model, hubness=hubness))


def _initial(
    config: TrainingConfig,
    vocabulary: Vocabulary,
    backbone_weights: dict[str, Tensor] | None,
    start: checkpoint.Checkpoint | None,
    *,
    learns_backbone: bool,
) -> OrderEmbedding:
    """Return the model that a training starts from, on the CPU."""
    torch.manual_seed(config.seed)
    model = OrderEmbedding(config.model, vocabulary, config.preprocessing)
    if start is not None:
        other = difference(asdict(start.trained.config), asdict(config.model))
        if other or start.trained.vocabulary.words != vocabulary.words:
            what = f"another shape ({other})" if other else "other words"
            raise TrainingError(
                f"{start.folder} has {what} than this training: start from a model trained on "
                f"these captions with these options, or from none"
            )
        model.load_state_dict(start.trained.state_dict())
    # Features are those of one network, also where a checkpoint holds it rounded.
    if backbone_weights is not None and (start is None or not learns_backbone):
        model.images.backbone.load_state_dict(backbone_weights)
    if not learns_backbone and config.model.has_images:
        backbone = model.images.backbone.freeze()
        backbone.origin = backbone.fingerprint()  # also when a checkpoint has rounded it
    return model.to(memory_format=torch.channels_last)


def _selection(training: Dataset, validation: Dataset) -> dict[str, Any]:
    """Return which images and captions of a dataset a training can read."""
    return {
        "images": len(training),
        "captions": sum(len(image.captions) for image in training.images),
        "fingerprint": fingerprint(training, validation),
    }
