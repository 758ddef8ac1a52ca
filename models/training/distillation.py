"""Distillation: a small network learns, from nothing, to see what a larger one sees.

Both look at the same random cuts of pictures, the student at fewer pixels. It has to say what the
teacher saw in the whole cut and in each of its places, through one linear map; and, through a
linear map each, what the teacher's own layers held on the way there, from its finest grid to its
coarsest. See Hinton et al., "Distilling the knowledge in a neural network"; Romero et al.,
"FitNets: Hints for thin deep nets"; and Beyer et al., "Knowledge distillation: A good teacher is
patient and consistent", of which the cuts that both look at, the pictures laid over each other and
the many passes are taken.
"""

from __future__ import annotations

import hashlib
import json
import math
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import asdict, dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.nn.functional import adaptive_avg_pool2d, interpolate

from models.checkpoints.weight_quantization import from_stored, to_stored
from models.datasets import Image
from models.encoders.backbone import Backbone, build_backbone
from models.errors import HasseError
from models.files import write_weights
from models.images.augmentation import CutsConfig, varied
from models.images.preprocessing import MAX_SIDE, standardised
from models.training.schedule import LARGEST, learning_rate, seed_layers
from models.training.state import first_difference, load_state, read_notes, save_state
from models.training.student import Student, Teacher, fingerprint

STUDENT = "student.safetensors"
SECONDS_BETWEEN_STATES = 120.0
HELD_OUT = 24  # one picture in so many measures the student and never teaches it
_SHARE_OF_MEMORY = 0.5  # of what a device has free, that pictures may take

Pixels = NDArray[np.uint8]


class DistillationError(HasseError):
    """A distillation that cannot start or go on; the message says why and what to do."""


class DistillationStopped(Exception):
    """A distillation was asked to stop; everything done so far is on disk."""


@dataclass(frozen=True, slots=True)
class DistillationConfig:
    """How a student learns.

    Attributes:
        student: torchvision's name of a network that ends in the average of a grid.
        side: pixels of the square that it looks at.
        teacher_side: likewise the teacher's.
        cuts: how pictures are varied.
        epochs: passes over the pictures, in each of which one cut of every picture is seen.
        batch_size: cuts in a step.
        learning_rate: AdamW's, at its highest; it falls to zero along a cosine.
        warm_up: steps over which it rises from zero.
        weight_decay: decoupled, on matrices.
        clip_norm: the longest gradient; longer ones are scaled down.
        hints: weight of what the teacher's layers held, beside what it saw in the end.
        bfloat16: mixed precision.
        seed: of everything random.
    """

    student: str = "mnasnet1_0"
    side: int = 128
    teacher_side: int = 224
    cuts: CutsConfig = field(default_factory=CutsConfig)
    epochs: int = 60
    batch_size: int = 128
    learning_rate: float = 2e-3
    warm_up: int = 200
    weight_decay: float = 0.05
    clip_norm: float = 5.0
    hints: float = 1.0
    bfloat16: bool = True
    seed: int = 0

    def __post_init__(self) -> None:
        """Refuse what nothing can be learned with (ValueError)."""
        if not 0 < self.learning_rate <= LARGEST:
            raise ValueError(f"learning_rate is above 0 and at most {LARGEST:g}")
        if max(self.side, self.teacher_side) > MAX_SIDE:
            raise ValueError(f"side and teacher_side are at most {MAX_SIDE:,}")
        if not 0 <= self.seed < 2**63:
            raise ValueError("seed is a whole number from 0 to 2^63 - 1")


@dataclass(frozen=True, slots=True)
class DistillationProgress:
    """Where a distillation is.

    Attributes:
        cuts: cuts seen so far.
        total: cuts to see in all.
        explained: the share of the variance of what the teacher sees in cuts that the student
            explains lately.
        held_out: likewise of whole pictures that it never learns from; after each pass.
    """

    cuts: int
    total: int
    explained: float
    held_out: float | None = None


