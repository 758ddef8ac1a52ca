"""Auxiliary losses: what a training learns beside its images and their captions."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np
from torch import Tensor, nn

from hasse.lab.training.batches import Rows

if TYPE_CHECKING:
    from hasse.lab.encoders.order_embedding import OrderEmbedding
    from hasse.lab.training.config import TrainingConfig
    from hasse.lab.training.inputs import ImageInput
    from hasse.models.datasets import Dataset
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
        """The text for the progress line of an epoch."""
        ...

    def to_json(self) -> dict[str, Any]:
        """Return the measurement as JSON."""
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
        states: (C, S), for each member of the ensemble, its output before it becomes a point.
        captions: (C, N), points.
        images: (B, N), points; (B, 0) where the model has no image encoder.
        pair_loss: the training's loss as a function of image points, caption points, owners and
            truth: the mean over captions and members of the ensemble.
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

    A training with lessons runs in one process. A lesson's parameters learn with the model. They
    are saved in the state of the training, not in the model.

    Attributes:
        options: a dataclass of options that a recipe sets, or None.
    """

    options: Any = None

    def fingerprint(self) -> Any:
        """Return the identity of this lesson, as JSON: its options."""
        return None if self.options is None else asdict(self.options)

    def vocabulary(self, config: TrainingConfig) -> Vocabulary | None:
        """Return the model's vocabulary, or None for the words of the captions."""
        return None

    def prepare(
        self, config: TrainingConfig, dataset: Dataset, images: ImageInput, model: OrderEmbedding
    ) -> None:
        """Prepare to teach a model beside a dataset and its images."""

    def begin(self, model: OrderEmbedding) -> None:
        """Change the first weights of a model that does not start from another one."""

    def read(self, rows: BatchRows, draw: np.random.Generator) -> tuple[Tensor, ...]:
        """Read the tensors of a step, on the CPU; `loss` gets them on the model's device."""
        return ()

    def loss(self, model: OrderEmbedding, batch: EncodedBatch, *read: Tensor) -> Tensor:
        """Return the term to add to the mean loss of a caption, ()."""
        return batch.captions.new_zeros(())

    def measure(self, model: OrderEmbedding, dataset: Dataset) -> Measurement | None:
        """Return a measurement that replaces retrieval in validation, or None."""
        return None
