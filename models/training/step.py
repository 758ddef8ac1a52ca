"""One step of a training: points, a loss, its gradient and new weights."""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn.functional import dropout

from hasse.models.encoders.text_encoder import Ensemble
from hasse.models.kernels.cuda_graph import WORDS_MULTIPLE, CudaGraphStep
from hasse.models.model import OrderEmbedding
from hasse.models.score import penalties
from hasse.models.training.batches import TextInputs
from hasse.models.training.config import TrainingConfig
from hasse.models.training.distributed import World
from hasse.models.training.inputs import ImageInput
from hasse.models.training.loss import contrastive_loss, hardest_loss, ranking_loss
from hasse.studies.grounding.decoder import CaptionDecoder
from hasse.studies.photographs.lesson import TextLesson


class TrainingStep:
    """A model and its optimiser, in one process of a training.

    Attributes:
        on_gpu: whether it learns on a GPU, which works on a step while the processor goes on.
        optimizer: holds the moments of the weights that learn.
        words_multiple: captions are to be padded to a multiple of so many words.
    """

    def __init__(
        self,
        config: TrainingConfig,
        model: OrderEmbedding,
        images: ImageInput,
        world: World,
        lesson: TextLesson | None = None,
        decoder: CaptionDecoder | None = None,
    ) -> None:
        """Take a model where the world has it; all weights learn that require a gradient."""
        self._config, self._model, self._images, self._world = config, model, images, world
        self._lesson, self._decoder = lesson, decoder
        self._matmul_dtype = torch.bfloat16 if config.precision == "bfloat16" else torch.float32
        self._weights = [w for w in model.parameters() if w.requires_grad]
        if lesson is not None:
            self._weights += lesson.teacher.parameters()
        if decoder is not None:
            self._weights += decoder.parameters()
        self.on_gpu = torch.device(world.device).type == "cuda"
        self.optimizer = self._optimizer()
        self._cuda_graph = (
            CudaGraphStep(self._learn, world.device)
            if self.on_gpu
            and world.size == 1
            and not images.learns_backbone
            and lesson is None
            and decoder is None
            and not config.dropout
            and config.optimizer == "adam"
            else None
        )
        self.words_multiple = 1 if self._cuda_graph is None else WORDS_MULTIPLE

    def _optimizer(self) -> torch.optim.Optimizer:
        config = self._config
        if config.optimizer == "sgd":
            return torch.optim.SGD(
                self._weights, config.learning_rate, weight_decay=config.weight_decay
            )
        # On a GPU nothing of a step may wait for the processor, nor be a number that it knows.
        rate = config.learning_rate
        return torch.optim.AdamW(
            self._weights,
            torch.tensor(rate, device=self._world.device) if self.on_gpu else rate,
            weight_decay=config.weight_decay,
            fused=True,
            capturable=self.on_gpu,
        )

    def begin(self) -> None:
        """Put the model into the mode and the precision that it learns in."""
        self._model.train()
        self._model.set_matmul_dtype(self._matmul_dtype)

    def __call__(
        self, inputs: tuple[Tensor, ...], rate: float, texts: TextInputs | None = None
    ) -> Tensor:
        """Take a step and return the loss before it, (), which a GPU may still be at work on.

        Args:
            inputs: what `_learn` takes, on the CPU.
            rate: the learning rate.
            texts: what there is to learn from them, on the CPU.
        """
        for group in self.optimizer.param_groups:
            if isinstance(group["lr"], Tensor):
                group["lr"].fill_(rate)
            else:
                group["lr"] = rate
        if self._cuda_graph is not None:
            return self._cuda_graph(*inputs)
        return self._learn(*map(self._placed, inputs), texts=texts)

    def _placed(self, value: Tensor) -> Tensor:
        return value.to(self._world.device, non_blocking=True)

    def _learn(
        self,
        images: Tensor,
        tokens: Tensor,
        lengths: Tensor,
        owners: Tensor,
        true: Tensor,
        *entailed: Tensor,
        texts: TextInputs | None = None,
    ) -> Tensor:
        """Take one step and return the loss before it, ().

        Args:
            images: what was read of them, (B, ...).
            tokens, lengths: of captions, (C, T) and (C,).
            owners: (C,), the row of the image that each caption was written for.
            true: (B, C) of bool, which captions hold of which images.
            entailed: (C, C) of bool where it is known, which caption follows from which.
            texts: what else is learned from.
        """
        points, loss = self._captions(tokens, lengths, owners)
        caption_points = self._world.gather(points, len(owners))
        image_points = points[:0]
        if self._config.model.has_images:
            image_points = self._world.gather(self._images.points(self._model, images), len(true))
            loss = loss + self._loss(image_points, caption_points, owners, true)
        for follows in entailed:  # premises are ranked in the place of images
            each = torch.arange(len(follows), device=follows.device)
            among = self._loss(caption_points, caption_points, each, follows)
            loss = loss + self._config.entailment * among
        if self._lesson is not None and texts is not None:
            placed = TextInputs(
                self._placed(texts.captions),
                *(tuple(map(self._placed, part)) for part in texts[1:]),
            )
            more = self._lesson.loss(
                self._model, self._mean_loss, image_points, caption_points, owners, true, placed
            )
            loss = loss + self._config.model.ensemble * len(owners) * more
        self.optimizer.zero_grad(set_to_none=True)
        # Adam's steps do not depend on the scale of the loss.
        scaled = loss / len(owners) if self._config.optimizer == "sgd" else loss
        scaled.backward()  # type: ignore[no-untyped-call]
        self._world.sum_gradients(self._weights)
        self._clip()
        self.optimizer.step()
        return loss.detach()

    def _captions(self, tokens: Tensor, lengths: Tensor, owners: Tensor) -> tuple[Tensor, Tensor]:
        """Return the points of captions, and the loss of decoding them if something does, ()."""
        encoder = self._model.captions
        if isinstance(encoder, Ensemble):
            points = encoder.points(tokens, lengths)
            return points, points.new_zeros(())
        states = encoder(tokens, lengths)
        if self._config.dropout:
            states = dropout(states, self._config.dropout)
        loss = states.new_zeros(())
        if self._decoder is not None:
            told = self._decoder.loss(encoder, states, tokens, lengths, owners)
            loss = self._config.decoding * told
        return encoder.points_of(states), loss

    def _clip(self) -> None:
        """Scale down gradients that are too long, each weight tensor's by itself."""
        gradients = [weight.grad for weight in self._weights if weight.grad is not None]
        norms = torch.stack(torch._foreach_norm(gradients))
        shares = (self._config.clip_norm / (norms + 1e-6)).clamp(max=1)
        torch._foreach_mul_(gradients, shares.unbind())

    def _mean_loss(self, images: Tensor, captions: Tensor, owners: Tensor, true: Tensor) -> Tensor:
        """Return the mean over captions and members of the ensemble."""
        total = self._loss(images, captions, owners, true)
        return total / (max(1, len(captions)) * self._config.model.ensemble)

    def _loss(self, images: Tensor, captions: Tensor, owners: Tensor, true: Tensor) -> Tensor:
        """Sum the losses of the ensemble's members; each learns by itself."""
        config, total = self._config, images.new_zeros(())
        split = self._model.split_ensemble
        for image_points, caption_points in zip(split(images), split(captions), strict=True):
            penalty = penalties(config.model.score, image_points, caption_points)
            if config.loss == "contrastive":
                total = total + contrastive_loss(penalty, owners, true, config.inverse_temperature)
            elif config.loss == "hardest":
                total = total + hardest_loss(penalty, owners, true, config.margin)
            else:
                total = total + ranking_loss(penalty, owners, true, config.margin)
        return total