def distil(
    config: DistillationConfig,
    pixels: Pixels,
    teacher: Backbone,
    folder: Path,
    *,
    images: Sequence[Image] = (),
    projection: Tensor | None = None,
    start: Mapping[str, Tensor] | None = None,
    device: str = "cpu",
    report: Callable[[DistillationProgress], None] | None = None,
    stop: Callable[[], bool] | None = None,
) -> Path:
    """Train a student, or go on with the one in `folder`, and return the file of its weights.

    They are those of torchvision's network without its classifier, rounded to what a byte each can
    hold, so that a checkpoint of any type keeps them as they are.

    Args:
        config: who learns and how.
        pixels: (n, S, S, 3), the pictures.
        teacher: a network that ends in the average of a grid.
        folder: where the student and its work are kept.
        images: whose pictures they are, whether they could be read or not.
        projection: (N, F), what a model makes of the teacher's features. Then what counts of them
            is what tells captions apart.
        start: weights to begin with; without them the student begins with random ones.
        device: where both are.
        report: told of every step and every pass.
        stop: asked before every step; when true, the state is written and learning stops.

    Raises:
        DistillationError: the folder holds another distillation, or the loss is not a number.
        StateError: the state in the folder is damaged.
        DistillationStopped: `stop` said so.
    """
    dtype = torch.bfloat16 if config.bfloat16 else torch.float32
    seeing = Teacher(teacher, projection, config.teacher_side, dtype, device)
    same = identity(config, images, teacher, projection, start)
    run = _Run(config, pixels, seeing, folder, start, device, same)
    run.restore()
    with _tried_out(device):
        while not run.finished:
            run.epoch_steps(report, stop)
            run.measure(report)
    run.keep()
    return run.write()


def identity(
    config: DistillationConfig,
    images: Sequence[Image],
    teacher: Backbone,
    projection: Tensor | None,
    start: Mapping[str, Tensor] | None,
) -> dict[str, Any]:
    """Return what tells a distillation from others before its pictures are read; see `distil`."""
    names = json.dumps([(image.id, image.file_name) for image in images])
    made_of_features = [] if projection is None else [fingerprint(projection.numpy())]
    return {
        "config": asdict(config),
        "start": _beginning(config, start).fingerprint(),
        "teacher": [teacher.fingerprint(), *made_of_features],
        "images": hashlib.sha256(names.encode()).hexdigest()[:12],
    }


def require_same(folder: Path, identity: Mapping[str, Any]) -> None:
    """Refuse a folder that holds a distillation with another identity.

    Raises:
        DistillationError: it does; the first difference is named.
        StateError: the state in the folder is damaged.
    """
    if found := first_difference(folder, identity):
        key, other = found
        raise DistillationError(
            f"{folder} holds another distillation ({key}: {other}): "
            f"choose another folder, or delete it to start again"
        )


