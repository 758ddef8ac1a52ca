"""Distillation: a small network learns, from nothing, to see what a larger one sees.

It has to match what the teacher saw in cuts of pictures (`models.cuts`) through one linear map,
under other colours and laid over each other; see Hinton et al., "Distilling the knowledge in a
neural network", and Beyer et al., "Knowledge distillation: A good teacher is patient and
consistent", of which the cuts that both look at are taken.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from models.backbone import Backbone, build_backbone
from models.cuts import Cuts, whole_and_parts
from models.files import write_weights
from models.pictures import standardised
from models.schedule import learning_rate
from models.stored import packed, unpacked
from models.training_state import difference, load_state, read_notes, save_state

STUDENT = "student.safetensors"
SECONDS_BETWEEN_STATES = 120.0
HELD_OUT = 24  # one picture in so many measures the student and never teaches it


class DistillationError(Exception):
    """A distillation that cannot start or go on; the message says why and what to do."""


class DistillationStopped(Exception):
    """A distillation was asked to stop; everything done so far is on disk."""


@dataclass(frozen=True, slots=True)
class DistillationConfig:
    """How a student learns.

    Attributes:
        student: torchvision's name of a network that ends in the average of a grid.
        side: pixels of the square that it looks at while it learns. Things are larger in a cut
            than in its picture, so give it whole pictures a third larger (Touvron et al.,
            "Fixing the train-test resolution discrepancy").
        epochs: passes over all cuts.
        batch_size: cuts in a step.
        learning_rate: AdamW's, at its highest; it falls to zero along a cosine.
        warm_up: steps over which it rises from zero.
        weight_decay: decoupled, on matrices.
        clip_norm: the longest gradient; longer ones are scaled down.
        colour: how far brightness, contrast, saturation and tint are turned: the logarithm's
            range.
        mixed: the share of cuts that another cut is laid over; their targets are mixed likewise.
        bfloat16: mixed precision.
        seed: of everything random.
    """

    student: str = "regnet_x_400mf"
    side: int = 96
    epochs: int = 2
    batch_size: int = 32
    learning_rate: float = 1e-3
    warm_up: int = 200
    weight_decay: float = 0.02
    clip_norm: float = 5.0
    colour: float = 0.3
    mixed: float = 0.0
    bfloat16: bool = True
    seed: int = 0


@dataclass(frozen=True, slots=True)
class DistillationProgress:
    """Where a distillation is.

    Attributes:
        cuts: cuts seen so far.
        total: cuts to see in all.
        explained: the share of the targets' variance that the student explains lately.
        held_out: likewise of pictures that it never learns from; after each pass.
    """

    cuts: int
    total: int
    explained: float
    held_out: float | None = None


class Student(nn.Module):
    """The network that learns, and the linear map from its features to the teacher's axes."""

    def __init__(self, network: Backbone, axes: int) -> None:
        super().__init__()
        self.network = network.keep_grid()
        # What all pictures have in common would drown what tells them apart.
        self.centred = nn.BatchNorm1d(network.feature_dimension, affine=False)
        self.head = nn.Linear(network.feature_dimension, axes)
        nn.init.zeros_(self.head.weight)
        nn.init.zeros_(self.head.bias)

    def forward(self, pixels: Tensor, parts: int) -> Tensor:
        """Say what the teacher sees: (B, 3, S, S) -> (B, 1 + parts^2, axes)."""
        features = whole_and_parts(self.network(pixels), parts).float()
        seen: Tensor = self.head(self.centred(features.transpose(1, 2)).transpose(1, 2))
        return seen


def distil(
    config: DistillationConfig,
    cuts: Cuts,
    folder: Path,
    *,
    start: Mapping[str, Tensor] | None = None,
    report: Callable[[DistillationProgress], None] | None = None,
    stop: Callable[[], bool] | None = None,
) -> Path:
    """Train a student, or go on with the one in `folder`, and return the file of its weights.

    They are those of torchvision's network without its classifier, rounded to what a byte each can
    hold, so that a checkpoint of any type keeps them as they are. `start` are such weights to begin
    with; without them it begins with random ones.

    Raises:
        DistillationError: the folder holds another distillation, or the loss is not a number.
        DistillationStopped: `stop`, asked before every step, said so.
    """
    run = _Run(config, cuts, folder, start)
    run.restore()
    while not run.finished:
        run.epoch_steps(report, stop)
        run.measure(report)
    return run.write()


