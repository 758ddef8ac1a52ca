"""A lesson learns beside the model, and a training with one can be stopped and resumed."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from hasse.lab.checkpoints.learned_model import order_embedding_of
from hasse.lab.encoders.order_embedding import OrderEmbedding
from hasse.lab.training.config import TrainingConfig
from hasse.lab.training.distributed import World
from hasse.lab.training.inputs import ImageInput, TrainingInputs
from hasse.lab.training.lesson import BatchRows, EncodedBatch, Lesson
from hasse.lab.training.recipe import FILE_NAME, Recipe
from hasse.lab.training.run import TrainingError, TrainingStopped
from hasse.lab.training.trainer import RetrievalTraining
from hasse.models.datasets import Dataset
from hasse.models.vocabulary import Vocabulary
from tests.lab.training.colours import CONFIG, collection, features, stop_after, weights


@dataclass(frozen=True, slots=True)
class LengthOptions:
    """How much the lesson counts."""

    lengths: float = 1.0


class LengthLesson(Lesson):
    """Predicts the number of words of a caption from its point."""

    def __init__(self, options: LengthOptions) -> None:
        super().__init__()
        self.options = options
        self.losses: list[float] = []

    def vocabulary(self, config: TrainingConfig) -> Vocabulary:
        return Vocabulary(("red", "a", "unseen"))

    def prepare(
        self, config: TrainingConfig, dataset: Dataset, images: ImageInput, model: OrderEmbedding
    ) -> None:
        torch.manual_seed(config.seed)
        self.head = nn.Linear(config.model.dimension, 1)
        self.counts = np.array([len(one.text.split()) for one in dataset.captions], np.float32)

    def begin(self, model: OrderEmbedding) -> None:
        with torch.no_grad():
            model.captions.encoders[0].embedding.weight[3:] = 0.25

    def read(self, rows: BatchRows, draw: np.random.Generator) -> tuple[Tensor, ...]:
        return (torch.from_numpy(self.counts[rows.captions]),)

    def loss(self, model: OrderEmbedding, batch: EncodedBatch, *read: Tensor) -> Tensor:
        (counts,) = read
        assert len(batch.states) == model.config.ensemble
        found = (self.head(batch.captions)[:, 0] - counts).square().mean()
        self.losses.append(float(found.detach()))
        weighted: Tensor = self.options.lengths * found
        return weighted


def training(folder: Path, weight: float = 1.0, **more: Any) -> RetrievalTraining:
    data = (collection(), features(collection()))
    lesson = LengthLesson(LengthOptions(weight))
    return RetrievalTraining(CONFIG, folder, TrainingInputs(data, data), [lesson], **more)


def test_lesson_learns_beside_the_model_and_is_no_part_of_it(tmp_path: Path) -> None:
    run = training(tmp_path)
    assert run.model.captions.encoders[0].embedding.weight[3:].eq(0.25).all()
    trained = run.train()
    (lesson,) = run.lessons
    assert isinstance(lesson, LengthLesson)
    assert lesson.losses[-1] < lesson.losses[0]
    assert order_embedding_of(trained).vocabulary.words == ("red", "a", "unseen")
    assert not any("head" in key for key in order_embedding_of(trained).state_dict())


def test_lesson_changes_what_the_model_learns_by_its_weight(tmp_path: Path) -> None:
    for weight in (0.0, 1.0):
        training(tmp_path / f"{weight}", weight).train()
    assert weights(tmp_path / "0.0") != weights(tmp_path / "1.0")


def test_recipe_beside_the_model_has_the_options_of_its_lesson(tmp_path: Path) -> None:
    training(tmp_path, 0.5).train()
    found = Recipe.read(tmp_path / FILE_NAME, (LengthOptions(),))
    assert found == Recipe(CONFIG, (LengthOptions(0.5),))


def test_resumed_training_with_a_lesson_ends_with_the_same_weights(tmp_path: Path) -> None:
    training(tmp_path / "straight").train()
    with pytest.raises(TrainingStopped):
        training(tmp_path / "stopped").train(stop=stop_after(5))
    with pytest.raises(TrainingError, match=r"another lessons \("):
        training(tmp_path / "stopped", 0.5).train()
    training(tmp_path / "stopped").train()
    assert weights(tmp_path / "straight") == weights(tmp_path / "stopped")


def test_lesson_is_refused_in_several_processes(tmp_path: Path) -> None:
    with pytest.raises(TrainingError, match="leave torchrun out"):
        training(tmp_path, world=World(size=2))
