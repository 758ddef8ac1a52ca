"""Training: batches, steps, validation, early stopping, and going on after a kill.

Every random choice of a step is drawn from (seed, epoch, step) alone, and the state that is
written down now and then holds everything else, so a training that is killed and resumed ends
with the weights of one that was not.
"""

from __future__ import annotations

import hashlib
import json
import math
import time
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Literal

import numpy as np
import torch
from torch import Tensor
from torch.nn.functional import pad

from models import checkpoint
from models.batches import Batch, Batches, Rows
from models.calibration import Calibrations, calibrations
from models.datasets import Dataset, DatasetError
from models.distributed import ALONE, World
from models.evaluation import Evaluation, evaluate
from models.graphed import WORDS_MULTIPLE, Graphed
from models.inputs import ImageInput, available, encode_dataset, rows_of
from models.loss import contrastive_loss, ranking_loss
from models.model import ModelConfig, OrderEmbedding, Points
from models.pictures import Preprocessing
from models.schedule import Schedule, learning_rate, seed_layers
from models.score import penalties
from models.stored import StoredDtype
from models.training_state import difference, load_state, read_notes, save_state
from models.truth import known_truth
from models.vocabulary import PADDING, Vocabulary

SECONDS_BETWEEN_STATES = 300.0


class TrainingError(Exception):
    """A training that cannot start or go on; the message says why and what to do."""


class TrainingStopped(Exception):
    """A training was asked to stop; everything done so far is on disk."""


@dataclass(frozen=True, slots=True)
class TrainingConfig:
    """How to train; the defaults are the paper's (section 4.4).

    Attributes:
        preprocessing: how pictures become pixels.
        epochs: passes over the images.
        batch_size: images in a batch.
        captions_per_image: random captions of each image in a batch; an image with fewer
            gives them all. More than one pays where the images are the costly part.
        learning_rate: Adam's, at its highest.
        schedule: "constant", or "cosine" from the highest to zero over all epochs.
        warm_up: steps over which the learning rate rises from zero.
        weight_decay: decoupled, on every weight.
        loss: "ranking", the paper's hinge, or "contrastive"; see `models.loss`.
        margin: of the ranking loss.
        sharpness: of the contrastive loss.
        entailment: weight of the same loss of captions among themselves, premises in the place of
            images, where it is known which caption follows from which.
        clip_norm: the longest gradient of one weight tensor; longer ones are scaled down.
        patience: epochs without a better validation before stopping early.
        min_word_count: rarer words of the training captions are unknown.
        views: read the features of random cuts too, where features have them.
        unknown_rate: share of words read as unknown in training, so that "unknown" is learned.
        precision: "bfloat16" multiplies the GRU's matrices in that type, and runs a backbone
            that learns in mixed precision; weights and states stay float32. With "float32", a GPU
            multiplies the GRU's matrices in TF32.
        saved_dtype: of the matrices in the checkpoint; see `models.stored`.
        seed: of everything random.
    """

    model: ModelConfig = field(default_factory=ModelConfig)
    preprocessing: Preprocessing = field(default_factory=Preprocessing)
    epochs: int = 30
    batch_size: int = 128
    captions_per_image: int = 1
    learning_rate: float = 1e-3
    schedule: Schedule = "constant"
    warm_up: int = 0
    weight_decay: float = 0.0
    loss: Literal["ranking", "contrastive"] = "ranking"
    margin: float = 0.05
    sharpness: float = 30.0
    entailment: float = 0.0
    clip_norm: float = 2.0
    patience: int = 5
    min_word_count: int = 1
    views: bool = False
    unknown_rate: float = 0.0
    precision: Literal["float32", "bfloat16"] = "float32"
    saved_dtype: StoredDtype = "float32"
    seed: int = 0

    def __post_init__(self) -> None:
        """Refuse what cannot be trained with (ValueError)."""
        counts = (self.epochs, self.patience, self.captions_per_image, self.min_word_count)
        if min(counts) < 1 or self.batch_size < 2:
            raise ValueError(
                "epochs, patience, captions_per_image and min_word_count are at least 1, "
                "batch_size at least 2"
            )
        above = (self.learning_rate, self.margin, self.sharpness, self.clip_norm)
        if not all(0 < each < math.inf for each in above):
            raise ValueError("learning_rate, margin, sharpness and clip_norm are above 0")
        least = (self.entailment, self.weight_decay, self.warm_up)
        if not all(0 <= each < math.inf for each in least):
            raise ValueError("entailment, weight_decay and warm_up are at least 0")
        if not 0 <= self.unknown_rate <= 1:
            raise ValueError("unknown_rate is a share, from 0 to 1")
        if not 0 <= self.seed < 2**63:
            raise ValueError("seed is a whole number from 0 to 2^63 - 1")


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
        start: where all weights start, instead: a model of the same shape and words.
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
    held_out = (available(*validation), validation[1])
    run = _Run(
        config,
        name,
        folder,
        (available(*training), training[1]),
        backbone_weights=backbone_weights,
        start=start,
        world=world,
    )
    run.restore()
    while not run.finished:
        run.epoch_steps(report, stop)
        run.validate(held_out, report)
    return checkpoint.load(folder, world.device, to_learn=True)


