from __future__ import annotations

import math
from dataclasses import replace
from pathlib import Path
from typing import Literal

import numpy as np
import pytest
import torch
from torch import Tensor

from hasse.lab.encoders.text_encoder import Ensemble
from hasse.lab.kernels.violations import penalties
from hasse.lab.training.config import Schedule
from hasse.lab.training.distributed import World
from hasse.lab.training.inputs import FeatureInput
from hasse.lab.training.loss import contrastive_loss, ranking_loss
from hasse.models.score import SCORES, Score
from hasse.models.vocabulary import END, PADDING, UNKNOWN
from tests.lab.training.colours import (
    CONFIG,
    a_training,
    collection,
    features,
    first_step,
    run,
    scenes,
    weights,
)


@pytest.mark.parametrize("score", SCORES)
@pytest.mark.parametrize("kind", ["ranking", "contrastive"])
def test_step_returns_the_chosen_loss_averaged_over_captions_and_members(
    tmp_path: Path, kind: Literal["ranking", "contrastive"], score: Score
) -> None:
    config = replace(
        CONFIG,
        model=replace(CONFIG.model, score=score, ensemble=2),
        batch_size=8,
        captions_per_image=2,
        loss=kind,
        margin=0.3,
        inverse_temperature=7.0,
        entailment=0.5,
    )
    training = a_training(config, tmp_path, (scenes(8), features(scenes(8))))
    (batch,) = training.batches(0, 0)
    images, tokens, lengths, owners, true, follows = batch.inputs
    model = training.model

    def loss(of: Tensor, captions: Tensor, owners: Tensor, true: Tensor) -> Tensor:
        penalty = penalties(score, of, captions)
        if kind == "ranking":
            return ranking_loss(penalty, owners, true, 0.3)
        return contrastive_loss(penalty, owners, true, 7.0)

    total = 0.0
    with torch.no_grad():
        every = model.feature_points(images), model.caption_points(tokens, lengths)
        for seen, said in zip(*map(model.split_ensemble, every), strict=True):
            total += float(loss(seen, said, owners, true))
            total += 0.5 * float(loss(said, said, torch.arange(len(said)), follows))
    told = float(training.step(0, 0, batch))
    assert told == pytest.approx(total / (16 * 2), rel=1e-4)


@pytest.mark.parametrize("schedule", ["constant", "cosine"])
def test_learning_rate_rises_over_the_first_steps_and_falls_over_all_epochs(
    tmp_path: Path, schedule: Schedule
) -> None:
    training = a_training(replace(CONFIG, epochs=2, schedule=schedule, warm_up=4), tmp_path)
    rates: list[float] = []
    for epoch in range(2):
        for step, batch in enumerate(training.batches(epoch, 0)):
            training.step(epoch, step, batch)
            rates.append(training.optimizer.param_groups[0]["lr"])
    falls = [(1 + math.cos(math.pi * at / 6)) / 2 if schedule == "cosine" else 1 for at in range(6)]
    rises = [0.25, 0.5, 0.75, 1, 1, 1]
    expected = [0.01 * fall * rise for fall, rise in zip(falls, rises, strict=True)]
    assert rates == pytest.approx(expected)


def test_step_clips_each_gradient_by_itself(tmp_path: Path) -> None:
    def gradients(longest: float) -> list[Tensor]:
        training = a_training(replace(CONFIG, clip_norm=longest), tmp_path)
        first_step(training)
        return [weight.grad for weight in training.model.parameters() if weight.grad is not None]

    free = gradients(1e9)
    lengths = [float(gradient.norm()) for gradient in free]
    middle = float(np.median(lengths))
    assert min(lengths) < middle < max(lengths) < 1e3
    for short, whole, length in zip(gradients(middle), free, lengths, strict=True):
        torch.testing.assert_close(short, whole * min(1.0, middle / length))


def test_step_decays_weights_apart_from_their_gradients(tmp_path: Path) -> None:
    def after_a_step(decay: float) -> tuple[Tensor, Tensor]:
        training = a_training(replace(CONFIG, weight_decay=decay), tmp_path)
        weight = training.model.images.projection.weight
        before = weight.detach().clone()
        first_step(training)
        return before, weight.detach()

    (before, plain), (_, decayed) = after_a_step(0.0), after_a_step(10.0)
    torch.testing.assert_close(plain - decayed, 0.01 * 10 * before, rtol=1e-3, atol=1e-6)


