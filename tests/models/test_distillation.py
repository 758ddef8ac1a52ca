"""A student learns what a teacher sees in cuts of pictures, and a kill changes nothing."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from numpy.typing import NDArray

from models import cuts as cutting
from models import distillation
from models.backbone import Backbone, BackboneError, build_backbone
from models.cuts import Cuts, CutsConfig, CutsStopped, teach, whole_and_parts
from models.distillation import (
    DistillationConfig,
    DistillationError,
    DistillationProgress,
    DistillationStopped,
    distil,
)
from models.pictures import standardised
from models.stored import packed, unpacked

HOW = CutsConfig(rounds=3, side=64, axes=8, parts=2, bfloat16=False)
LEARNS = DistillationConfig(
    student="mobilenet_v2", side=64, epochs=2, batch_size=8, warm_up=2, bfloat16=False
)


@pytest.fixture(scope="module")
def teacher() -> Backbone:
    torch.manual_seed(0)
    return build_backbone("mobilenet_v2").eval().keep_grid()


@pytest.fixture(scope="module")
def pixels() -> NDArray[np.uint8]:
    """Pictures of one colour above another: (48, 64, 64, 3)."""
    draw = np.random.default_rng(0)
    colours = draw.integers(0, 256, (48, 2, 1, 1, 3), dtype=np.uint8)
    return np.broadcast_to(colours, (48, 2, 32, 64, 3)).reshape(48, 64, 64, 3)


@pytest.fixture(scope="module")
def cuts(
    teacher: Backbone, pixels: NDArray[np.uint8], tmp_path_factory: pytest.TempPathFactory
) -> Cuts:
    return teach(pixels, teacher, HOW, tmp_path_factory.mktemp("cuts"))


class After:
    """Says stop when it has been asked so often."""

    def __init__(self, times: int) -> None:
        self.left = times

    def __call__(self) -> bool:
        self.left -= 1
        return self.left < 0


def test_the_whole_is_the_average_and_parts_lie_where_they_lie() -> None:
    grid = torch.arange(16.0).reshape(1, 16, 1)  # 4 x 4 cells
    found = whole_and_parts(grid, 2)
    assert found.squeeze().tolist() == [7.5, 2.5, 4.5, 10.5, 12.5]


def test_targets_are_what_the_teacher_sees_on_axes_of_unit_variance(
    cuts: Cuts, teacher: Backbone
) -> None:
    assert cuts.targets.shape == (3 * 48, 5, 8)
    first = np.asarray(cuts.targets[:48, 0], dtype=np.float64)  # the axes are of these
    np.testing.assert_allclose(first.mean(0), 0, atol=1e-3)
    assert first.var(0, ddof=1).sum() == pytest.approx(1, rel=0.01)
    # Distances along the axes follow those of what the teacher sees.
    with torch.inference_mode():
        seen = teacher(standardised(torch.from_numpy(cuts.look(np.arange(48), 64)))).mean(1)
    seen = torch.nn.functional.normalize(seen, dim=-1)
    near = torch.cdist(seen, seen).flatten().numpy()
    kept = torch.cdist(torch.from_numpy(first), torch.from_numpy(first)).flatten().numpy()
    assert np.corrcoef(near, kept)[0, 1] > 0.9


def test_targets_of_a_projection_are_of_what_it_leaves(
    cuts: Cuts, teacher: Backbone, tmp_path: Path
) -> None:
    torch.manual_seed(1)
    projection = torch.randn(6, teacher.feature_dimension)
    how = replace(HOW, rounds=1, axes=6)
    found = teach(cuts.pixels, teacher, how, tmp_path, projection=projection)
    kept = torch.from_numpy(np.asarray(found.targets[:, 0], dtype=np.float64))
    with torch.inference_mode():
        seen = teacher(standardised(torch.from_numpy(cuts.look(np.arange(48), 64)))).mean(1)
    points = torch.nn.functional.normalize(seen, dim=-1) @ projection.T
    spread = points.var(0).sum().sqrt().double()
    near = torch.cdist(points.double() / spread, points.double() / spread)
    np.testing.assert_allclose(torch.cdist(kept, kept), near, atol=0.02)
    # Another projection is another teacher.
    told: list[int] = []
    for other, expected in ((projection, []), (2 * projection, [48])):
        teach(
            *(cuts.pixels, teacher, how, tmp_path),
            projection=other,
            progress=lambda done, _: told.append(done),
        )
        assert told == expected


def test_a_cut_is_the_same_at_any_size_and_no_two_are_alike(cuts: Cuts) -> None:
    np.testing.assert_array_equal(cuts.look(np.array([5]), 32), cuts.look(np.array([5]), 32))
    small, large = (cuts.look(np.array([5]), side).mean((0, 1, 2)) for side in (32, 64))
    np.testing.assert_allclose(small, large, atol=2)
    rising = np.arange(0, 256, 4, dtype=np.uint8)
    gradient = np.stack([*np.meshgrid(rising, rising), np.zeros((64, 64), np.uint8)], axis=2)
    drawn = Cuts(HOW, gradient[None], cuts.targets).look(np.arange(40), 32)
    assert len({cut.tobytes() for cut in drawn}) == 40
    upright = (drawn[:, 0, -1, 0] > drawn[:, 0, 0, 0]).mean()
    assert 0.2 < upright < 0.8, "about half are mirrored"


def test_a_teacher_that_is_stopped_goes_on_and_ends_in_the_same_bytes(
    cuts: Cuts, teacher: Backbone, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(cutting, "CHUNK", 40)
    with pytest.raises(CutsStopped, match="80 of 144"):
        teach(cuts.pixels, teacher, HOW, tmp_path, stop=After(2))
    # What a kill left behind the last note does not count.
    with (tmp_path / cutting.TARGETS).open("ab") as file:
        file.write(b"half a row")
    seen: list[int] = []
    again = teach(cuts.pixels, teacher, HOW, tmp_path, progress=lambda done, _: seen.append(done))
    assert seen == [120, 144]
    np.testing.assert_array_equal(again.targets, cuts.targets)


def test_other_pictures_or_cuts_are_looked_at_again(
    cuts: Cuts, teacher: Backbone, tmp_path: Path
) -> None:
    teach(cuts.pixels, teacher, HOW, tmp_path)
    seen: list[int] = []
    teach(255 - cuts.pixels, teacher, HOW, tmp_path, progress=lambda done, _: seen.append(done))
    assert seen == [144]
    fewer = teach(255 - cuts.pixels, teacher, replace(HOW, rounds=1), tmp_path)
    assert len(fewer.targets) == 48


def test_a_student_learns_and_its_weights_are_a_torchvision_network(
    cuts: Cuts, tmp_path: Path
) -> None:
    told: list[DistillationProgress] = []
    long = replace(LEARNS, epochs=8, learning_rate=5e-3, warm_up=20)
    path = distil(long, cuts, tmp_path, report=told.append)
    held_out = [now.held_out for now in told if now.held_out is not None]
    assert len(held_out) == 8
    assert held_out[-1] > 0.1, "pictures it never learned from"
    assert told[-1].cuts == told[-1].total
    student = build_backbone("mobilenet_v2", path)
    weights = student.network.state_dict()
    for dtype in ("float16", "int8"):
        kept = unpacked(packed(weights, dtype))
        assert all(torch.equal(kept[key], value) for key, value in weights.items())


def test_a_student_that_is_stopped_ends_in_the_same_weights(cuts: Cuts, tmp_path: Path) -> None:
    straight = distil(LEARNS, cuts, tmp_path / "straight")
    for times in (5, 20):  # in the first pass, and in the second
        with pytest.raises(DistillationStopped):
            distil(LEARNS, cuts, tmp_path / "stopped", stop=After(times))
    resumed = distil(LEARNS, cuts, tmp_path / "stopped")
    assert resumed.read_bytes() == straight.read_bytes()


def test_a_student_begins_with_the_weights_it_is_given(cuts: Cuts, tmp_path: Path) -> None:
    torch.manual_seed(1)
    start = build_backbone("mobilenet_v2")
    barely = replace(LEARNS, learning_rate=1e-12, epochs=1)
    path = distil(barely, cuts, tmp_path, start=start.keep_grid().network.state_dict())
    end = build_backbone("mobilenet_v2", path)
    rounded = unpacked(packed(start.network.state_dict(), "int8"))
    for name, after in end.network.named_parameters():
        # Moved a little first, which may be across the middle between two bytes.
        step = 2 * float(rounded[name].abs().max()) / 127
        torch.testing.assert_close(after, rounded[name], rtol=1e-3, atol=max(step, 1e-6))
    with pytest.raises(DistillationError, match="start"):
        distil(barely, cuts, tmp_path)


def test_another_distillation_is_refused(cuts: Cuts, tmp_path: Path) -> None:
    with pytest.raises(DistillationStopped):
        distil(LEARNS, cuts, tmp_path, stop=After(1))
    with pytest.raises(DistillationError, match="another distillation"):
        distil(replace(LEARNS, learning_rate=1e-2), cuts, tmp_path)


def test_a_loss_that_is_not_a_number_and_too_few_pictures_are_said(
    cuts: Cuts, tmp_path: Path
) -> None:
    broken = replace(cuts, targets=np.full_like(cuts.targets, np.nan))
    with pytest.raises(DistillationError, match="the loss is nan"):
        distil(LEARNS, broken, tmp_path / "nan")
    few = replace(cuts, pixels=cuts.pixels[:4], targets=cuts.targets[:4])
    with pytest.raises(DistillationError, match="needs at least"):
        distil(LEARNS, few, tmp_path / "few")


def test_a_network_without_a_grid_cannot_teach() -> None:
    with pytest.raises(BackboneError, match="average of a grid"):
        build_backbone("shufflenet_v2_x0_5").keep_grid()


def test_colours_turn_and_places_stay() -> None:
    draw = np.random.default_rng(0)
    pixels = torch.rand(4, 3, 8, 8)
    turned = distillation._coloured(pixels.clone(), 0.3, draw)
    assert not torch.allclose(turned, pixels, atol=0.01)
    for before, after in zip(pixels.mean(1), turned.mean(1), strict=True):
        together = torch.corrcoef(torch.stack([before.flatten(), after.flatten()]))[0, 1]
        assert together > 0.99
    unturned = distillation._coloured(pixels.clone(), 0.0, draw)
    torch.testing.assert_close(unturned, pixels)


def test_mixed_cuts_are_to_be_seen_as_they_are_mixed() -> None:
    draw = np.random.default_rng(0)
    pixels = torch.arange(4.0).view(4, 1, 1, 1).expand(4, 3, 2, 2)
    targets = torch.arange(4.0).view(4, 1, 1).expand(4, 5, 8)
    mixed, seen = distillation._mixed(pixels, targets, 0.5, draw)
    torch.testing.assert_close(mixed[:, 0, 0, 0], seen[:, 0, 0])
    assert mixed[2:, 0, 0, 0].tolist() == [2, 3]
    assert 0 < mixed[0, 0, 0, 0] < 1 < mixed[1, 0, 0, 0] < 2
