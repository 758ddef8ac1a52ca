"""Training: epochs of steps, validation, early stopping, and going on after a kill.

Every random choice of a step is drawn from (seed, epoch, step) alone, and the state that is
written down now and then holds everything else, so a training that is killed and resumed ends
with the weights of one that was not.
"""

from __future__ import annotations

import copy
import hashlib
import json
import math
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import asdict, dataclass, replace
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.nn.functional import pad

from models.checkpoints import checkpoint
from models.checkpoints.weight_quantization import from_stored, to_stored
from models.datasets import Dataset, DatasetError
from models.encoders.backbone import fingerprint_of
from models.encoders.hubness import Crowd
from models.errors import HasseError
from models.evaluation.calibration import Calibrations, calibrations
from models.evaluation.ground_truth import known_truth
from models.evaluation.retrieval import Evaluation, evaluate
from models.model import OrderEmbedding, Points
from models.training.batches import Batch, Batches, Rows
from models.training.config import TrainingConfig
from models.training.distributed import ALONE, World
from models.training.inputs import ImageInput, available, dataset_points, rows_of
from models.training.schedule import learning_rate, seed_layers
from models.training.state import difference, first_difference, load_state, read_notes, save_state
from models.training.step import Learner
from models.vocabulary import PADDING, Vocabulary

SECONDS_BETWEEN_STATES = 300.0
# Fewer points tell little of what is near to everything; as many more tell how near is usual.
_LEAST_CROWD = 500
_CROWD = 2**32  # no epoch: what the crowd is drawn from
_NO_NUMBER = "look for features that are not numbers, or lower --learning-rate"


class TrainingError(HasseError):
    """A training that cannot start or go on; the message says why and what to do."""


class TrainingStopped(Exception):
    """A training was asked to stop; everything done so far is on disk."""


@dataclass(frozen=True, slots=True)
class Progress:
    """Where a training is. `validation` is there once an epoch, after its last step."""

    epoch: int
    step: int
    steps: int
    loss: float
    validation: Evaluation | None = None
    best: bool = False


Report = Callable[[Progress], None]


def train(
    config: TrainingConfig,
    name: str,
    folder: Path,
    training: tuple[Dataset, ImageInput],
    validation: tuple[Dataset, ImageInput],
    *,
    backbone_weights: dict[str, Tensor] | None = None,
    start: checkpoint.Checkpoint | None = None,
    world: World = ALONE,
    report: Report | None = None,
    stop: Callable[[], bool] | None = None,
) -> checkpoint.Checkpoint:
    """Train a model, or go on with the training found in `folder`, and return the best one.

    The checkpoint in `folder` is that of the best validation so far, at any time.

    Args:
        config: what to train and how.
        name: what the checkpoint is called.
        folder: where the checkpoint and the state of the training are kept.
        training: captioned images, and what to read of them.
        validation: likewise, for early stopping.
        backbone_weights: where the backbone starts, or stays when it does not learn.
        start: where all weights that learn start, instead: a model of the same shape and words.
        world: where the model learns: a device, or one of several processes that each call this.
        report: told of every step and every epoch.
        stop: asked before every step; when true, the state is written and training stops.

    Raises:
        TrainingError: the folder holds another training, `start` is of another shape or has other
            words, or the loss is not a number.
        StateError: the state in the folder is damaged.
        TrainingStopped: `stop` said so.
        DatasetError: there is nothing to train or validate on.
    """
    run = _Run(
        config,
        name,
        folder,
        training,
        validation,
        backbone_weights=backbone_weights,
        start=start,
        world=world,
    )
    run.restore()
    while not run.finished:
        run.epoch_steps(report, stop)
        run.validate(report)
    return checkpoint.load(folder, world.device, to_learn=True)


def identity(
    config: TrainingConfig,
    training: Dataset,
    validation: Dataset,
    backbone_weights: dict[str, Tensor] | None,
    start: checkpoint.Checkpoint | None,
) -> dict[str, Any]:
    """Return what tells a training from others before its images are read; as `train` takes it."""
    network = None
    if backbone_weights is not None:
        network = fingerprint_of(config.model.backbone, backbone_weights)[:12]
    return {
        "config": asdict(config),
        "dataset": training.name,
        "text": _fingerprint(training),
        "validation": _fingerprint(validation),
        "network": network,
        "start": None if start is None else start.fingerprint,
    }


