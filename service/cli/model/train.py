"""`hasse lab train`: a dataset to a checkpoint."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from hasse.service.cli.terminal.configuration import parse_pairs, picture_limits
from hasse.service.cli.terminal.errors import resumable
from hasse.service.cli.terminal.long_running import AGAIN, stoppable, training_report
from hasse.service.cli.terminal.options import DatasetFolder, Device, Workers
from hasse.service.cli.terminal.progress import progress, tell

if TYPE_CHECKING:
    from hasse.models.checkpoints.checkpoint import Checkpoint
    from hasse.models.training.distributed import World
    from hasse.models.training.trainer import Measured
    from hasse.service.pipelines.training import TrainingPlan

MODEL, OPTIMISATION, DATA = "The model", "How it learns", "What it learns from"


ModelOut = Annotated[
    Path,
    typer.Option(
        "--out", "-o", metavar="DIR", help="Where the checkpoint goes; also how it is named."
    ),
]
PresetName = Annotated[
    Literal[
        "hasse",
        "order",
        "order-reversed",
        "cosine",
        "mnlm",
        "mnlm-linear",
        "cap2img",
        "cap2cap",
        "cap2both",
        "cap2order",
        "photographs",
        "scenes",
    ]
    | None,
    typer.Option(
        show_default="photographs with --texts, hasse with --features, else scenes",
        help="Where all other options start: what we found to retrieve best on features, the "
        "paper's way with the order or one of its two controls, as Kiros et al. did with an "
        "LSTM or a sum of words, as Kiela et al. ground sentences, or as a built-in model was "
        "trained.",
    ),
]
TrainingFeatures = Annotated[
    Path | None,
    typer.Option(
        metavar="DIR",
        rich_help_panel=DATA,
        help="Train on these, from 'hasse lab features': quick, the network stays as it is. "
        "Without it the network learns too, from the pictures.",
    ),
]
TrainSplit = Annotated[str, typer.Option(rich_help_panel=DATA, help="The split to learn from.")]
ValidationSplit = Annotated[
    str, typer.Option(rich_help_panel=DATA, help="The split to choose the best epoch by.")
]
Chains = Annotated[
    Path | None,
    typer.Option(
        metavar="FILE",
        rich_help_panel=DATA,
        help="Calibrate probabilities on these texts of validation pictures, from general to "
        "specific, of 'hasse study photographs abstract', and not on captions alone.",
    ),
]
Texts = Annotated[
    Path | None,
    typer.Option(
        metavar="DIR",
        rich_help_panel=DATA,
        help="Learn from these texts too, of 'hasse study photographs features': they need no "
        "pictures, and "
        "the model then knows their words.",
    ),
]
Derived = Annotated[
    Path | None,
    typer.Option(
        metavar="FILE",
        rich_help_panel=DATA,
        help="With --texts: learn from what follows from captions of training pictures, of "
        "'hasse study photographs abstract --split train'.",
    ),
]
Classes = Annotated[
    Path | None,
    typer.Option(
        metavar="FILE",
        rich_help_panel=DATA,
        help="With --texts: learn the names of the classes that the network was trained on, of "
        "'hasse study photographs classes'.",
    ),
]
ClassPictures = Annotated[
    tuple[Path, Path] | None,
    typer.Option(
        metavar="DATASET FEATURES",
        rich_help_panel=DATA,
        help="With --classes: learn from real pictures of them too, named as n01440764_tench.jpg, "
        "and their features of 'hasse lab features'.",
    ),
]
Vectors = Annotated[
    Path | None,
    typer.Option(
        "--word-vectors",
        metavar="FILE",
        rich_help_panel=DATA,
        help="Word vectors as text, a word and its numbers a line: where word vectors start, or "
        "stay with a preset cap2....",
    ),
]
ScoreName = Annotated[
    Literal["order", "order-reversed", "cosine"] | None,
    typer.Option(
        rich_help_panel=MODEL,
        help="How images and captions are compared; the presets of these names set the margin too.",
    ),
]
TextEncoder = Annotated[
    Literal["gru", "lstm", "bilstm", "sum"] | None,
    typer.Option(
        rich_help_panel=MODEL,
        help="What reads captions: a GRU, an LSTM with peepholes, the larger of two LSTMs, one "
        "of which reads backwards, or the sum of word vectors.",
    ),
]
Dimension = Annotated[
    int | None, typer.Option(min=1, rich_help_panel=MODEL, help="Coordinates of a point.")
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
        help="The network's weights: where it starts, or, with --features, those they were "
        "made with, if the file has moved.",
    ),
]
Start = Annotated[
    Path | None,
    typer.Option(
        metavar="DIR",
        rich_help_panel=MODEL,
        help="Start from the weights of this checkpoint, a folder or the name of a built-in "
        "one, of the same shape and words, instead of from nothing.",
    ),
]
Epochs = Annotated[
    int | None, typer.Option(min=1, rich_help_panel=OPTIMISATION, help="Passes at most.")
]
Patience = Annotated[
    int | None,
    typer.Option(
        min=1, rich_help_panel=OPTIMISATION, help="Stop after so many epochs without a better."
    ),
]
TrainingBatch = Annotated[
    int | None, typer.Option(min=2, rich_help_panel=OPTIMISATION, help="Pairs at a time.")
]
LearningRate = Annotated[
    float | None,
    typer.Option(rich_help_panel=OPTIMISATION, help="The optimiser's, at its highest."),
]
Margin = Annotated[
    float | None,
    typer.Option(
        rich_help_panel=OPTIMISATION,
        help="How far a false pair is kept from a true one. The paper: 0.05; cosine 0.2.",
    ),
]
Seed = Annotated[
    int | None,
    typer.Option(rich_help_panel=OPTIMISATION, help="The same seed trains the same model."),
]
Settings = Annotated[
    list[str] | None,
    typer.Option(
        "--set",
        metavar="NAME=VALUE",
        rich_help_panel=OPTIMISATION,
        help="Any other option of a training, such as --set schedule=cosine. A wrong name "
        "lists them.",
    ),
]


def train(
    *,
    dataset: DatasetFolder,
    out: ModelOut,
    preset: PresetName = None,
    features: TrainingFeatures = None,
    train_split: TrainSplit = "train",
    val_split: ValidationSplit = "val",
    chains: Chains = None,
    texts: Texts = None,
    derived: Derived = None,
    classes: Classes = None,
    class_pictures: ClassPictures = None,
    word_vectors: Vectors = None,
    score: ScoreName = None,
    text_encoder: TextEncoder = None,
    dimension: Dimension = None,
    backbone: BackboneName = None,
    weights: NetworkWeights = None,
    start: Start = None,
    epochs: Epochs = None,
    patience: Patience = None,
    batch_size: TrainingBatch = None,
    learning_rate: LearningRate = None,
    margin: Margin = None,
    seed: Seed = None,
    more: Settings = None,
    device: Device = "auto",
    workers: Workers = None,
) -> None:
    """Train a model; stop it at any time and run the same command to go on.

    The checkpoint in --out is that of the best epoch so far, so it can be evaluated and used
    while the training goes on.

    \b
    [bold]Examples[/bold]
      hasse lab train data/coco --features data/coco-features \\
          --out data/coco-model
      hasse lab train data/coco --features data/coco-features --out data/cosine \\
          --preset cosine
      hasse lab train data/scenes --preset scenes --out data/my-scenes-model
      torchrun --nproc-per-node 4 -m hasse lab train data/coco \\
          --features data/coco-features --out data/coco-model

    The last trains one model on four GPUs.
    """
    from hasse.models.training.distributed import world
    from hasse.service.pipelines.training import TrainingPlan, TrainingRequest
    from hasse.service.runtime.device import pick_device

    named: dict[str, object] = {
        **{"score": score, "dimension": dimension, "backbone": backbone, "epochs": epochs},
        **{"patience": patience, "batch_size": batch_size, "learning_rate": learning_rate},
        **{"margin": margin, "seed": seed, "text_encoder": text_encoder},
    }
    choices = parse_pairs(more or ()) | {key: v for key, v in named.items() if v is not None}
    place = pick_device(device)
    request = TrainingRequest(
        dataset,
        out,
        preset,
        choices,
        (train_split, val_split),
        features,
        weights,
        start,
        workers,
        picture_limits(),
        chains,
        texts,
        derived,
        classes,
        class_pictures,
        word_vectors,
    )
    plan = TrainingPlan.of(request, place)
    with world(place) as processes, resumable(lambda: _kept(out)), processes.lock_folder(out):
        trained = _train(plan, processes)
    if processes.leads:
        _show(plan, trained)


def _train(plan: TrainingPlan, processes: World) -> Checkpoint:
    """Train with a progress bar and Ctrl-C, which the first of several processes shows alone."""
    from hasse.models.training.run import TrainingStopped

    silent, together = not processes.leads, processes.size > 1
    bars = partial(progress, silent=silent)
    training = plan.prepare(processes, bars, (lambda _: None) if silent else tell)
    with (
        bars("training") as bar,
        stoppable(lambda: AGAIN, TrainingStopped, silent=silent, patient=together) as stop,
    ):
        report = None if silent else training_report(bar, training.epochs, _summary)
        return training.train(report, stop)


def _kept(out: Path) -> str:
    """Return what is said on Ctrl-C, of a model only where there is one."""
    from hasse.models.checkpoints.model_folder import CONFIG

    best = f"{out} holds the best epoch" if (out / CONFIG).is_file() else "no epoch was finished"
    return f"{AGAIN}; {best} so far"


def _show(plan: TrainingPlan, trained: Checkpoint) -> None:
    """Say what was trained, and what to do next: measure it, if pictures are kept for that."""
    asked = plan.request
    typer.echo(f"{asked.out}: the model {trained.name}, best of its epochs")
    read = f" --features {asked.features}" if asked.features else ""
    if not plan.config.model.has_images:
        advice = (
            f"hasse lab embed TEXTS --model {asked.out}, or "
            f"hasse study transfer FOLDER --model {asked.out}"
        )
    elif "test" in plan.dataset.splits():
        advice = f"hasse lab evaluate {asked.dataset} --model {asked.out}{read}"
    else:
        advice = f"hasse index build {asked.dataset} --model {asked.out}{read} --out ..."
    typer.echo(f"next: {advice}", err=True)


def _summary(found: Measured) -> str:
    return found.summary
