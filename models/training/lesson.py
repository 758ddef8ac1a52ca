"""Auxiliary losses: what a training learns beside its images and their captions."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np
from torch import Tensor, nn

from hasse.models.training.batches import Rows

if TYPE_CHECKING:
    from hasse.models.datasets import Dataset
    from hasse.models.model import OrderEmbedding
    from hasse.models.training.config import TrainingConfig
    from hasse.models.training.inputs import ImageInput
    from hasse.models.vocabulary import Vocabulary

PairLoss = Callable[[Tensor, Tensor, Tensor, Tensor], Tensor]


class Measurement(Protocol):
    """The validation of an epoch."""

    @property
    def quality(self) -> float:
        """The number by which epochs are compared; higher is better."""
        ...

    @property
    def summary(self) -> str:
        """What the line of an epoch says."""
        ...

    def to_json(self) -> dict[str, Any]:
        """Return plain values."""
        ...


@dataclass(frozen=True, slots=True)
class BatchRows:
    """The images and captions of a step.

    Attributes:
        images: (B,), rows of the dataset's images.
        inputs: (B,), rows of the same images in the training's `ImageInput`.
        captions: (C,), rows of the dataset's captions.
    """

    images: Rows
    inputs: Rows
    captions: Rows


@dataclass(frozen=True, slots=True)
class EncodedBatch:
    """A step's images and captions after the encoders, on the model's device.

    Attributes:
        tokens, lengths: (C, T) and (C,), the captions; the lengths are on the CPU.
        owners: (C,), the row of the image that each caption was written for.
        true: (B, C) of bool, which captions are true of which images.
        states: the output of each member of the ensemble before it becomes a point, (C, S).
        captions: (C, N), points.
        images: (B, N), points; (B, 0) where the model has no image encoder.
        pair_loss: the training's loss of points of images, points of captions, owners and truth,
            a mean over captions and members of the ensemble.
    """

    tokens: Tensor
    lengths: Tensor
    owners: Tensor
    true: Tensor
    states: tuple[Tensor, ...]
    captions: Tensor
    images: Tensor
    pair_loss: PairLoss


class Lesson(nn.Module):
    """An auxiliary loss, with the weights that it needs beside the model's.

    A lesson is used by one process alone. Its parameters learn with the model and are saved with
    the state of the training, and are no part of the model.

    Attributes:
        options: a dataclass of options that a recipe sets, or None.
    """

    options: Any = None

    def fingerprint(self) -> Any:
        """Return what distinguishes this lesson from others, as JSON."""
        return None if self.options is None else asdict(self.options)

    def vocabulary(self, config: TrainingConfig) -> Vocabulary | None:
        """Return the words that the model is to know, or None for those of the captions."""
        return None

    def prepare(
        self, config: TrainingConfig, dataset: Dataset, images: ImageInput, model: OrderEmbedding
    ) -> None:
        """Prepare to learn beside a model from a dataset and what is read of its images."""

    def begin(self, model: OrderEmbedding) -> None:
        """Change the first weights of a model that does not start from another one."""

    def read(self, rows: BatchRows, draw: np.random.Generator) -> tuple[Tensor, ...]:
        """Read what a step learns from, on the CPU; `loss` gets it on the model's device."""
        return ()

    def loss(self, model: OrderEmbedding, batch: EncodedBatch, *read: Tensor) -> Tensor:
        """Return the term to add to the mean loss of a caption, ()."""
        return batch.captions.new_zeros(())

    def measure(self, model: OrderEmbedding, dataset: Dataset) -> Measurement | None:
        """Measure a model on the validation split, in the place of retrieval; None: do not."""
        return None