def require_same(folder: Path, identity: Mapping[str, Any]) -> None:
    """Refuse a folder that holds a training with another identity, or with more that is another.

    Raises:
        TrainingError: it does; the first difference is named.
        StateError: the state in the folder is damaged.
    """
    if found := first_difference(folder, identity):
        key, other = found
        raise TrainingError(
            f"{folder} holds a training with another {key} ({other}): "
            f"choose another folder, or delete it to start again"
        )


class _Run:
    """One training: what changes while it goes on."""

    def __init__(
        self,
        config: TrainingConfig,
        name: str,
        folder: Path,
        training: tuple[Dataset, ImageInput],
        validation: tuple[Dataset, ImageInput],
        *,
        backbone_weights: dict[str, Tensor] | None,
        start: checkpoint.Checkpoint | None,
        world: World,
    ) -> None:
        images = training[1]
        dataset = available(*training)
        held_out = available(*validation)
        if len(dataset) < 2:
            raise DatasetError("training needs at least two captioned images")
        self.config, self.name, self.folder, self.world = config, name, folder, world
        self.dataset, self.images, self.held_out = dataset, images, (held_out, validation[1])
        self.rows = rows_of(dataset, images)
        self.truth = known_truth(dataset)
        texts = [caption.text for caption in dataset.captions]
        try:
            vocabulary = Vocabulary.build(texts, config.min_word_count)
        except ValueError:
            least = config.min_word_count
            raise DatasetError(
                f"the captions of '{dataset.name}' have no word"
                + (f" that comes {least:,} times" if least > 1 else "")
                + ": there is nothing to learn to read; look at them"
                + (", or lower min_word_count" if least > 1 else "")
            ) from None
        self.batches = Batches(
            dataset,
            [vocabulary.encode(text, config.model.max_words) for text in texts],
            size=config.batch_size,
            captions_per_image=config.captions_per_image,
            unknown_rate=config.unknown_rate,
            seed=config.seed,
        )
        self.steps = self.batches.steps
        torch.manual_seed(config.seed)
        self.model = _initial(
            _with_crowd_of(config, len(dataset)),
            vocabulary,
            backbone_weights,
            start,
            learns_backbone=images.learns_backbone,
        )
        if not images.learns_backbone:
            backbone = self.model.images.backbone.freeze()
            backbone.origin = backbone.fingerprint()  # also when a checkpoint has rounded it
        self.model.to(memory_format=torch.channels_last).to(world.device)
        self.learner = Learner(config, self.model, images, world)
        self.identity = {
            **identity(config, training[0], validation[0], backbone_weights, start),
            # What of them is there: a picture may be readable in one call and not in another.
            "selection": {
                "images": len(dataset),
                "captions": len(texts),
                "fingerprint": _fingerprint(dataset, held_out),
            },
        }
        self.notes: dict[str, Any] = {
            **self.identity,
            "epoch": 0,
            "step": 0,
            "loss": 0.0,
            "best_epoch": -1,
            "best": -math.inf,
            "seconds": 0.0,
            "history": [],
        }
        self.started = time.monotonic()

    @property
    def finished(self) -> bool:
        epoch: int = self.notes["epoch"]
        stale: int = epoch - 1 - self.notes["best_epoch"]
        return epoch >= self.config.epochs or stale >= self.config.patience

    def restore(self) -> None:
        """Go on where an earlier call stopped, if it was this training."""
        self.folder.mkdir(parents=True, exist_ok=True)
        found = read_notes(self.folder)
        done = 0 if found is None else found["epoch"] * self.steps + found["step"]
        if not self.world.agree(done):
            raise TrainingError(
                f"the processes do not find the same training in {self.folder}: give them a "
                f"folder that all of them share"
            )
        if found is None:
            return
        require_same(self.folder, self.identity)
        load_state(self.folder, self.model, self.learner.optimizer)
        self.notes = found
        if checkpoint.KIND.is_torn(self.folder):
            self.notes["best"] = -math.inf  # the epoch that was being saved is the best again
        self.started = time.monotonic() - found["seconds"]

    def keep(self) -> None:
        """Write down the state; the first process does, and the others need not wait for it."""
        if not self.world.leads:
            return
        self.notes["seconds"] = time.monotonic() - self.started
        save_state(self.folder, self.model, self.learner.optimizer, self.notes)

    def epoch_steps(self, report: Report | None, stop: Callable[[], bool] | None) -> None:
        """Do the rest of the current epoch."""
        epoch: int = self.notes["epoch"]
        kept = time.monotonic()
        self.learner.begin()
        prepared = self._prepared(epoch, self.notes["step"])
        batch = next(prepared, None)
        while batch is not None:
            if self.world.any(stop is not None and stop()):
                self.keep()
                self.world.wait()  # who calls again is to find the state, in every process
                raise TrainingStopped(
                    f"in epoch {epoch + 1} of {self.config.epochs}; the same command goes on "
                    f"from there"
                )
            loss = self._step(epoch, batch)
            # A GPU is at work on the step: meanwhile the processor prepares the one after it.
            following = next(prepared, None)
            self.notes["loss"] += self._told(epoch, batch, float(loss))
            self.notes["step"] = batch.step + 1
            if report is not None:
                done = batch.step + 1
                report(Progress(epoch, done, self.steps, self.notes["loss"] / done))
            if time.monotonic() - kept > SECONDS_BETWEEN_STATES:
                self.keep()
                kept = time.monotonic()
            batch = following

    def validate(self, report: Report | None) -> None:
        """Measure the model, keep it if it is the best so far, and close the epoch."""
        epoch, loss = self.notes["epoch"], self.notes["loss"] / self.steps
        measured = self._measure(loss) if self.world.leads else None
        best = self.world.any(self.notes["best_epoch"] == epoch)
        self.notes |= {"epoch": epoch + 1, "step": 0, "loss": 0.0}
        if best:
            self.notes["best_epoch"] = epoch
        self.keep()
        self.world.wait()
        if report is not None:
            report(Progress(epoch, self.steps, self.steps, loss, measured, best))

    def _measure(self, loss: float) -> Evaluation:
        """Validate the model as it would be saved, and save it if it is the best so far."""
        model, (dataset, images) = self._as_saved(), self.held_out
        points = dataset_points(model, dataset, images)
        epoch = self.notes["epoch"]
        # Rounded to bytes, weights that are not numbers become some.
        sound = all(weight.isfinite().all() for weight in self.model.state_dict().values())
        if not sound or not all(np.isfinite(each).all() for each in points):
            raise TrainingError(f"after epoch {epoch + 1} points are not numbers: {_NO_NUMBER}")
        if epoch == 0:
            self.keep()  # a model without a state is another's, and not to be written over
        measured = evaluate(dataset, *points, self.config.model.score)
        quality = _quality(measured)
        self.notes["history"].append(
            {"epoch": epoch + 1, "loss": loss, "validation": measured.to_json()}
        )
        if quality > self.notes["best"]:
            self.notes |= {"best": quality, "best_epoch": epoch}
            self._save(model, calibrations(dataset, *points, self.config.model.score), points[1])
        return measured

    def _as_saved(self) -> OrderEmbedding:
        """Return a copy of the model with the weights that its checkpoint will give back.

        Features of a frozen network are those of its weights before they were rounded.
        """
        model = copy.deepcopy(self.model).eval()
        model.multiply_in(torch.float32)
        self._round(model)
        if model.crowd is not None:
            self._gather(model, model.crowd)
            self._round(model)  # what was rounded once stays as it is
        return model

    def _round(self, model: OrderEmbedding) -> None:
        """Give a model the weights that come back when its own are stored."""
        stored = to_stored(model.state_dict(), self.config.saved_dtype)
        model.load_state_dict(from_stored(stored))

    def _gather(self, model: OrderEmbedding, crowd: Crowd) -> None:
        """Let a model's crowd be training images, each with a caption of its own."""
        draw = np.random.default_rng([self.config.seed, _CROWD])
        rows = draw.permutation(len(self.dataset))[: len(crowd.images) + _LEAST_CROWD]
        chosen = [self.dataset.images[row] for row in rows]
        each = tuple(
            replace(image, captions=(image.captions[draw.integers(len(image.captions))],))
            for image in chosen
        )
        crowd.sharpness.zero_()  # of a former one; the points are to be of unit length
        images, captions = dataset_points(model, replace(self.dataset, images=each), self.images)
        crowd.gather(torch.from_numpy(images), torch.from_numpy(captions), self.config.sharpness)

    def _save(self, model: OrderEmbedding, calibration: Calibrations, captions: Points) -> None:
        """Write the checkpoint, its coordinates in the order that `captions` (C, N) suggest.

        Those on which captions are far from zero come first. They decide most violations, so a
        search that reads a point from its beginning can stop early.
        """
        metrics = {
            "dataset": {
                "name": self.dataset.name,
                "images": self.notes["selection"]["images"],
                "captions": self.notes["selection"]["captions"],
            },
            "training": self.notes["config"],
            "start": self.notes["start"],
            "seconds": round(time.monotonic() - self.started, 1),
            "torch": str(torch.__version__),
            "history": self.notes["history"],
        }
        model.renumber(model.heaviest_first(captions))
        checkpoint.save(
            self.folder, model, self.name, metrics, calibration, self.config.saved_dtype
        )

    def _prepared(self, epoch: int, first: int) -> Iterator[Batch]:
        """Yield what the steps of an epoch learn from, from step `first` on."""
        for step, rows, captions, owners in self.batches.of_epoch(epoch, first):
            inputs = self._inputs(rows, captions, owners, self.batches.draw(epoch, step))
            if self.learner.on_gpu:
                # It copies what is pinned by itself, while the processor goes on.
                inputs = tuple(value.pin_memory() for value in inputs)
            yield Batch(step, len(captions), inputs)

    def _step(self, epoch: int, batch: Batch) -> Tensor:
        """Take a step; see `Learner.step`."""
        rate = learning_rate(
            self.config.learning_rate,
            self.config.schedule,
            epoch * self.steps + batch.step,
            self.config.epochs * self.steps,
            self.config.warm_up,
        )
        if self.images.learns_backbone:
            seed_layers(self.config.seed, epoch, batch.step, self.world.rank)
        return self.learner.step(batch.inputs, rate)

    def _told(self, epoch: int, batch: Batch, loss: float) -> float:
        """Return what to report of a batch's loss: the mean over captions and members."""
        if not math.isfinite(loss):
            raise TrainingError(
                f"the loss is {loss} in epoch {epoch + 1}, step {batch.step + 1}: {_NO_NUMBER}"
            )
        return loss / (batch.captions * self.config.model.members)

    def _inputs(
        self, rows: Rows, captions: Rows, owners: Rows, draw: np.random.Generator
    ) -> tuple[Tensor, ...]:
        """Return what a step takes, on the CPU: of images and captions this process's part."""
        tokens, lengths = self.batches.tokens(captions, draw)
        spare = -tokens.shape[1] % self.learner.words_multiple
        tokens = pad(tokens, (0, spare), value=PADDING)
        image_part, caption_part = self.world.part(len(rows)), self.world.part(len(captions))
        # Parts of one batch are varied differently. numpy's types have `jumped` in subclasses only.
        bits: Any = draw.bit_generator
        draw = np.random.Generator(bits.jumped(self.world.rank))
        images = self.images.read(self.rows[rows[image_part]], draw)
        known = [owners, self.truth.holds(rows, captions)]
        if self.config.entailment > 0:
            entailed = self.truth.entails(captions, captions)
            known += [] if entailed is None else [entailed]
        told = (torch.from_numpy(array) for array in known)
        return images, tokens[caption_part], lengths[caption_part], *told