def require_enough(config: DistillationConfig, pictures: int) -> None:
    """Refuse to learn from so few pictures that they fill no batch (DistillationError)."""
    # The fewest of which the others, all but one in HELD_OUT, fill a batch.
    enough = max(HELD_OUT, HELD_OUT * (config.batch_size - 1) // (HELD_OUT - 1) + 1)
    if pictures < enough:
        raise DistillationError(
            f"a batch of {config.batch_size:,} needs {enough:,} pictures or more, and there are "
            f"fewer ({pictures:,}): give it more pictures, or a smaller batch"
        )


def _beginning(config: DistillationConfig, start: Mapping[str, Tensor] | None) -> Backbone:
    torch.manual_seed(config.seed)
    network = build_backbone(config.student)
    if start is not None:
        network.keep_grid().network.load_state_dict(start)
    return network


def _tried_out(device: str) -> AbstractContextManager[object]:
    """Let cuDNN try which of its convolutions are fastest: those it takes unasked are 4 x slower.

    (MNASNet with bfloat16 on an H100.)
    """
    if torch.device(device).type != "cuda":
        return nullcontext()
    flags: AbstractContextManager[object] = torch.backends.cudnn.flags(enabled=True, benchmark=True)
    return flags


class _Run:
    """One distillation: what changes while it goes on."""

    def __init__(
        self,
        config: DistillationConfig,
        pixels: Pixels,
        teacher: Teacher,
        folder: Path,
        start: Mapping[str, Tensor] | None,
        device: str,
        identity: Mapping[str, Any],
    ) -> None:
        self.config, self.teacher, self.folder, self.device = config, teacher, folder, device
        every = np.arange(len(pixels))
        self.taught = every[every % HELD_OUT != HELD_OUT - 1]
        self.held_out = every[HELD_OUT - 1 :: HELD_OUT]
        require_enough(config, len(pixels))
        self.pixels = _resident(pixels, device)
        network = _beginning(config, start)
        self.student = Student(network, teacher.channels, teacher.axes, config.side)
        self.student.to(device).to(memory_format=torch.channels_last)
        # It begins with what all pictures have in common, and learns what tells them apart.
        first = standardised(self._chosen(self.taught[: config.batch_size]))
        seen, _ = teacher.look(_smaller(first, teacher.side))
        self.student.head.bias.data.copy_(seen.mean((0, 2, 3)))  # type: ignore[union-attr]
        matrices = [w for w in self.student.parameters() if w.ndim > 1]
        vectors = [w for w in self.student.parameters() if w.ndim <= 1]
        self.optimizer = torch.optim.AdamW(
            [
                {"params": matrices, "weight_decay": config.weight_decay},
                {"params": vectors, "weight_decay": 0.0},
            ],
            fused=True,
        )
        self.steps = len(self.taught) // config.batch_size
        self.identity = {**identity, "pictures": [len(pixels), fingerprint(pixels)]}
        self.notes: dict[str, Any] = {
            **self.identity,
            "epoch": 0,
            "step": 0,
            "explained": 0.0,
            "seconds": 0.0,
            "history": [],
        }
        self.unread: Tensor | None = None  # of the last step, its loss and what is unexplained
        self.started = self.kept = time.monotonic()

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
        require_same(self.folder, self.identity)
        load_state(self.folder, self.student, self.optimizer)
        self.notes = found
        self.started = time.monotonic() - found["seconds"]

    def keep(self) -> None:
        """Write down the state."""
        self._read()
        self.notes["seconds"] = time.monotonic() - self.started
        save_state(self.folder, self.student, self.optimizer, self.notes)
        self.kept = time.monotonic()

    def epoch_steps(
        self, report: Callable[[DistillationProgress], None] | None, stop: Callable[[], bool] | None
    ) -> None:
        """Do the rest of the current pass."""
        size, epoch = self.config.batch_size, self.notes["epoch"]
        order = np.random.default_rng([self.config.seed, epoch]).permutation(self.taught)
        self.student.train()
        for step in range(self.notes["step"], self.steps):
            if stop is not None and stop():
                self.keep()
                raise DistillationStopped(
                    f"in pass {epoch + 1} of {self.config.epochs} over the pictures"
                )
            seen = self._step(epoch, step, order[step * size : (step + 1) * size])
            # Of the step before: a GPU is not waited for while it works on this one.
            self._read()
            self.unread = seen
            self.notes["step"] = step + 1
            if report is not None:
                report(self._progress())
            if time.monotonic() - self.kept > SECONDS_BETWEEN_STATES:
                self.keep()
        self._read()

    def _read(self) -> None:
        """Note what the last step said, if that was not done."""
        if self.unread is None:
            return
        loss, off = self.unread.tolist()
        self.unread = None
        if not math.isfinite(loss):
            raise DistillationError(
                f"the loss is {loss} in pass {self.notes['epoch'] + 1}, step "
                f"{self.notes['step']}: lower learning_rate"
            )
        steps = self.notes["epoch"] * self.steps + self.notes["step"]
        # The mean of the first fifty, and of about as many later on.
        self.notes["explained"] += max(0.02, 1 / steps) * (1 - off - self.notes["explained"])

    def measure(self, report: Callable[[DistillationProgress], None] | None) -> None:
        """Measure the student on pictures it does not learn from, and close the pass."""
        self.student.eval()
        found = []
        for whole in self._whole():
            with torch.inference_mode(), self._mixed_precision():
                found.append(self.student(_smaller(whole, self.config.side))[0].mean((2, 3)))
        held_out = 1 - float(_unexplained(torch.cat(found), self.wanted))
        # Rounded to bytes, weights that are not numbers become some.
        if not math.isfinite(held_out):
            raise DistillationError(
                f"after pass {self.notes['epoch'] + 1} the student sees what is no number: lower "
                f"learning_rate"
            )
        epoch: int = self.notes["epoch"]
        explained: float = self.notes["explained"]
        self.notes["history"].append(
            {"epoch": epoch + 1, "explained": explained, "held_out": held_out}
        )
        self.notes |= {"epoch": epoch + 1, "step": 0}
        if report is not None:
            report(self._progress(held_out))

    @cached_property
    def wanted(self) -> Tensor:
        """What the teacher sees in the held-out pictures, (H, N)."""
        looked = (self.teacher.look(_smaller(whole, self.teacher.side)) for whole in self._whole())
        return torch.cat([seen.mean((2, 3)) for seen, _ in looked])

    def _whole(self) -> Iterator[Tensor]:
        """Yield the held-out pictures, standardised, a batch at a time."""
        for start in range(0, len(self.held_out), self.config.batch_size):
            chosen = self.held_out[start : start + self.config.batch_size]
            yield standardised(self._chosen(chosen))

    def write(self) -> Path:
        state = self.student.layers.state_dict()
        path = self.folder / STUDENT
        write_weights(path, from_stored(to_stored({k: v.cpu() for k, v in state.items()}, "int8")))
        return path

    def _chosen(self, rows: NDArray[np.int64]) -> Tensor:
        if isinstance(self.pixels, Tensor):
            return self.pixels[torch.from_numpy(rows).to(self.device)]
        return torch.from_numpy(self.pixels[rows]).to(self.device)

    def _mixed_precision(self) -> torch.autocast:
        device = torch.device(self.device).type
        return torch.autocast(device, torch.bfloat16, enabled=self.config.bfloat16)

    def _progress(self, held_out: float | None = None) -> DistillationProgress:
        done = self.notes["epoch"] * self.steps + self.notes["step"]
        size = self.config.batch_size
        return DistillationProgress(
            done * size,
            self.config.epochs * self.steps * size,
            self.notes["explained"],
            held_out,
        )

    def _step(self, epoch: int, step: int, chosen: NDArray[np.int64]) -> Tensor:
        """Take a step, and return its loss and the share of the whole that is unexplained: (2,)."""
        config = self.config
        draw = np.random.default_rng([config.seed, epoch, step])
        seed_layers(config.seed, epoch, step)
        for group in self.optimizer.param_groups:
            group["lr"] = learning_rate(
                config.learning_rate,
                "cosine",
                epoch * self.steps + step,
                config.epochs * self.steps,
                config.warm_up,
            )
        pixels = varied(self._chosen(chosen), config.cuts, self.teacher.side, draw)
        wanted, held = self.teacher.look(pixels)
        with self._mixed_precision():
            found, hints = self.student(_smaller(pixels, config.side))
        whole = _unexplained(found.mean((2, 3)), wanted.mean((2, 3)))
        # What it sees as a whole counts as much as what it sees in all places.
        loss = whole + _unexplained(found, adaptive_avg_pool2d(wanted, found.shape[2:]))
        off = [
            _unexplained(hint, adaptive_avg_pool2d(grid, hint.shape[2:]))
            for hint, grid in zip(hints, held[-len(hints) :], strict=True)
        ]
        loss = loss + config.hints * torch.stack(off).mean()
        self.optimizer.zero_grad(set_to_none=True)
        loss.backward()  # type: ignore[no-untyped-call]
        torch.nn.utils.clip_grad_norm_(self.student.parameters(), config.clip_norm)
        self.optimizer.step()
        return torch.stack([loss.detach(), whole.detach()])


def _unexplained(found: Tensor, wanted: Tensor) -> Tensor:
    """Return the share of the variance of what is wanted, over a batch, that is not found.

    Both are (B, K) or (B, K, H, W), of which each of the K has a mean of its own.
    """
    others = [0, *range(2, wanted.ndim)]
    wanted = wanted.float()
    spread = (wanted - wanted.mean(others, keepdim=True)).square().mean()
    return (found.float() - wanted).square().mean() / spread.clamp(min=1e-12)


def _smaller(pixels: Tensor, side: int) -> Tensor:
    if pixels.shape[-1] == side:
        return pixels
    return interpolate(pixels, (side, side), mode="bilinear", antialias=True)


def _resident(pixels: Pixels, device: str) -> Pixels | Tensor:
    """Return pictures where they are read from: on the device, if it has room for them."""
    if torch.device(device).type == "cpu":
        return pixels
    free, _ = torch.cuda.mem_get_info(device)
    if pixels.nbytes > free * _SHARE_OF_MEMORY:
        return pixels
    return torch.from_numpy(np.array(pixels)).to(device)
