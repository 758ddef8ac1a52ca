"""`hasse lab train`: trains a model on a dataset."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from hasse.lab.commands.long_running import CONTINUE_MESSAGE, stoppable
from hasse.lab.commands.options import DatasetFolder
from hasse.lab.commands.training_report import training_report
from hasse.service.cli.terminal.configuration import parse_pairs, picture_limits
from hasse.service.cli.terminal.errors import resumable
from hasse.service.cli.terminal.options import Device, Workers
from hasse.service.cli.terminal.progress import progress, tell

if TYPE_CHECKING:
    from hasse.lab.pipelines.training import TrainingPlan, TrainingRequest
    from hasse.lab.training.distributed import World
    from hasse.lab.training.lesson import Lesson, Measurement
    from hasse.models.checkpoints.checkpoint import Checkpoint

MODEL, OPTIMISATION, DATA = "The model", "How it learns", "What it learns from"

ModelOut = Annotated[
    Path,
    typer.Option(
        "--out", "-o", metavar="DIR", help="Folder of the checkpoint. The model gets its name."
    ),
]
RecipeName = Annotated[
    str | None,
    typer.Option(
        "--recipe",
        metavar="NAME|FILE",
        show_default="hasse with --features, else scenes",
        help="The options to start from: hasse, scenes, order, order-reversed, cosine, or a TOML "
        "file. Each model has its own beside it, recipe.toml.",
    ),
]
TrainingFeatures = Annotated[
    Path | None,
    typer.Option(
        "--features",
        metavar="DIR",
        rich_help_panel=DATA,
        help="Train on features of 'hasse lab features': quick, the network stays as it is. "
        "Without them the network learns too, from the pictures.",
    ),
]
TrainSplit = Annotated[str, typer.Option(rich_help_panel=DATA, help="The split to learn from.")]
ValidationSplit = Annotated[
    str, typer.Option(rich_help_panel=DATA, help="The split to choose the best epoch by.")
]
BackboneName = Annotated[
    str | None,
    typer.Option(
        rich_help_panel=MODEL,
        help="The network that learns, such as torchvision/resnet50; features have theirs.",
    ),
]
NetworkWeights = Annotated[
    Path | None,
    typer.Option(
        metavar="FILE",
        rich_help_panel=MODEL,
        help="The network's first weights; with --features, the file they were made with, if it "
        "has moved.",
    ),
]
Start = Annotated[
    Path | None,
    typer.Option(
        metavar="DIR",
        rich_help_panel=MODEL,
        help="Start from the weights of this checkpoint, a folder or the name of a built-in "
        "one, of the same shape and words.",
    ),
]
Epochs = Annotated[
    int | None,
    typer.Option(min=1, rich_help_panel=OPTIMISATION, help="Maximum number of epochs."),
]
TrainingBatch = Annotated[
    int | None, typer.Option(min=2, rich_help_panel=OPTIMISATION, help="Images in a batch.")
]
LearningRate = Annotated[
    float | None,
    typer.Option(rich_help_panel=OPTIMISATION, help="The highest learning rate."),
]
Seed = Annotated[
    int | None,
    typer.Option(rich_help_panel=OPTIMISATION, help="The same seed trains the same model."),
]
Choices = Annotated[
    list[str] | None,
    typer.Option(
        "--set",
        metavar="NAME=VALUE",
        rich_help_panel=OPTIMISATION,
        help="Any other option of a recipe, such as --set score=cosine. A wrong name lists them.",
    ),
]


def train(
    *,
    dataset: DatasetFolder,
    out: ModelOut,
    recipe: RecipeName = None,
    features: TrainingFeatures = None,
    train_split: TrainSplit = "train",
    val_split: ValidationSplit = "val",
    backbone: BackboneName = None,
    weights: NetworkWeights = None,
    start: Start = None,
    epochs: Epochs = None,
    batch_size: TrainingBatch = None,
    learning_rate: LearningRate = None,
    seed: Seed = None,
    pairs: Choices = None,
    device: Device = "auto",
    workers: Workers = None,
) -> None:
    """Train a model; stop it at any time and run the same command to go on.

    The checkpoint in --out is that of the best epoch so far, so it can be evaluated and used
    while the training goes on.

    \b
    Examples:
      hasse lab train data/coco --features data/coco-features \\
          --out data/coco-model
      hasse lab train data/coco --features data/coco-features --out data/cosine \\
          --recipe cosine
      hasse lab train data/scenes --recipe scenes --out data/my-scenes-model
      torchrun --nproc-per-node 4 -m hasse lab train data/coco \\
          --features data/coco-features --out data/coco-model

    The last trains one model on four GPUs.
    """
    from hasse.lab.pipelines.training import TrainingRequest

    options: dict[str, object] = {
        **{"backbone": backbone, "epochs": epochs, "batch_size": batch_size},
        **{"learning_rate": learning_rate, "seed": seed},
    }
    choices = parse_pairs(pairs or ()) | {
        name: value for name, value in options.items() if value is not None
    }
    request = TrainingRequest(
        dataset,
        out,
        recipe,
        choices,
        (train_split, val_split),
        features,
        weights,
        start,
        workers,
        picture_limits(),
    )
    learn(request, device)


def learn(
    request: TrainingRequest,
    device: str,
    lessons: Callable[[TrainingPlan], Sequence[Lesson]] = lambda plan: (),
) -> tuple[TrainingPlan, Checkpoint]:
    """Train as requested, with lessons for the plan, and print the next command."""
    from hasse.lab.pipelines.training import TrainingPlan
    from hasse.lab.training.distributed import world
    from hasse.service.core.device import pick_device

    torch_device, out = pick_device(device), request.out
    plan = TrainingPlan.of(request, torch_device)
    with (
        world(torch_device) as processes,
        resumable(lambda: _stop_message(out)),
        processes.lock_folder(out),
    ):
        checkpoint = _train(plan, processes, lessons(plan))
    if processes.leads:
        _print_next_command(plan, checkpoint)
    return plan, checkpoint


def _train(plan: TrainingPlan, processes: World, lessons: Sequence[Lesson]) -> Checkpoint:
    """Train with a progress bar, until the end or Ctrl-C; of several processes, one prints."""
    from hasse.lab.training.run import TrainingStopped

    silent, several = not processes.leads, processes.size > 1
    bars = partial(progress, silent=silent)
    training = plan.prepare(processes, bars, (lambda _: None) if silent else tell, lessons)
    with (
        bars("training") as bar,
        stoppable(
            lambda: CONTINUE_MESSAGE, TrainingStopped, silent=silent, patient=several
        ) as stop,
    ):
        report = None if silent else training_report(bar, training.epochs, _summary)
        return training.train(report, stop)


def _stop_message(out: Path) -> str:
    """Return the message on Ctrl-C. It names the model if an epoch was finished."""
    from hasse.models.checkpoints.model_folder import CONFIG

    best = f"{out} holds the best epoch" if (out / CONFIG).is_file() else "no epoch was finished"
    return f"{CONTINUE_MESSAGE}; {best} so far"


def _print_next_command(plan: TrainingPlan, checkpoint: Checkpoint) -> None:
    """Print the model and the next command: to measure it, if there are pictures for that."""
    request = plan.request
    typer.echo(f"{request.out}: the model {checkpoint.name}, best of its epochs")
    features = f" --features {request.features}" if request.features else ""
    if request.inputs is not None:
        advice = (
            f"hasse lab embed TEXTS --model {request.out}, or "
            f"hasse study transfer FOLDER --model {request.out}"
        )
    elif "test" in plan.dataset.splits() or not plan.dataset.has_splits():
        advice = f"hasse lab evaluate {request.dataset} --model {request.out}{features}"
    else:
        build = f"hasse lab index build {request.dataset} --model {request.out}{features}"
        advice = f"{build} --library ..."
    typer.echo(f"next: {advice}", err=True)


def _summary(measurement: Measurement) -> str:
    return measurement.summary
