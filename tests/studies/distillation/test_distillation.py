"""A student learns what a teacher sees in crops of pictures, and a kill changes nothing."""

from __future__ import annotations

import copy
import math
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from numpy.typing import NDArray
from torch import nn

from hasse.lab.encoders.backbone import Backbone
from hasse.lab.encoders.registry import build_backbone
from hasse.lab.pixels import normalise_pixels
from hasse.lab.tensors import arrays, tensors
from hasse.lab.training.config import LARGEST_FACTOR
from hasse.lab.training.run import TrainingError, TrainingStopped
from hasse.lab.training.state import read_notes
from hasse.models.checkpoints.weights import dequantize, quantize
from hasse.models.images.preprocessing import MAX_SIDE
from hasse.studies.distillation.augmentation import AugmentationConfig
from hasse.studies.distillation.distillation import (
    Distillation,
    DistillationConfig,
    DistillationProgress,
    unexplained,
)
from hasse.studies.distillation.student import HINTS, Student, Teacher
from tests.studies.distillation.teaching import Pixels, build_like, main_axes, two_colours

pytestmark = pytest.mark.slow

LEARNS = DistillationConfig(
    student="torchvision/mobilenet_v2",
    side=48,
    teacher_side=64,
    epochs=2,
    batch_size=8,
    warm_up=2,
    bfloat16=False,
)


class After:
    """Says stop when it has been asked so often."""

    def __init__(self, times: int) -> None:
        self.left = times

    def __call__(self) -> bool:
        self.left -= 1
        return self.left < 0


def test_a_student_can_be_another_network_than_its_teacher(
    teacher: Backbone, pixels: Pixels, tmp_path: Path
) -> None:
    seen = Teacher(build_like(teacher), None, 64, torch.float32, "cpu")
    pupil = Student(build_backbone("torchvision/regnet_y_400mf"), seen.channels, seen.axes, 48)
    _, hints = pupil(torch.rand(2, 3, 48, 48))
    assert [hint.shape[1] for hint in hints] == seen.channels[-HINTS:]
    one = replace(LEARNS, student="torchvision/regnet_y_400mf", epochs=1)
    path = Distillation(one, pixels, build_like(teacher), tmp_path).train()
    assert build_backbone("torchvision/regnet_y_400mf", path).feature_dimension == 440


def test_a_network_whose_blocks_put_channels_last_teaches_by_its_last_grid() -> None:
    swin = build_backbone("torchvision/swin_t").eval()
    with torch.inference_mode():
        expected = copy.deepcopy(swin)(torch.zeros(1, 3, 64, 64))
    seen = Teacher(swin, None, 64, torch.float32, "cpu")
    assert seen.channels == [768]
    (grid,) = seen.layers(torch.zeros(1, 3, 64, 64)).values()
    torch.testing.assert_close(grid.mean((2, 3)), expected, atol=1e-5, rtol=1e-4)


def test_a_student_learns_and_its_weights_are_a_torchvision_network(
    teacher: Backbone, tmp_path: Path
) -> None:
    pixels = two_colours(96)
    told: list[DistillationProgress] = []
    plain = AugmentationConfig(colour=0.0, mixup=0.0)
    long = replace(
        LEARNS,
        epochs=12,
        learning_rate=6e-3,
        warm_up=5,
        augmentation=plain,
        held_out=6,
        momentum=0.1,  # for so few steps
    )
    axes = main_axes(teacher, pixels, 4)
    run = Distillation(long, pixels, build_like(teacher), tmp_path, projection=axes)
    path = run.train(told.append)
    held_out = [now.measurement for now in told if now.measurement is not None]
    assert len(held_out) == 12
    assert held_out[-1] > 0.05 > held_out[0], "pictures it never learned from"
    assert told[-1].loss < 0.9
    assert told[-1].steps_done == 12 * told[-1].steps
    weights = build_backbone("torchvision/mobilenet_v2", path).network.state_dict()
    for dtype in ("float16", "int8"):
        kept = tensors(dequantize(quantize(arrays(weights), dtype)))
        assert all(torch.equal(kept[key], value) for key, value in weights.items())


def test_hints_alone_bring_a_students_layers_near_its_teachers(
    teacher: Backbone, pixels: Pixels
) -> None:
    seen = Teacher(build_like(teacher), None, 64, torch.float32, "cpu")
    exact = Student(build_like(teacher), seen.channels, seen.axes, 64).eval()
    for hint, channels in zip(exact.hints, seen.channels[-HINTS:], strict=True):
        assert isinstance(hint, nn.Conv2d)
        hint.weight.data = torch.eye(channels)[:, :, None, None]
        assert hint.bias is not None
        hint.bias.data.zero_()
    look = torch.rand(4, 3, 64, 64)
    with torch.inference_mode():
        _, hints = exact(look)
        _, held = seen.look(look)
    for hint, grid in zip(hints, held[-HINTS:], strict=True):
        assert float(unexplained(hint, grid)) < 1e-6, "paired with its own"


