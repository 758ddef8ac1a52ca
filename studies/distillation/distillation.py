"""Distillation: a small network, the student, learns the features of a larger one.

Both see the same random crops of pictures, the student at fewer pixels. One linear map predicts the
teacher's features of the whole crop and of each of its places. Further linear maps predict the
grids of the teacher's layers, from the finest to the coarsest. See Hinton et al., "Distilling the
knowledge in a neural network"; Romero et al., "FitNets: Hints for thin deep nets"; and Beyer et
al., "Knowledge distillation: A good teacher is patient and consistent", the source of the shared
crops, the mixed pictures and the many epochs.
"""

from __future__ import annotations

import hashlib
import json
import math
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

from hasse.lab.encoders.backbone import Backbone
from hasse.lab.encoders.registry import build_backbone
from hasse.lab.pixels import normalise_pixels
from hasse.lab.tensors import arrays
from hasse.lab.training.batches import seed_layers
from hasse.lab.training.config import LARGEST_FACTOR, learning_rate
from hasse.lab.training.run import (
    Progress,
    ResumableRun,
    Stop,
    TrainingError,
    set_learning_rate,
)
from hasse.models.checkpoints.weights import dequantize, quantize
from hasse.models.datasets import Image
from hasse.models.images.preprocessing import MAX_SIDE
from hasse.models.tensor_files import write_weights
from hasse.studies.distillation.augmentation import AugmentationConfig, augment
from hasse.studies.distillation.student import Student, Teacher, fingerprint

STUDENT = "student.safetensors"
_SHARE_OF_MEMORY = 0.5  # of what a device has free, that pictures may take

Pixels = NDArray[np.uint8]
Rows = NDArray[np.int64]
DistillationProgress = Progress[float]


@dataclass(frozen=True, slots=True)
class DistillationConfig:
    """The options of a distillation.

    Attributes:
        student: torchvision's name of a network that ends in the average of a grid.
        side: pixels along a side of the student's input.
        teacher_side: pixels along a side of the teacher's input.
        augmentation: how pictures are varied.
        epochs: passes over the pictures, each of which shows one crop of every picture.
        batch_size: crops in a step.
        learning_rate: AdamW's highest rate; it falls to zero along a cosine.
        warm_up: steps over which it rises from zero.
        weight_decay: decoupled, on matrices.
        clip_norm: the longest gradient; longer ones are scaled down.
        hints: weight of the grids of the teacher's layers beside its features.
        held_out: one picture in so many is for validation.
        momentum: of the student's batch statistics. MNASNet's own needs far more steps.
        bfloat16: mixed precision.
        seed: random seed.
    """

    student: str = "torchvision/mnasnet1_0"
    side: int = 128
    teacher_side: int = 224
    augmentation: AugmentationConfig = field(default_factory=AugmentationConfig)
    epochs: int = 60
    batch_size: int = 128
    learning_rate: float = 2e-3
    warm_up: int = 200
    weight_decay: float = 0.05
    clip_norm: float = 5.0
    hints: float = 1.0
    held_out: int = 24
    momentum: float = 0.02
    bfloat16: bool = True
    seed: int = 0

    def __post_init__(self) -> None:
        """Refuse impossible options (ValueError)."""
        if min(self.side, self.teacher_side) < 32 or self.epochs < 1 or self.batch_size < 2:
            raise ValueError("sides are at least 32, epochs at least 1, batch_size at least 2")
        if not 0 < self.learning_rate <= LARGEST_FACTOR:
            raise ValueError(f"learning_rate is above 0 and at most {LARGEST_FACTOR:g}")
        if max(self.side, self.teacher_side) > MAX_SIDE:
            raise ValueError(f"side and teacher_side are at most {MAX_SIDE:,}")
        if not 0 <= self.seed < 2**63:
            raise ValueError("seed is a whole number from 0 to 2^63 - 1")

    def require_enough(self, pictures: int) -> None:
        """Refuse too few pictures to fill a batch (TrainingError)."""
        # The fewest whose taught ones, all but one in `held_out`, fill a batch.
        enough = self.held_out * (self.batch_size - 1) // (self.held_out - 1) + 1
        enough = max(self.held_out, enough)
        if pictures < enough:
            raise TrainingError(
                f"a batch of {self.batch_size:,} needs {enough:,} pictures or more, and there are "
                f"fewer ({pictures:,}): give it more pictures, or a smaller batch"
            )