class _Run:
    """One distillation: what changes while it goes on."""

    def __init__(
        self,
        config: DistillationConfig,
        cuts: Cuts,
        folder: Path,
        start: Mapping[str, Tensor] | None,
    ) -> None:
        self.config, self.cuts, self.folder = config, cuts, folder
        every = np.arange(len(cuts.targets))
        picture = every % len(cuts.pixels)
        self.taught = every[picture % HELD_OUT != HELD_OUT - 1]
        # A cut of each; the others would say little more.
        self.held_out = every[: len(cuts.pixels)][HELD_OUT - 1 :: HELD_OUT]
        if len(self.taught) < config.batch_size or not len(self.held_out):
            raise DistillationError(
                f"there are {len(cuts.pixels):,} pictures: a student needs at least "
                f"{max(HELD_OUT, 2 * config.batch_size)}"
            )
        torch.manual_seed(config.seed)
        self.student = Student(build_backbone(config.student), cuts.targets.shape[2])
        if start is not None:
            self.student.network.network.load_state_dict(start)
        self.student.to(memory_format=torch.channels_last)
        matrices = [w for w in self.student.parameters() if w.ndim > 1]
        vectors = [w for w in self.student.parameters() if w.ndim <= 1]
        self.optimizer = torch.optim.AdamW(
            [
                {"params": matrices, "weight_decay": config.weight_decay},
                {"params": vectors, "weight_decay": 0.0},
            ],
        )
        self.steps = len(self.taught) // config.batch_size
        self.notes: dict[str, Any] = {
            "config": asdict(config),
            "start": self.student.network.fingerprint(),
            "cuts": asdict(cuts.config) | {"pictures": len(cuts.pixels)},
            "epoch": 0,
            "step": 0,
            "explained": 0.0,
            "seconds": 0.0,
            "history": [],
        }
        self.started = time.monotonic()

    @property
    def finished(self) -> bool:
        epochs: int = self.notes["epoch"]
        return epochs >= self.config.epochs

    def restore(self) -> None:
        """Go on where an earlier call stopped, if it was this distillation."""
        self.folder.mkdir(parents=True, exist_ok=True)
        found = read_notes(self.folder)
        if found is None:
            return
        for key in ("config", "start", "cuts"):
            if other := difference(found[key], self.notes[key]):
                raise DistillationError(
                    f"{self.folder} holds another distillation ({key}: {other}): "
                    f"choose another folder, or delete it to start again"
                )
        load_state(self.folder, self.student, self.optimizer)
        self.notes = found
        self.started = time.monotonic() - found["seconds"]

    def keep(self) -> None:
        self.notes["seconds"] = time.monotonic() - self.started
        save_state(self.folder, self.student, self.optimizer, self.notes)

    def epoch_steps(
        self, report: Callable[[DistillationProgress], None] | None, stop: Callable[[], bool] | None
    ) -> None:
        """Do the rest of the current pass."""
        size, epoch = self.config.batch_size, self.notes["epoch"]
        order = np.random.default_rng([self.config.seed, epoch]).permutation(self.taught)
        kept = time.monotonic()
        self.student.train()
        for step in range(self.notes["step"], self.steps):
            if stop is not None and stop():
                self.keep()
                raise DistillationStopped(
                    f"stopped in pass {epoch + 1} of {self.config.epochs} over the cuts"
                )
            explained = self._step(epoch, step, order[step * size : (step + 1) * size])
            self.notes["step"] = step + 1
            self.notes["explained"] += 0.02 * (explained - self.notes["explained"])
            if report is not None:
                report(self._progress())
            if time.monotonic() - kept > SECONDS_BETWEEN_STATES:
                self.keep()
                kept = time.monotonic()

    def measure(self, report: Callable[[DistillationProgress], None] | None) -> None:
        """Measure the student on pictures it does not learn from, and close the pass."""
        self.student.eval()
        off, spread = 0.0, 0.0
        for start in range(0, len(self.held_out), self.config.batch_size):
            chosen = self.held_out[start : start + self.config.batch_size]
            wanted = self._targets(chosen)
            with torch.inference_mode():
                pixels = standardised(torch.from_numpy(self.cuts.look(chosen, self.config.side)))
                found = self.student(pixels, self.cuts.config.parts)
            off += float((found - wanted)[:, 0].square().sum())
            spread += float(wanted[:, 0].square().sum())
        held_out = 1 - off / spread
        epoch: int = self.notes["epoch"]
        explained: float = self.notes["explained"]
        self.notes["history"].append(
            {"epoch": epoch + 1, "explained": explained, "held_out": held_out}
        )
        self.notes |= {"epoch": epoch + 1, "step": 0}
        self.keep()
        if report is not None:
            report(self._progress(held_out))

    def write(self) -> Path:
        state = self.student.network.network.state_dict()
        path = self.folder / STUDENT
        write_weights(path, unpacked(packed(state, "int8")))
        return path

    def _progress(self, held_out: float | None = None) -> DistillationProgress:
        done = self.notes["epoch"] * self.steps + self.notes["step"]
        size = self.config.batch_size
        return DistillationProgress(
            done * size,
            self.config.epochs * self.steps * size,
            self.notes["explained"],
            held_out,
        )

    def _step(self, epoch: int, step: int, chosen: NDArray[np.int64]) -> float:
        config = self.config
        draw = np.random.default_rng([config.seed, epoch, step])
        for group in self.optimizer.param_groups:
            group["lr"] = learning_rate(
                config.learning_rate,
                "cosine",
                epoch * self.steps + step,
                config.epochs * self.steps,
                config.warm_up,
            )
        pixels = standardised(torch.from_numpy(self.cuts.look(chosen, config.side)))
        pixels, targets = _mixed(
            _coloured(pixels, config.colour, draw), self._targets(chosen), config.mixed, draw
        )
        with torch.autocast("cpu", torch.bfloat16, enabled=config.bfloat16):
            found = self.student(pixels, self.cuts.config.parts)
        off = (found - targets).square().sum(-1)  # (B, 1 + parts^2)
        # The whole counts as much as all its parts.
        loss = off[:, 0].mean() + off[:, 1:].mean()
        if not torch.isfinite(loss):
            raise DistillationError(
                f"the loss is {loss.item()} in pass {epoch + 1}, step {step + 1}: lower "
                f"learning_rate"
            )
        self.optimizer.zero_grad(set_to_none=True)
        loss.backward()
        torch.nn.utils.clip_grad_norm_(self.student.parameters(), config.clip_norm)
        self.optimizer.step()
        return 1 - float(off[:, 0].detach().sum() / targets[:, 0].square().sum())

    def _targets(self, chosen: NDArray[np.int64]) -> Tensor:
        return torch.from_numpy(self.cuts.targets[chosen].astype(np.float32))