def test_what_is_unexplained_is_a_share_of_the_variance() -> None:
    wanted = torch.randn(500, 7) * 3 + 5
    mean = wanted.mean(0, keepdim=True).expand_as(wanted)
    assert float(unexplained(mean, wanted)) == pytest.approx(1)
    assert float(unexplained(wanted, wanted)) == 0
    half = (mean + wanted) / 2
    assert float(unexplained(half, wanted)) == pytest.approx(0.25)
    grids = torch.randn(50, 3, 4, 4)
    middle = grids.mean((0, 2, 3), keepdim=True).expand_as(grids)
    assert float(unexplained(middle, grids)) == pytest.approx(1)


def test_a_student_that_is_stopped_ends_in_the_same_weights(
    teacher: Backbone, pixels: Pixels, tmp_path: Path
) -> None:
    def learn(folder: str, stop: Callable[[], bool] | None = None) -> Path:
        config = replace(LEARNS, student="torchvision/efficientnet_b0")  # leaves blocks out
        return a_run(config, pixels, teacher, tmp_path / folder).train(stop=stop)

    straight = learn("straight")
    for times in (3, 5):  # in the first pass, and in the second
        with pytest.raises(TrainingStopped):
            learn("stopped", stop=After(times))
    resumed = learn("stopped")
    assert resumed.read_bytes() == straight.read_bytes()
    notes = [read_notes(tmp_path / name) for name in ("straight", "stopped")]
    assert notes[0] is not None
    assert notes[1] is not None
    assert notes[0]["history"] == notes[1]["history"]
    learn("stopped", stop=After(0))  # there is nothing left to stop


def test_epochs_show_the_same_pictures_in_other_orders_and_never_those_held_out(
    teacher: Backbone, pixels: Pixels, tmp_path: Path
) -> None:
    taught: list[list[int]] = []
    measured: set[int] = set()

    class Watched(Distillation):
        def chosen(self, rows: NDArray[np.int64]) -> torch.Tensor:
            if hasattr(self, "model") and self.model.training:
                taught.append(rows.tolist())
            elif hasattr(self, "model"):
                measured.update(rows.tolist())
            return super().chosen(rows)

    told: list[DistillationProgress] = []
    run = a_run(LEARNS, pixels, teacher, tmp_path, Watched)
    run.run(told.append)
    assert len(taught) == 2 * 5
    assert measured == {23, 47}
    first, second = (np.concatenate(taught[at : at + 5]).tolist() for at in (0, 5))
    assert len(set(first)) == len(set(second)) == 40, "each once, and the rest in another epoch"
    assert first != second
    assert not measured & {*first, *second}
    ends = [now for now in told if now.measurement is not None]
    assert [row["held_out"] for row in run.notes["history"]] == [now.measurement for now in ends]
    assert [row["explained"] for row in run.notes["history"]] == [1 - now.loss for now in ends]


def a_run(
    config: DistillationConfig,
    pixels: Pixels,
    teacher: Backbone,
    folder: Path,
    kind: type[Distillation] = Distillation,
) -> Distillation:
    return kind(config, pixels, build_like(teacher), folder)


def test_a_step_is_as_large_as_it_should_be_and_decays_matrices_alone(
    teacher: Backbone, pixels: Pixels, tmp_path: Path
) -> None:
    run = a_run(replace(LEARNS, clip_norm=1e-3), pixels, teacher, tmp_path)
    rates: list[float] = []
    lengths: list[float] = []

    for epoch in range(2):
        for step, batch in enumerate(run.batches(epoch, 0)):
            run.step(epoch, step, batch)
            rates.append(run.optimizer.param_groups[-1]["lr"])
            every = [weight.grad for weight in run.model.parameters()]
            gradients = [gradient.norm() for gradient in every if gradient is not None]
            lengths.append(float(torch.stack(gradients).norm()))
    falls = [(1 + math.cos(math.pi * at / 10)) / 2 for at in range(10)]
    expected = [2e-3 * fall * (0.5 if at == 0 else 1) for at, fall in enumerate(falls)]
    assert rates == pytest.approx(expected)
    assert lengths == pytest.approx([1e-3] * 10, rel=1e-2)
    for group in run.optimizer.param_groups:
        for weight in group["params"]:
            assert group["weight_decay"] == (LEARNS.weight_decay if weight.ndim > 1 else 0)