def identity(
    config: DistillationConfig,
    images: Sequence[Image],
    teacher: Backbone,
    projection: Tensor | None,
    start: Mapping[str, Tensor] | None,
) -> dict[str, Any]:
    """Return what distinguishes a distillation before its pictures are read; see `Distillation`."""
    names = json.dumps([(image.id, image.file_name) for image in images])
    made_of_features = [] if projection is None else [fingerprint(projection.numpy())]
    return {
        "config": asdict(config),
        "start": _initial(config, start).fingerprint(),
        "teacher": [teacher.fingerprint(), *made_of_features],
        "images": hashlib.sha256(names.encode()).hexdigest()[:12],
    }


def _initial(config: DistillationConfig, start: Mapping[str, Tensor] | None) -> Backbone:
    torch.manual_seed(config.seed)
    network = build_backbone(config.student)
    if start is not None:
        network.keep_grid().network.load_state_dict(start)
    return network


def _optimizer(student: Student, weight_decay: float) -> torch.optim.AdamW:
    """Return the optimiser of a student, which decays its matrices alone."""
    matrices = [weight for weight in student.parameters() if weight.ndim > 1]
    vectors = [weight for weight in student.parameters() if weight.ndim <= 1]
    return torch.optim.AdamW(
        [
            {"params": matrices, "weight_decay": weight_decay},
            {"params": vectors, "weight_decay": 0.0},
        ],
        fused=True,
    )


def _fastest_convolutions(device: str) -> AbstractContextManager[object]:
    """Let cuDNN measure which convolutions are fastest: 4 x faster than its defaults.

    (MNASNet with bfloat16 on an H100.)
    """
    if torch.device(device).type != "cuda":
        return nullcontext()
    flags: AbstractContextManager[object] = torch.backends.cudnn.flags(enabled=True, benchmark=True)
    return flags


