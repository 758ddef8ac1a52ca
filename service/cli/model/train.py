"""`hasse train`: a dataset to a checkpoint."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from service.cli.model.training_report import training_report
from service.cli.terminal.configuration import parse_pairs
from service.cli.terminal.errors import Interrupted, resumable
from service.cli.terminal.interrupt import stop_request
from service.cli.terminal.options import DatasetFolder, Device, Workers
from service.cli.terminal.progress import progress, tell

if TYPE_CHECKING:
    from models.datasets import Dataset
    from models.evaluation.retrieval import Evaluation

MODEL, OPTIMISATION, DATA = "The model", "How it learns", "What it learns from"


def train(
    *,
    dataset: DatasetFolder,
    out: Annotated[
        Path,
        typer.Option(
            "--out", "-o", metavar="DIR", help="Where the checkpoint goes; also how it is named."
        ),
    ],
    preset: Annotated[
        Literal["hasse", "order", "order-reversed", "cosine", "scenes"] | None,
        typer.Option(
            show_default="hasse with --features, else scenes",
            help="Where all other options start: what we found to retrieve best on features, the "
            "paper's way with the order or one of its two controls, or as the built-in model "
            "was trained.",
        ),
    ] = None,
    features: Annotated[
        Path | None,
        typer.Option(
            metavar="DIR",
            rich_help_panel=DATA,
            help="Train on these, from 'hasse features': quick, the network stays as it is. "
            "Without it the network learns too, from the pictures.",
        ),
    ] = None,
    train_split: Annotated[
        str, typer.Option(rich_help_panel=DATA, help="The split to learn from.")
    ] = "train",
    val_split: Annotated[
        str, typer.Option(rich_help_panel=DATA, help="The split to choose the best epoch by.")
    ] = "val",
    score: Annotated[
        Literal["order", "order-reversed", "cosine"] | None,
        typer.Option(
            rich_help_panel=MODEL,
            help="How images and captions are compared; the presets of these names set the "
            "margin too.",
        ),
    ] = None,
    dimension: Annotated[
        int | None,
        typer.Option(min=1, rich_help_panel=MODEL, help="Coordinates of a point."),
    ] = None,
    backbone: Annotated[
        str | None,
        typer.Option(
            rich_help_panel=MODEL,
            help="A torchvision network, such as resnet50; features have theirs.",
        ),
    ] = None,
    weights: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE",
            rich_help_panel=MODEL,
            help="The network's weights: where it starts, or, with --features, those they were "
            "made with, if the file has moved.",
        ),
    ] = None,
    start: Annotated[
        Path | None,
        typer.Option(
            metavar="DIR",
            rich_help_panel=MODEL,
            help="Start from the weights of this checkpoint, a folder or the name of a built-in "
            "one, of the same shape and words, instead of from nothing.",
        ),
    ] = None,
    epochs: Annotated[
        int | None, typer.Option(min=1, rich_help_panel=OPTIMISATION, help="Passes at most.")
    ] = None,
    patience: Annotated[
        int | None,
        typer.Option(
            min=1, rich_help_panel=OPTIMISATION, help="Stop after so many epochs without a better."
        ),
    ] = None,
    batch_size: Annotated[
        int | None, typer.Option(min=2, rich_help_panel=OPTIMISATION, help="Pairs at a time.")
    ] = None,
    learning_rate: Annotated[
        float | None, typer.Option(rich_help_panel=OPTIMISATION, help="Adam's.")
    ] = None,
    margin: Annotated[
        float | None,
        typer.Option(
            rich_help_panel=OPTIMISATION,
            help="How far a false pair is kept from a true one. The paper: 0.05; cosine 0.2.",
        ),
    ] = None,
    seed: Annotated[
        int | None,
        typer.Option(rich_help_panel=OPTIMISATION, help="The same seed trains the same model."),
    ] = None,
    more: Annotated[
        list[str] | None,
        typer.Option(
            "--set",
            metavar="NAME=VALUE",
            rich_help_panel=OPTIMISATION,
            help="Any other option of a training, such as --set schedule=cosine. A wrong name "
            "lists them.",
        ),
    ] = None,
    device: Device = "auto",
    workers: Workers = None,
) -> None:
    """Train a model; stop it at any time and run the same command to go on.

    The checkpoint in --out is that of the best epoch so far, so it can be evaluated and used
    while the training goes on.

    \b
    [bold]Examples[/bold]
      hasse train data/coco --features data/coco-features --out data/coco-model
      hasse train data/coco --features data/coco-features --out data/cosine \\
          --preset cosine
      hasse train data/scenes --preset scenes --out data/my-scenes-model
      torchrun --nproc-per-node 4 -m service.cli train data/coco \\
          --features data/coco-features --out data/coco-model

    The last trains one model on four GPUs.
    """
    from models.checkpoints import checkpoint
    from models.checkpoints.model_folder import require_no_model
    from models.datasets import load
    from models.training.distributed import world
    from models.training.presets import PRESETS
    from models.training.run import TrainingStopped, require_same
    from models.training.state import read_notes
    from models.training.trainer import RetrievalTraining, identity
    from service.pipelines import training
    from service.runtime.device import pick_device

    place = pick_device(device)
    begin = PRESETS[preset or ("hasse" if features else "scenes")].on(place)
    named = {
        "score": score,
        "dimension": dimension,
        "backbone": backbone,
        "epochs": epochs,
        "patience": patience,
        "batch_size": batch_size,
        "learning_rate": learning_rate,
        "margin": margin,
        "seed": seed,
    }
    choices: dict[str, object] = dict(parse_pairs(more or ()))
    choices |= {name: value for name, value in named.items() if value is not None}
    # A preset's pooling suits its own network or features; not every other network can do it.
    if not features and ("backbone" in choices or begin.config.model.pooling == "parts"):
        choices.setdefault("pooling", "average")
    begun = None if start is None else checkpoint.load(checkpoint.find(start), to_learn=True)
    whole = load(dataset)
    collections = training.split_for_training(whole, train_split, val_split)
    given = begin.config if "batch_size" in choices else begin.suited(len(collections[0]))
    config = training.with_choices(given, choices)
    with (
        world(place) as processes,
        resumable(lambda: _kept(out)),
        processes.alone_in(out),
    ):
        if read_notes(out) is None:  # so no training of ours is to go on
            require_no_model(out)
        silent, together = not processes.leads, processes.size > 1
        if not (whole.has_splits() or silent):
            tell(
                f"no splits: {len(collections[1])} of {len(whole)} pictures are not learned from; "
                f"the best epoch is chosen by them"
            )
        if features:
            material = training.from_features(
                config, features, weights, collections, skipped=None if silent else tell
            )
            training.require_chosen(material.config, choices)
        else:
            begins = training.learning_backbone(config, weights)
            # Those of another training would take the place of its pictures.
            require_same(out, identity(config, *collections, begins, begun))
            with processes.in_turn(), progress("reading pictures", silent=silent) as report:
                material = training.from_pictures(
                    config,
                    begins,
                    collections,
                    out / "pictures",
                    workers=workers,
                    progress=report,
                    skipped=None if silent else tell,
                )
        with (
            progress("training", silent=silent) as report,
            stop_request(silent=silent, patient=together) as stop,
        ):
            show = training_report(report, material.config.epochs, _described)
            try:
                trained = RetrievalTraining(
                    material.config,
                    out.resolve().name,
                    out,
                    (collections[0], material.inputs[0]),
                    (collections[1], material.inputs[1]),
                    backbone_weights=material.backbone_weights,
                    start=begun,
                    world=processes,
                ).train(None if silent else show, stop)
            except TrainingStopped as stopped:
                raise Interrupted(f"{stopped}; the same command goes on from there") from None
    if not silent:
        typer.echo(f"{out}: the model {trained.name}, best of its epochs")
        typer.echo(f"next: {_advised(dataset, whole, out, features)}", err=True)


def _kept(out: Path) -> str:
    """Return what is said on Ctrl-C, of a model only where there is one."""
    from models.checkpoints.model_folder import CONFIG

    best = f"{out} holds the best epoch" if (out / CONFIG).is_file() else "no epoch was finished"
    return f"the same command goes on from there; {best} so far"


def _advised(folder: Path, dataset: Dataset, model: Path, features: Path | None) -> str:
    """Return what to do with a model: measure it, if there are pictures kept for that."""
    read = f" --features {features}" if features else ""
    if "test" in dataset.splits():
        return f"hasse evaluate {folder} --model {model}{read}"
    return f"hasse index build {folder} --model {model}{read} --out ..."


def _described(found: Evaluation) -> str:
    return (
        f"R@1 {found.caption_retrieval.r1:.1f} captions by image, "
        f"{found.image_retrieval.r1:.1f} images by caption, rsum {found.rsum:.1f}"
    )