def test_a_student_begins_with_what_all_pictures_have_in_common(
    teacher: Backbone, pixels: Pixels, tmp_path: Path
) -> None:
    run = a_run(LEARNS, pixels, teacher, tmp_path)
    shown = normalise_pixels(torch.from_numpy(pixels[run.taught[: LEARNS.batch_size]]))
    common = run.teacher.look(shown)[0].mean((0, 2, 3))
    with torch.inference_mode():
        seen, _ = run.model.train()(torch.randn(2, 3, LEARNS.side, LEARNS.side))
    torch.testing.assert_close(seen, common[:, None, None].expand_as(seen))


def test_hints_count_as_much_as_they_are_said_to(
    teacher: Backbone, pixels: Pixels, tmp_path: Path
) -> None:
    losses = []
    for hints in (0.0, 1.0, 3.0):
        run = a_run(replace(LEARNS, hints=hints), pixels, teacher, tmp_path)
        loss, whole = (float(each.detach()) for each in run.losses(0, 0, run.taught[:8]))
        assert loss > whole
        losses.append(loss)
    assert losses[0] < losses[1]
    assert losses[2] - losses[0] == pytest.approx(3 * (losses[1] - losses[0]), rel=1e-3)


def test_steps_vary_their_pictures_differently(
    teacher: Backbone, pixels: Pixels, tmp_path: Path
) -> None:
    found = set()
    for seed, epochs in ((0, 2), (1, 1)):
        run = a_run(replace(LEARNS, seed=seed), pixels, teacher, tmp_path)
        for epoch in range(epochs):
            for step in range(2):
                with torch.inference_mode():
                    found.add(float(run.losses(epoch, step, run.taught[:8])[1]))
    assert len(found) == 6


def test_a_student_begins_with_the_weights_it_is_given(
    teacher: Backbone, pixels: Pixels, tmp_path: Path
) -> None:
    torch.manual_seed(1)
    start = build_backbone("torchvision/mobilenet_v2").keep_grid().network.state_dict()
    barely = replace(LEARNS, learning_rate=1e-12, epochs=1)
    path = Distillation(barely, pixels, build_like(teacher), tmp_path, start=start).train()
    rounded = tensors(dequantize(quantize(arrays(start), "int8")))
    for name, after in build_backbone("torchvision/mobilenet_v2", path).network.named_parameters():
        # Moved a little first, which may be across the middle between two bytes.
        step = 2 * float(rounded[name].abs().max()) / 127
        torch.testing.assert_close(after, rounded[name], rtol=1e-3, atol=max(step, 1e-6))
    with pytest.raises(TrainingError, match="start"):
        Distillation(barely, pixels, build_like(teacher), tmp_path).train()


def test_a_loss_that_is_not_a_number_and_too_few_pictures_are_said(
    teacher: Backbone, pixels: Pixels, tmp_path: Path
) -> None:
    nothing = torch.full((4, 1280), torch.nan)
    with pytest.raises(TrainingError, match="the loss is nan in epoch 1, step 1"):
        Distillation(
            LEARNS, pixels, build_like(teacher), tmp_path / "nan", projection=nothing
        ).train()


def test_a_last_step_that_spoils_the_student_is_said(
    teacher: Backbone, pixels: Pixels, tmp_path: Path
) -> None:
    one = replace(LEARNS, epochs=1, batch_size=46, warm_up=0, learning_rate=LARGEST_FACTOR)
    with pytest.raises(TrainingError, match="after epoch 1 the student's features are not numbers"):
        Distillation(one, pixels, build_like(teacher), tmp_path).train()
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("batch", [2, 24])
def test_too_few_pictures_are_said_with_how_many_are_enough(
    teacher: Backbone, pixels: Pixels, tmp_path: Path, batch: int
) -> None:
    config = replace(LEARNS, batch_size=batch)
    with pytest.raises(TrainingError, match="smaller batch") as refused:
        Distillation(config, pixels[:4], build_like(teacher), tmp_path).train()
    enough = int(str(refused.value).split("needs ")[1].split()[0])
    many = np.resize(pixels, (enough, *pixels.shape[1:]))
    with pytest.raises(TrainingError, match="needs"):
        Distillation(config, many[:-1], build_like(teacher), tmp_path).train()
    with pytest.raises(TrainingStopped):
        Distillation(config, many, build_like(teacher), tmp_path).train(stop=After(0))


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("learning_rate", 0.0),
        ("learning_rate", 2 * LARGEST_FACTOR),
        ("teacher_side", 2 * MAX_SIDE),
        ("seed", 2**63),
    ],
)
def test_what_a_student_cannot_learn_with_is_refused_by_name(name: str, value: Any) -> None:
    with pytest.raises(ValueError, match=name):
        replace(LEARNS, **{name: value})