class Distillation(ResumableRun[Rows, float]):
    """The training of a student.

    The loss is the share of the variance of the teacher's features of crops that the student does
    not explain. The measurement is the share that it explains on whole held-out pictures.
    """

    model: Student

    def __init__(
        self,
        config: DistillationConfig,
        pixels: Pixels,
        teacher: Backbone,
        folder: Path,
        *,
        images: Sequence[Image] = (),
        projection: Tensor | None = None,
        start: Mapping[str, Tensor] | None = None,
        device: str = "cpu",
    ) -> None:
        """Prepare a distillation, or to go on with the one in `folder`.

        Args:
            config: the options.
            pixels: (n, S, S, 3), the pictures.
            teacher: a network that ends in the average of a grid.
            folder: for the student and its state.
            images: the pictures' entries in a dataset, whether they could be read or not.
            projection: (N, F), a model's map of the teacher's features. Then only the differences
                between captions count.
            start: the student's first weights; random ones without it.
            device: of both networks.
        """
        dtype = torch.bfloat16 if config.bfloat16 else torch.float32
        same = identity(config, images, teacher, projection, start)
        self.config, self.device = config, device
        self.teacher = Teacher(teacher, projection, config.teacher_side, dtype, device)
        config.require_enough(len(pixels))
        every = np.arange(len(pixels))
        measures = every % config.held_out == config.held_out - 1
        self.taught, self.held_out = every[~measures], every[measures]
        self.pixels = _resident(pixels, device)
        student = Student(
            _initial(config, start),
            self.teacher.channels,
            self.teacher.axes,
            config.side,
            config.momentum,
        )
        student.to(device).to(memory_format=torch.channels_last)
        # It starts from the mean of all pictures, and learns their differences.
        first = normalise_pixels(self.chosen(self.taught[: config.batch_size]))
        seen, _ = self.teacher.look(_smaller(first, self.teacher.side))
        student.head.bias.data.copy_(seen.mean((0, 2, 3)))  # type: ignore[union-attr]
        self.model = student
        super().__init__(
            folder,
            {**same, "pictures": [len(pixels), fingerprint(pixels)]},
            student,
            _optimizer(student, config.weight_decay),
            epochs=config.epochs,
            steps=len(self.taught) // config.batch_size,
        )

    def train(
        self, report: Callable[[DistillationProgress], None] | None = None, stop: Stop | None = None
    ) -> Path:
        """Train to the end and return the file of the student's weights; see `Run.run`.

        They are those of torchvision's network without its classifier, rounded to what a byte each
        can hold, so that a checkpoint of any type keeps them as they are.
        """
        with _fastest_convolutions(self.device):
            self.run(report, stop)
        state = {key: value.cpu() for key, value in self.model.layers.state_dict().items()}
        path = self.folder / STUDENT
        write_weights(path, dequantize(quantize(arrays(state), "int8")))
        return path

    def batches(self, epoch: int, first: int) -> Iterator[Rows]:
        """Yield the pictures of each step of an epoch."""
        size = self.config.batch_size
        order = np.random.default_rng([self.config.seed, epoch]).permutation(self.taught)
        self.model.train()
        for step in range(first, self.steps):
            yield order[step * size : (step + 1) * size]

    def step(self, epoch: int, step: int, batch: Rows) -> Tensor:
        """Learn from a batch; return the share of whole crops' variance that is unexplained."""
        loss, unexplained = self.losses(epoch, step, batch)
        self.optimizer.zero_grad(set_to_none=True)
        loss.backward()  # type: ignore[no-untyped-call]
        torch.nn.utils.clip_grad_norm_(self.model.parameters(), self.config.clip_norm)
        self.optimizer.step()
        return unexplained.detach()

    def losses(self, epoch: int, step: int, batch: Rows) -> tuple[Tensor, Tensor]:
        """Return the loss of a step, and its part for whole crops."""
        config = self.config
        draw = np.random.default_rng([config.seed, epoch, step])
        seed_layers(config.seed, epoch, step)
        done, steps = epoch * self.steps + step, self.epochs * self.steps
        rate = learning_rate(config.learning_rate, "cosine", done, steps, config.warm_up)
        set_learning_rate(self.optimizer, rate)
        pixels = augment(self.chosen(batch), config.augmentation, self.teacher.side, draw)
        wanted, held = self.teacher.look(pixels)
        with self._mixed_precision():
            predicted, hints = self.model(_smaller(pixels, config.side))
        whole = unexplained(predicted.mean((2, 3)), wanted.mean((2, 3)))
        # The whole crop counts as much as all of its places.
        loss = whole + unexplained(predicted, adaptive_avg_pool2d(wanted, predicted.shape[2:]))
        off = [
            unexplained(hint, adaptive_avg_pool2d(grid, hint.shape[2:]))
            for hint, grid in zip(hints, held[-len(hints) :], strict=True)
        ]
        return loss + config.hints * torch.stack(off).mean(), whole

    def measure(self, loss: float) -> float:
        """Return the share of the variance that the student explains on held-out pictures."""
        self.model.eval()
        predicted = []
        for whole in self._whole():
            with torch.inference_mode(), self._mixed_precision():
                predicted.append(self.model(_smaller(whole, self.config.side))[0].mean((2, 3)))
        held_out = 1 - float(unexplained(torch.cat(predicted), self.wanted))
        # Rounded to bytes, weights that are not numbers become some.
        if not math.isfinite(held_out):
            raise TrainingError(
                f"after epoch {self.notes['epoch'] + 1} the student's features are not numbers: "
                f"{self.remedy}"
            )
        self.record({"explained": 1 - loss, "held_out": held_out})
        return held_out

    def quality(self, measurement: float) -> float:
        """Compare epochs by the measurement; the last epoch's weights are used all the same."""
        return measurement

    @cached_property
    def wanted(self) -> Tensor:
        """The teacher's features of the held-out pictures, (H, N)."""
        looked = (self.teacher.look(_smaller(whole, self.teacher.side)) for whole in self._whole())
        return torch.cat([seen.mean((2, 3)) for seen, _ in looked])

    def _whole(self) -> Iterator[Tensor]:
        """Yield the held-out pictures, normalised, a batch at a time."""
        for start in range(0, len(self.held_out), self.config.batch_size):
            chosen = self.held_out[start : start + self.config.batch_size]
            yield normalise_pixels(self.chosen(chosen))

    def chosen(self, rows: Rows) -> Tensor:
        """Return some pictures, on the device: (B,) -> (B, S, S, 3)."""
        if isinstance(self.pixels, Tensor):
            return self.pixels[torch.from_numpy(rows).to(self.device)]
        return torch.from_numpy(self.pixels[rows]).to(self.device)

    def _mixed_precision(self) -> torch.autocast:
        device = torch.device(self.device).type
        return torch.autocast(device, torch.bfloat16, enabled=self.config.bfloat16)


def unexplained(predicted: Tensor, wanted: Tensor) -> Tensor:
    """Return the share of the variance of `wanted` over a batch that `predicted` leaves.

    Both are (B, K) or (B, K, H, W). Each of the K coordinates has a mean of its own.
    """
    others = [0, *range(2, wanted.ndim)]
    wanted = wanted.float()
    spread = (wanted - wanted.mean(others, keepdim=True)).square().mean()
    return (predicted.float() - wanted).square().mean() / spread.clamp(min=1e-12)


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