def _with_crowd_of(config: TrainingConfig, images: int) -> TrainingConfig:
    """Return the configuration with no larger crowd than so many images give."""
    crowd = min(config.model.crowd, images - _LEAST_CROWD)
    crowd = crowd if crowd >= _LEAST_CROWD else 0
    return replace(config, model=replace(config.model, crowd=crowd))


def _initial(
    config: TrainingConfig,
    vocabulary: Vocabulary,
    backbone_weights: dict[str, Tensor] | None,
    start: checkpoint.Checkpoint | None,
    *,
    learns_backbone: bool,
) -> OrderEmbedding:
    """Return the model that a training starts from, on the CPU; see `train`."""
    model = OrderEmbedding(config.model, vocabulary, config.preprocessing)
    if start is not None:
        other = difference(asdict(start.model.config), asdict(config.model))
        if other or start.model.vocabulary.words != vocabulary.words:
            what = f"another shape ({other})" if other else "other words"
            raise TrainingError(
                f"{start.folder} has {what} than this training: start from a model trained on "
                f"these captions with these options, or from none"
            )
        model.load_state_dict(start.model.state_dict())
    # Features are those of one network, also where a checkpoint holds it rounded.
    if backbone_weights is not None and (start is None or not learns_backbone):
        model.images.backbone.load_state_dict(backbone_weights)
    return model


def _fingerprint(*datasets: Dataset) -> str:
    """Return what tells apart datasets of one name and size: they may have other words."""
    digest = hashlib.sha256()
    for image in chain.from_iterable(dataset.images for dataset in datasets):
        if image.captions:
            digest.update(json.dumps([image.id, *(one.text for one in image.captions)]).encode())
    return digest.hexdigest()[:12]


def _quality(measured: Evaluation) -> float:
    """Choose what a better epoch is: where all truth is known, all of it is to be retrieved."""
    if measured.truth == "meaning":
        return (
            measured.image_retrieval.mean_average_precision
            + measured.caption_retrieval.mean_average_precision
        )
    return measured.rsum