def _coloured(pixels: Tensor, strength: float, draw: np.random.Generator) -> Tensor:
    """Turn each picture's brightness, contrast, saturation and tint: (B, 3, S, S), in place."""
    many = len(pixels)
    turned = np.exp(draw.uniform(-strength, strength, size=(5, many)))
    contrast, saturation = (torch.from_numpy(t).float().view(-1, 1, 1, 1) for t in turned[:2])
    light = torch.from_numpy(np.log(turned[2:].T)).float().view(many, 3, 1, 1)
    grey = pixels.mean(1, keepdim=True)
    middle = grey.mean((2, 3), keepdim=True)
    pixels.mul_(saturation).add_(grey * (1 - saturation))  # (B, 3, S, S)
    return pixels.mul_(contrast).add_(middle * (1 - contrast) + light)


def _mixed(
    pixels: Tensor, targets: Tensor, share: float, draw: np.random.Generator
) -> tuple[Tensor, Tensor]:
    """Lay the next cut over some, with any weight, and mix what is to be seen likewise."""
    many = round(share * len(pixels))
    weight = torch.from_numpy(draw.uniform(0, 1, size=many)).float()
    following = (torch.arange(many) + 1) % len(pixels)
    over = torch.lerp(pixels[:many], pixels[following], weight.view(-1, 1, 1, 1))
    seen = torch.lerp(targets[:many], targets[following], weight.view(-1, 1, 1))
    return torch.cat([over, pixels[many:]]), torch.cat([seen, targets[many:]])
