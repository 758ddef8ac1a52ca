"""The loop of every training, on a model of two numbers."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
import torch
from torch import Tensor, nn

from hasse.lab.training.run import Progress, ResumableRun, Run, TrainingError, TrainingStopped
from hasse.lab.training.state import FILE_NAME, StateError, read_notes
from tests.lab.training.colours import stop_after


class LineFit(ResumableRun[Tensor, float]):
    """Fits a line to points that depend on the epoch and the step."""

    clock = 0.0

    def __init__(
        self,
        folder: Path,
        *,
        epochs: int = 2,
        steps: int = 5,
        patience: int | None = None,
        measure_every: int = 1,
        margin: float = 0.1,
        qualities: tuple[float, ...] = (),
    ) -> None:
        torch.manual_seed(0)
        model = nn.Linear(1, 1)
        optimizer = torch.optim.Adam(model.parameters(), 0.1)
        super().__init__(
            folder,
            {"margin": margin},
            model,
            optimizer,
            epochs=epochs,
            steps=steps,
            patience=patience,
            measure_every=measure_every,
        )
        self.happened: list[str] = []
        self.kept: list[int] = []
        self.saved: list[tuple[int, int]] = []
        self.qualities = iter(qualities)

    def batches(self, epoch: int, first: int) -> Iterator[Tensor]:
        for step in range(first, self.steps):
            self.happened.append("read")
            yield torch.tensor([[float(epoch + step)]])

    def step(self, epoch: int, step: int, batch: Tensor) -> Tensor:
        self.happened.append("learn")
        loss: Tensor = (self.learned(batch) - 2 * batch).square().mean()
        self.optimizer.zero_grad()
        loss.backward()  # type: ignore[no-untyped-call]
        self.optimizer.step()
        return loss.detach()

    def measure(self, loss: float) -> float:
        return next(self.qualities, -loss)

    def quality(self, measurement: float) -> float:
        return measurement

    def save_model(self, measurement: float) -> None:
        self.kept.append(self.notes["epoch"])

    def save_state(self) -> None:
        super().save_state()
        self.saved.append((self.notes["epoch"], self.notes["step"]))

    def now(self) -> float:
        return self.clock

    def weights(self) -> list[float]:
        return [weight.item() for weight in self.learned.parameters()]


def finished(folder: Path) -> list[float]:
    line = LineFit(folder)
    line.run()
    return line.weights()


@pytest.mark.parametrize("steps", range(10))
def test_run_stopped_at_any_step_ends_with_the_same_weights(tmp_path: Path, steps: int) -> None:
    with pytest.raises(TrainingStopped, match=f"in epoch {steps // 5 + 1} of 2"):
        LineFit(tmp_path / "stopped").run(stop=stop_after(steps))
    notes = read_notes(tmp_path / "stopped")
    assert notes is not None
    assert (notes["epoch"], notes["step"]) == divmod(steps, 5)
    assert finished(tmp_path / "stopped") == finished(tmp_path / "straight")


def test_run_prepares_the_next_batch_before_it_waits_for_a_loss(tmp_path: Path) -> None:
    line = LineFit(tmp_path, epochs=1, steps=3)
    line.run(lambda now: line.happened.append(f"loss {now.step}"))
    assert line.happened == [
        *("read", "learn"),
        *("read", "learn", "loss 1"),
        *("read", "learn", "loss 2"),
        *("loss 3", "loss 3"),
    ]


def test_run_reports_the_mean_loss_of_an_epoch_and_its_measure(tmp_path: Path) -> None:
    told: list[Progress[float]] = []
    LineFit(tmp_path, qualities=(3.0, 1.0)).run(told.append)
    assert [now.steps_done for now in told] == [1, 2, 3, 4, 5, 5, 6, 7, 8, 9, 10, 10]
    ends = [now for now in told if now.measurement is not None]
    assert [(now.measurement, now.best) for now in ends] == [(3.0, True), (1.0, False)]
    assert [now.loss for now in ends] == [told[4].loss, told[10].loss]


def test_run_measures_every_few_epochs_and_the_last(tmp_path: Path) -> None:
    measured: list[int] = []

    def report(now: Progress[float]) -> None:
        if now.measurement is not None:
            measured.append(now.epoch)

    better = (1.0, 2.0, 3.0)
    LineFit(tmp_path, epochs=8, steps=1, patience=1, measure_every=3, qualities=better).run(report)
    assert measured == [2, 5, 7]


def test_run_keeps_better_epochs_and_stops_when_patience_ends(tmp_path: Path) -> None:
    line = LineFit(tmp_path, epochs=9, patience=2, qualities=(1.0, 5.0, 5.0, 3.0, 9.0))
    line.run()
    assert line.kept == [0, 1]
    assert line.notes["epoch"] == 4


def test_run_saves_its_state_now_and_then_and_adds_up_the_seconds_of_all_calls(
    tmp_path: Path,
) -> None:
    line = LineFit(tmp_path, epochs=1, steps=9)
    line.seconds_between_states = 10

    def pass_time(_: object) -> None:
        line.clock += 4

    with pytest.raises(TrainingStopped):
        line.run(pass_time, stop_after(7))
    assert line.saved == [(0, 4), (0, 7)]
    again = LineFit(tmp_path, epochs=1, steps=9)
    again.run()
    assert again.seconds == 7 * 4


def test_run_saves_a_state_before_it_keeps_the_first_model(tmp_path: Path) -> None:
    class Killed(LineFit):
        def save_model(self, measurement: float) -> None:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        Killed(tmp_path).run()
    assert (tmp_path / FILE_NAME).is_file()


def test_run_that_is_finished_does_nothing(tmp_path: Path) -> None:
    finished(tmp_path)
    line = LineFit(tmp_path)
    line.run()
    assert line.happened == []


def test_run_with_another_identity_is_refused_by_the_first_difference(tmp_path: Path) -> None:
    finished(tmp_path)
    refused = r"holds a training with another margin \(0\.1 there, 0\.2 now\)"
    with pytest.raises(TrainingError, match=refused):
        LineFit(tmp_path, margin=0.2).run()


@pytest.mark.parametrize("size", [0, 5, 400])
def test_run_names_a_damaged_state(tmp_path: Path, size: int) -> None:
    finished(tmp_path)
    state = tmp_path / FILE_NAME
    state.write_bytes(state.read_bytes()[:size])
    with pytest.raises(StateError, match=r"training\.safetensors is damaged \(.*delete this"):
        LineFit(tmp_path).run()


def test_run_stops_at_the_step_whose_loss_is_not_a_number(tmp_path: Path) -> None:
    class Spoiled(LineFit):
        def step(self, epoch: int, step: int, batch: Tensor) -> Tensor:
            return super().step(epoch, step, batch) / (0 if step == 2 else 1)

    with pytest.raises(TrainingError, match="the loss is inf in epoch 1, step 3: lower"):
        Spoiled(tmp_path).run()
    assert list(tmp_path.iterdir()) == []


def test_run_without_a_state_stops_and_keeps_nothing_on_disk(tmp_path: Path) -> None:
    class Stateless(LineFit):
        begin, save_state = Run.begin, Run.save_state

    with pytest.raises(TrainingStopped):
        Stateless(tmp_path / "none").run(stop=stop_after(3))
    assert list(tmp_path.iterdir()) == []
