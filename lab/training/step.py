"""One step of a training: points, a loss, its gradient and new weights."""

from __future__ import annotations

import math
from collections.abc import Sequence

import torch
from torch import Tensor

from hasse.lab.encoders.order_embedding import OrderEmbedding
from hasse.lab.kernels.violations import penalties
from hasse.lab.training.config import TrainingConfig
from hasse.lab.training.distributed import World
from hasse.lab.training.inputs import ImageInput
from hasse.lab.training.lesson import EncodedBatch, Lesson
from hasse.lab.training.loss import contrastive_loss, ranking_loss
from hasse.lab.training.run import set_learning_rate


class TrainingStep:
    """A model and its optimiser, in one process of a training.

    Attributes:
        on_gpu: whether it learns on a GPU, which computes while the processor goes on.
        optimizer: holds the moments of the weights that learn.
    """

    def __init__(
        self,
        config: TrainingConfig,
        model: OrderEmbedding,
        images: ImageInput,
        world: World,
        lessons: Sequence[Lesson] = (),
    ) -> None:
        """Take a model on the world's device. All weights that require a gradient learn."""
        self._config, self._model, self._images, self._world = config, model, images, world
        self._lessons = lessons
        self._matmul_dtype = torch.bfloat16 if config.precision == "bfloat16" else torch.float32
        self._weights = [w for w in model.parameters() if w.requires_grad]
        self._weights += [weight for lesson in lessons for weight in lesson.parameters()]
        self.on_gpu = torch.device(world.device).type == "cuda"
        self.optimizer = self._optimizer()

    def _optimizer(self) -> torch.optim.Optimizer:
        config = self._config
        if config.optimizer == "sgd":
            return torch.optim.SGD(
                self._weights, config.learning_rate, weight_decay=config.weight_decay
            )
        return torch.optim.AdamW(
            self._weights, config.learning_rate, weight_decay=config.weight_decay, fused=True
        )

    def begin(self) -> None:
        """Put the model into the mode and the precision that it learns in."""
        self._model.train()
        self._model.set_matmul_dtype(self._matmul_dtype)

    def __call__(
        self,
        inputs: tuple[Tensor, ...],
        rate: float,
        lessons: Sequence[tuple[Tensor, ...]] = (),
    ) -> Tensor:
        """Take a step and return the loss before it, (), which a GPU may still be computing.

        Args:
            inputs: the arguments of `_learn`, on the CPU.
            rate: the learning rate.
            lessons: the tensors of each lesson (`Lesson.read`), on the CPU.
        """
        set_learning_rate(self.optimizer, rate)
        images, tokens, lengths, *pairs = inputs
        images, tokens, *pairs = map(self._on_device, (images, tokens, *pairs))
        lesson_inputs = [tuple(map(self._on_device, tensors)) for tensors in lessons]
        return self._learn(images, tokens, lengths, *pairs, lessons=lesson_inputs)

    def _on_device(self, value: Tensor) -> Tensor:
        return value.to(self._world.device, non_blocking=True)

    def _learn(
        self,
        images: Tensor,
        tokens: Tensor,
        lengths: Tensor,
        owners: Tensor,
        true: Tensor,
        *entailed: Tensor,
        lessons: Sequence[tuple[Tensor, ...]] = (),
    ) -> Tensor:
        """Take one step and return the loss before it, ().

        Args:
            images: (B, ...), as `ImageInput.read` returns them.
            tokens, lengths: the captions, (C, T) and (C,), the lengths on the CPU.
            owners: (C,), the row of the image that each caption was written for.
            true: (B, C) of bool, which captions are true of which images.
            entailed: none, or (C, C) of bool: which caption follows from which.
            lessons: the tensors of each lesson.
        """
        states, points = self._captions(tokens, lengths)
        caption_points = self._world.gather(points, len(owners))
        image_points = self._world.gather(self._images.points(self._model, images), len(true))
        loss = points.new_zeros(())
        if image_points.shape[1]:
            loss = self._loss(image_points, caption_points, owners, true)
        for follows in entailed:  # premises are ranked in the place of images
            diagonal = torch.arange(len(follows), device=follows.device)
            between = self._loss(caption_points, caption_points, diagonal, follows)
            loss = loss + self._config.entailment * between
        if lessons:
            batch = EncodedBatch(
                tokens, lengths, owners, true, states, caption_points, image_points, self._mean_loss
            )
            inputs_of = zip(self._lessons, lessons, strict=True)
            added = sum(
                lesson.loss(self._model, batch, *lesson_inputs)
                for lesson, lesson_inputs in inputs_of
            )
            loss = loss + self._config.model.ensemble * len(owners) * added
        self.optimizer.zero_grad(set_to_none=True)
        # Adam's steps do not depend on the scale of the loss.
        scaled = loss / len(owners) if self._config.optimizer == "sgd" else loss
        scaled.backward()  # type: ignore[no-untyped-call]
        self._world.sum_gradients(self._weights)
        self._clip()
        self.optimizer.step()
        return loss.detach()

    def _captions(self, tokens: Tensor, lengths: Tensor) -> tuple[tuple[Tensor, ...], Tensor]:
        """Return the states of each member of the ensemble, (C, S), and the points, (C, N)."""
        members = self._model.captions.encoders
        states = tuple(member(tokens, lengths) for member in members)
        parts = [member.points_of(state) for member, state in zip(members, states, strict=True)]
        return states, torch.cat(parts, -1) / math.sqrt(len(parts))

    def _clip(self) -> None:
        """Scale down gradients that are too long, for each weight tensor separately."""
        gradients = [weight.grad for weight in self._weights if weight.grad is not None]
        norms = torch.stack(torch._foreach_norm(gradients))
        factors = (self._config.clip_norm / (norms + 1e-6)).clamp(max=1)
        torch._foreach_mul_(gradients, factors.unbind())

    def _mean_loss(self, images: Tensor, captions: Tensor, owners: Tensor, true: Tensor) -> Tensor:
        """Return the mean over captions and members of the ensemble."""
        total = self._loss(images, captions, owners, true)
        return total / (max(1, len(captions)) * self._config.model.ensemble)

    def _loss(self, images: Tensor, captions: Tensor, owners: Tensor, true: Tensor) -> Tensor:
        """Sum the losses of the ensemble's members, which learn independently."""
        config, total = self._config, images.new_zeros(())
        split = self._model.split_ensemble
        for image_points, caption_points in zip(split(images), split(captions), strict=True):
            penalty = penalties(config.model.score, image_points, caption_points)
            if config.loss == "contrastive":
                total = total + contrastive_loss(penalty, owners, true, config.inverse_temperature)
            else:
                total = total + ranking_loss(penalty, owners, true, config.margin)
        return total