class _Run:
    """One training: what changes while it goes on."""

    def __init__(
        self,
        config: TrainingConfig,
        name: str,
        folder: Path,
        training: tuple[Dataset, ImageInput],
        *,
        backbone_weights: dict[str, Tensor] | None,
        start: checkpoint.Checkpoint | None,
        world: World,
    ) -> None:
        dataset, images = training
        if len(dataset) < 2:
            raise DatasetError("training needs at least two captioned images")
        self.config, self.name, self.folder, self.world = config, name, folder, world
        self.dataset, self.images = dataset, images
        self.rows = rows_of(dataset, images)
        self.truth = known_truth(dataset)
        texts = [caption.text for caption in dataset.captions]
        try:
            vocabulary = Vocabulary.build(texts, config.min_word_count)
        except ValueError:
            raise DatasetError(
                f"no word comes {config.min_word_count} times in the captions of '{dataset.name}': "
                f"there is nothing to learn to read; look at them, or lower min_word_count"
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
        self.model = OrderEmbedding(config.model, vocabulary, config.preprocessing)
        if backbone_weights is not None:
            self.model.images.backbone.load_state_dict(backbone_weights)
        if start is not None:
            if (start.model.config, start.model.vocabulary.words) != (
                config.model,
                vocabulary.words,
            ):
                raise TrainingError(
                    f"{start.folder} has another shape or other words than this training: start "
                    f"from a model trained on these captions with these options, or from none"
                )
            self.model.load_state_dict(start.model.state_dict())
        if not images.learns_backbone:
            self.model.images.backbone.freeze()
        self.model.to(memory_format=torch.channels_last).to(world.device)
        self.product = torch.bfloat16 if config.precision == "bfloat16" else torch.float32
        self.weights = [w for w in self.model.parameters() if w.requires_grad]
        self.on_gpu = torch.device(world.device).type == "cuda"
        # On a GPU nothing of a step may wait for the processor, nor be a number that it knows.
        rate = config.learning_rate
        self.optimizer = torch.optim.AdamW(
            self.weights,
            torch.tensor(rate, device=world.device) if self.on_gpu else rate,
            weight_decay=config.weight_decay,
            fused=self.on_gpu or None,
            capturable=self.on_gpu,
        )
        self.graphed = (
            Graphed(self._learn, world.device)
            if self.on_gpu and world.size == 1 and not images.learns_backbone
            else None
        )
        self.notes: dict[str, Any] = {
            "config": asdict(config),
            "dataset": [dataset.name, len(dataset), len(texts)],
            "text": _fingerprint(dataset),
            "network": None
            if backbone_weights is None
            else self.model.images.backbone.fingerprint()[:12],
            "start": None if start is None else start.fingerprint,
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
        for key in ("config", "dataset", "text", "network", "start"):
            if other := difference(found.get(key), self.notes[key]):
                raise TrainingError(
                    f"{self.folder} holds a training with another {key} ({other}): "
                    f"choose another folder, or delete it to start again"
                )
        load_state(self.folder, self.model, self.optimizer)
        self.notes = found
        self.started = time.monotonic() - found["seconds"]

    def keep(self) -> None:
        """Write down the state; the first process does, and the others need not wait for it."""
        if not self.world.leads:
            return
        self.notes["seconds"] = time.monotonic() - self.started
        save_state(self.folder, self.model, self.optimizer, self.notes)

    def epoch_steps(self, report: Report | None, stop: Callable[[], bool] | None) -> None:
        """Do the rest of the current epoch."""
        epoch: int = self.notes["epoch"]
        kept = time.monotonic()
        self.model.train()
        self.model.captions.product = self.product
        prepared = self._prepared(epoch, self.notes["step"])
        batch = next(prepared, None)
        while batch is not None:
            if self.world.any(stop is not None and stop()):
                self.keep()
                self.world.wait()  # who calls again is to find the state, in every process
                raise TrainingStopped(
                    f"stopped in epoch {epoch + 1} of {self.config.epochs}; the same command "
                    f"goes on from there"
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

    def validate(self, held_out: tuple[Dataset, ImageInput], report: Report | None) -> None:
        """Measure the model, keep it if it is the best so far, and close the epoch."""
        epoch, loss = self.notes["epoch"], self.notes["loss"] / self.steps
        self.notes |= {"epoch": epoch + 1, "step": 0, "loss": 0.0}
        measured = self._measure(*held_out, loss) if self.world.leads else None
        best = self.world.any(self.notes["best_epoch"] == epoch)
        if best:
            self.notes["best_epoch"] = epoch
        self.keep()
        self.world.wait()
        if report is not None:
            report(Progress(epoch, self.steps, self.steps, loss, measured, best))

    def _measure(self, dataset: Dataset, images: ImageInput, loss: float) -> Evaluation:
        """Validate the model, and save it if it is the best so far."""
        self.model.eval()
        self.model.captions.product = torch.float32
        points = encode_dataset(self.model, dataset, images)
        if not all(np.isfinite(each).all() for each in points):
            raise TrainingError(
                f"after epoch {self.notes['epoch']} points are not numbers: lower --learning-rate"
            )
        measured = evaluate(dataset, *points, self.config.model.score)
        quality, epoch = _quality(measured), self.notes["epoch"]
        self.notes["history"].append(
            {"epoch": epoch, "loss": loss, "validation": measured.to_json()}
        )
        if quality > self.notes["best"]:
            self.notes |= {"best": quality, "best_epoch": epoch - 1}
            self._save(calibrations(dataset, *points, self.config.model.score), points[1])
        return measured

    def _save(self, calibration: Calibrations, captions: Points) -> None:
        """Write the checkpoint, its coordinates in the order that `captions` (C, N) suggest.

        Those on which captions are far from zero come first. They decide most violations, so a
        search that reads a point from its beginning can stop early.
        """
        metrics = {
            "dataset": dict(
                zip(("name", "images", "captions"), self.notes["dataset"], strict=True)
            ),
            "training": self.notes["config"],
            "start": self.notes["start"],
            "seconds": round(time.monotonic() - self.started, 1),
            "torch": str(torch.__version__),
            "history": self.notes["history"],
        }
        heaviest = self.model.heaviest_first(captions)
        self.model.renumber(heaviest)
        checkpoint.save(
            self.folder, self.model, self.name, metrics, calibration, self.config.saved_dtype
        )
        self.model.renumber(torch.argsort(heaviest))

    def _prepared(self, epoch: int, first: int) -> Iterator[Batch]:
        """Yield what the steps of an epoch learn from, from step `first` on."""
        for step, rows, captions, owners in self.batches.of_epoch(epoch, first):
            inputs = self._inputs(rows, captions, owners, self.batches.draw(epoch, step))
            if self.on_gpu:  # which copies what is pinned by itself, while the processor goes on
                inputs = tuple(value.pin_memory() for value in inputs)
            yield Batch(step, len(captions), inputs)

    def _step(self, epoch: int, batch: Batch) -> Tensor:
        """Take a step and return the loss before it, (), which a GPU may still be at work on."""
        rate = learning_rate(
            self.config.learning_rate,
            self.config.schedule,
            epoch * self.steps + batch.step,
            self.config.epochs * self.steps,
            self.config.warm_up,
        )
        for group in self.optimizer.param_groups:
            if isinstance(group["lr"], Tensor):
                group["lr"].fill_(rate)
            else:
                group["lr"] = rate
        if self.graphed is not None:
            return self.graphed(*batch.inputs)
        if self.images.learns_backbone:
            seed_layers(self.config.seed, epoch, batch.step, self.world.rank)
        return self._learn(*(v.to(self.world.device, non_blocking=True) for v in batch.inputs))

    def _told(self, epoch: int, batch: Batch, loss: float) -> float:
        """Return what to report of a batch's loss: the mean over captions and members."""
        if not math.isfinite(loss):
            raise TrainingError(
                f"the loss is {loss} in epoch {epoch + 1}, step {batch.step + 1}: look for "
                f"features that are not numbers, or lower --learning-rate"
            )
        return loss / (batch.captions * self.config.model.members)

    def _inputs(
        self, rows: Rows, captions: Rows, owners: Rows, draw: np.random.Generator
    ) -> tuple[Tensor, ...]:
        """Return what `_learn` takes, on the CPU: of images and captions this process's part."""
        tokens, lengths = self.batches.tokens(captions, draw)
        if self.graphed is not None:
            tokens = pad(tokens, (0, -tokens.shape[1] % WORDS_MULTIPLE), value=PADDING)
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

    def _learn(
        self,
        images: Tensor,
        tokens: Tensor,
        lengths: Tensor,
        owners: Tensor,
        true: Tensor,
        *entailed: Tensor,
    ) -> Tensor:
        """Take one step and return the loss before it, ().

        Args:
            images: what was read of them, (B, ...).
            tokens, lengths: of captions, (C, T) and (C,).
            owners: (C,), the row of the image that each caption was written for.
            true: (B, C) of bool, which captions hold of which images.
            entailed: (C, C) of bool where it is known, which caption follows from which.
        """
        image_points = self.world.gather(self.images.points(self.model, images), len(true))
        caption_points = self.world.gather(self.model.caption_points(tokens, lengths), len(owners))
        loss = self._loss(image_points, caption_points, owners, true)
        for follows in entailed:  # premises are ranked in the place of images
            each = torch.arange(len(follows), device=follows.device)
            among = self._loss(caption_points, caption_points, each, follows)
            loss = loss + self.config.entailment * among
        self.optimizer.zero_grad(set_to_none=True)
        loss.backward()  # type: ignore[no-untyped-call]
        self.world.sum_gradients(self.weights)
        self._clip()
        self.optimizer.step()
        return loss.detach()

    def _clip(self) -> None:
        """Scale down gradients that are too long, each weight tensor's by itself."""
        gradients = [weight.grad for weight in self.weights if weight.grad is not None]
        norms = torch.stack(torch._foreach_norm(gradients))
        shares = (self.config.clip_norm / (norms + 1e-6)).clamp(max=1)
        torch._foreach_mul_(gradients, shares.unbind())

    def _loss(self, images: Tensor, captions: Tensor, owners: Tensor, true: Tensor) -> Tensor:
        """Add up what the members lose, each of which learns to be right alone."""
        config, total = self.config, images.new_zeros(())
        parts = zip(self.model.parts(images), self.model.parts(captions), strict=True)
        for image_points, caption_points in parts:
            penalty = penalties(config.model.score, image_points, caption_points)
            if config.loss == "contrastive":
                total = total + contrastive_loss(penalty, owners, true, config.sharpness)
            else:
                total = total + ranking_loss(penalty, owners, true, config.margin)
        return total


def _fingerprint(dataset: Dataset) -> str:
    """Return what tells apart datasets of one name and size: they may have other words."""
    digest = hashlib.sha256()
    for image in dataset.images:
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
