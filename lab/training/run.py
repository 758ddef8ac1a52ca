"""The loop of every training: epochs of steps, measured after each epoch; the best is saved.

`Run` is the loop; a training fills in the step and the measurement. `ResumableRun` also saves its
state every few minutes. Every random choice of its steps is drawn from (seed, epoch, step) alone
and the state holds everything else, so a training that is killed and resumed ends with the
weights of one that was not.
"""

from __future__ import annotations

import math
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Generic, TypeVar

from torch import Tensor, nn
from torch.optim import Optimizer

from hasse.lab.training.distributed import ALONE, World
from hasse.lab.training.state import first_difference, load_state, read_notes, save_state
from hasse.models.errors import HasseError

SECONDS_BETWEEN_STATES = 300.0

Batch = TypeVar("Batch")
Result = TypeVar("Result")
Stop = Callable[[], bool]


def set_learning_rate(optimizer: Optimizer, rate: float) -> None:
    """Set the learning rate of all weights."""
    for group in optimizer.param_groups:
        group["lr"] = rate


class TrainingError(HasseError):
    """A training cannot start or go on; the message has the reason and the remedy."""


class TrainingStopped(Exception):
    """The caller stopped a training. Its state is saved, where it has one."""


@dataclass(frozen=True, slots=True)
class Progress(Generic[Result]):
    """The position of a training.

    Attributes:
        step: steps done in this epoch, out of `steps`.
        loss: mean over the steps done in this epoch.
        measured: set once an epoch, after its last step.
        best: whether `measurement` is the best so far.
    """

    epoch: int
    step: int
    steps: int
    loss: float
    measurement: Result | None = None
    best: bool = False

    @property
    def steps_done(self) -> int:
        """Steps done since the training began."""
        return self.epoch * self.steps + self.step


class Run(ABC, Generic[Batch, Result]):
    """A training; subclasses define a step and a measurement.

    Attributes:
        notes: the position, as JSON: "epoch" counts whole epochs, "step" the steps done in the
            next one, "loss" is the sum of their losses.
    """

    world: World = ALONE
    remedy = "lower --learning-rate"
    seconds_between_states = SECONDS_BETWEEN_STATES

    def __init__(
        self, epochs: int, steps: int, patience: int | None = None, measure_every: int = 1
    ) -> None:
        """Plan `epochs` of `steps`. Training stops after `patience` epochs without a better one.

        The model is measured after every `measure_every` epochs and after the last one.
        """
        self.epochs, self.steps, self.measure_every = epochs, steps, measure_every
        self.patience = max(patience or epochs, measure_every)
        self.notes: dict[str, Any] = {
            "epoch": 0,
            "step": 0,
            "loss": 0.0,
            "best_epoch": -1,
            "best": -math.inf,
        }
        self._unread: Tensor | None = None  # the loss of the last step
        self._report: Callable[[Progress[Result]], None] = lambda _: None

    @abstractmethod
    def batches(self, epoch: int, first: int) -> Iterator[Batch]:
        """Yield the batches of an epoch, from step `first` on."""

    @abstractmethod
    def step(self, epoch: int, step: int, batch: Batch) -> Tensor:
        """Learn from a batch; return its mean loss, (), which a GPU may still be computing."""

    @abstractmethod
    def measure(self, loss: float) -> Result:
        """Measure the model after an epoch of this mean loss."""

    @abstractmethod
    def quality(self, measurement: Result) -> float:
        """Return the number by which epochs are compared; higher is better."""

    def begin(self) -> None:
        """Prepare the first step."""

    def save_model(self, measurement: Result) -> None:
        """Save the model, which is the best so far."""

    def save_state(self) -> None:
        """Save the state, if the training has one."""

    def now(self) -> float:
        """Return the seconds of a clock that only goes forward."""
        return time.monotonic()

    @property
    def finished(self) -> bool:
        """Whether nothing is left to do."""
        epoch: int = self.notes["epoch"]
        stale: int = epoch - 1 - self.notes["best_epoch"]
        return epoch >= self.epochs or stale >= self.patience

    def run(
        self,
        report: Callable[[Progress[Result]], None] | None = None,
        stop: Stop | None = None,
    ) -> None:
        """Train to the end.

        Args:
            report: called after every step and every epoch.
            stop: called before every step; when it returns true, the state is saved and the
                training stops.

        Raises:
            TrainingError: a loss is not a number.
            TrainingStopped: `stop` returned true.
        """
        self._report = report or self._report
        self.begin()
        while not self.finished:
            self.run_steps(stop)
            self.end_epoch()

    def run_steps(self, stop: Stop | None = None) -> None:
        """Do the rest of the current epoch's steps."""
        epoch, first = self.notes["epoch"], self.notes["step"]
        saved = self.now()
        for step, batch in enumerate(self.batches(epoch, first), first):
            if self.world.any(stop is not None and stop()):
                self._read_loss()
                self.save_state()
                self.world.wait()  # the next call must find the state, in every process
                raise TrainingStopped(f"in epoch {epoch + 1} of {self.epochs}")
            loss = self.step(epoch, step, batch)
            # Losses are read one step late, so that a GPU never waits for the next batch.
            self._read_loss()
            self._unread = loss
            if self.now() - saved > self.seconds_between_states:
                self._read_loss()
                self.save_state()
                saved = self.now()
        self._read_loss()

    def _read_loss(self) -> None:
        """Add up and report the loss of the last step, unless this was done."""
        if self._unread is None:
            return
        loss, self._unread = float(self._unread), None
        epoch, done = self.notes["epoch"], self.notes["step"] + 1
        if not math.isfinite(loss):
            raise TrainingError(
                f"the loss is {loss} in epoch {epoch + 1}, step {done}: {self.remedy}"
            )
        self.notes |= {"step": done, "loss": self.notes["loss"] + loss}
        self._report(Progress(epoch, done, self.steps, self.notes["loss"] / done))

    def end_epoch(self) -> None:
        """Measure the model, save it if it is the best so far, and go on to the next epoch."""
        epoch, loss = self.notes["epoch"], self.notes["loss"] / self.steps
        measure_now = (epoch + 1) % self.measure_every == 0 or epoch + 1 == self.epochs
        measurement = self.measure(loss) if measure_now and self.world.leads else None
        if measurement is not None and (quality := self.quality(measurement)) > self.notes["best"]:
            if self.notes["best_epoch"] < 0:
                self.save_state()  # the next call refuses a model folder that has no state file
            self.notes |= {"best": quality, "best_epoch": epoch}
            self.save_model(measurement)
        is_best = self.world.any(self.notes["best_epoch"] == epoch)
        if is_best:
            self.notes["best_epoch"] = epoch
        self.notes |= {"epoch": epoch + 1, "step": 0, "loss": 0.0}
        self.save_state()
        self.world.wait()
        self._report(Progress(epoch, self.steps, self.steps, loss, measurement, is_best))