def test_batches_follow_the_configuration(tmp_path: Path) -> None:
    config = replace(
        CONFIG,
        model=replace(CONFIG.model, max_words=3),
        captions_per_image=2,
        unknown_rate=1.0,
        min_word_count=7,
    )
    training = a_training(config, tmp_path)
    batch = next(training.batches(0, 0))
    _, tokens, lengths, *_ = batch.inputs
    assert batch.captions == len(tokens) == 8
    assert lengths.max() == 4, "and the end"
    assert set(tokens.flatten().tolist()) <= {UNKNOWN, END, PADDING}
    assert "green" not in training.model.vocabulary.words
    assert "picture" in training.model.vocabulary.words


def test_seed_decides_the_first_weights_and_the_order_of_batches(tmp_path: Path) -> None:
    first, second = (a_training(replace(CONFIG, seed=seed), tmp_path) for seed in (0, 1))
    weights = [one.model.images.projection.weight for one in (first, second)]
    assert not weights[0].equal(weights[1])
    orders = [[rows.tolist() for _, rows, *_ in one.plan.of_epoch(0, 0)] for one in (first, second)]
    assert orders[0] != orders[1]


def test_precision_changes_the_weights_that_are_learned(tmp_path: Path) -> None:
    precisions: tuple[Literal["float32", "bfloat16"], ...] = ("float32", "bfloat16")
    for precision in precisions:
        run(tmp_path / precision, replace(CONFIG, epochs=1, precision=precision))
    assert weights(tmp_path / "float32") != weights(tmp_path / "bfloat16")


def test_processes_read_different_parts_of_a_batch_and_vary_them_differently(
    tmp_path: Path,
) -> None:
    ids = np.array([image.id for image in collection().images])
    views = np.empty((10, 50, 1024), dtype=np.float32)
    views[:] = np.arange(10)[:, None, None] * 50 + np.arange(50)[:, None]  # which one it is
    data = (collection(), FeatureInput(ids, views[:, 0], views))
    config = replace(CONFIG, batch_size=10)
    read = [
        next(a_training(config, tmp_path, data, World(rank=rank, size=2)).batches(0, 0)).inputs
        for rank in range(2)
    ]
    seen = [inputs[0][:, 0].int() for inputs in read]
    assert sorted(torch.cat(seen).div(50, rounding_mode="floor").tolist()) == list(range(10))
    assert (seen[0] % 50).tolist() != (seen[1] % 50).tolist()


def test_each_member_of_an_ensemble_learns_as_it_would_alone(tmp_path: Path) -> None:
    two = replace(CONFIG, model=replace(CONFIG.model, ensemble=2), epochs=1)
    alone = replace(CONFIG, model=replace(CONFIG.model, dimension=6), epochs=1)
    together, first = a_training(two, tmp_path), a_training(alone, tmp_path)
    assert isinstance(together.model.captions, Ensemble)
    first.model.captions.load_state_dict(together.model.captions.encoders[0].state_dict())
    for theirs, mine in zip(
        together.model.images.projection.parameters(),
        first.model.images.projection.parameters(),
        strict=True,
    ):
        mine.data.copy_(theirs.data[:6])
    for one in (together, first):
        first_step(one)
    # Adam's first step is of the size of the learning rate, 0.01, wherever there is a gradient.
    torch.testing.assert_close(
        together.model.images.projection.weight[:6],
        first.model.images.projection.weight,
        atol=1e-3,
        rtol=0,
    )
    for theirs, mine in zip(
        together.model.captions.encoders[0].parameters(),
        first.model.captions.parameters(),
        strict=True,
    ):
        torch.testing.assert_close(theirs, mine, atol=1e-3, rtol=0)


@pytest.mark.parametrize(("count", "batches"), [(8, 2), (9, 2), (10, 3)])
def test_epoch_reads_every_image_once_and_none_alone(
    tmp_path: Path, count: int, batches: int
) -> None:
    seen: list[list[int]] = []
    images = features(collection(count))

    class Watched(FeatureInput):
        def read(self, rows, augment=None):  # type: ignore[no-untyped-def]
            if augment is not None:
                seen.append(rows.tolist())
            return super().read(rows, augment)

    watched = Watched(images.image_ids, images.features)
    run(tmp_path, replace(CONFIG, epochs=1), (collection(count), watched))
    assert sorted(row for batch in seen for row in batch) == list(range(count))
    assert len(seen) == batches
    assert all(len(batch) > 1 for batch in seen)