class ResumableRun(Run[Batch, Result]):
    """A training whose folder holds its state: another call with the same identity goes on.

    The first of several processes saves; all of them read.
    """

    def __init__(
        self,
        folder: Path,
        identity: Mapping[str, Any],
        learned: nn.Module,
        optimizer: Optimizer,
        *,
        epochs: int,
        steps: int,
        patience: int | None = None,
        measure_every: int = 1,
    ) -> None:
        """Plan a training in `folder`; see `Run`.

        Args:
            identity: what distinguishes this training from others, as JSON.
            learned, optimizer: changed by each step.
        """
        super().__init__(epochs, steps, patience, measure_every)
        self.folder, self.identity = folder, identity
        self.learned, self.optimizer = learned, optimizer
        self.notes |= {**identity, "seconds": 0.0, "history": []}
        self._started = self.now()

    @property
    def seconds(self) -> float:
        """Duration of this training, over all calls."""
        return self.now() - self._started

    def begin(self) -> None:
        """Go on where an earlier call of the same training stopped.

        Raises:
            TrainingError: the folder holds another training, or processes see different folders.
            StateError: the state in the folder is damaged.
        """
        self.folder.mkdir(parents=True, exist_ok=True)
        saved_notes = read_notes(self.folder)
        steps_done = (
            0 if saved_notes is None else saved_notes["epoch"] * self.steps + saved_notes["step"]
        )
        if not self.world.agree(steps_done):
            raise TrainingError(
                f"the processes do not find the same training in {self.folder}: give them a "
                f"folder that all of them share"
            )
        if saved_notes is None:
            return
        require_same(self.folder, self.identity)
        load_state(self.folder, self.learned, self.optimizer)
        self.notes |= saved_notes
        self._started = self.now() - saved_notes["seconds"]

    def record(self, row: Mapping[str, Any]) -> None:
        """Add the row of this epoch to the history, or replace it."""
        epoch = self.notes["epoch"] + 1
        earlier_rows = [earlier for earlier in self.notes["history"] if earlier["epoch"] < epoch]
        self.notes["history"] = [*earlier_rows, {"epoch": epoch, **row}]

    def save_state(self) -> None:
        """Save the state."""
        if self.world.leads:
            self.notes["seconds"] = self.seconds
            save_state(self.folder, self.learned, self.optimizer, self.notes)


def require_same(folder: Path, identity: Mapping[str, Any]) -> None:
    """Refuse a folder that holds another training.

    Raises:
        TrainingError: the identities differ; the message names the first difference.
        StateError: the state in the folder is damaged.
    """
    if changed := first_difference(folder, identity):
        key, difference = changed
        raise TrainingError(
            f"{folder} holds a training with another {key} ({difference}): "
            f"choose another folder, or delete it to start again"
        )
