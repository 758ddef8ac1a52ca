"""`hasse distill`: a small network of one's own, from what a larger one sees."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from service.cli.model.training_report import training_report
from service.cli.terminal.errors import CommandError, Interrupted, resumable
from service.cli.terminal.interrupt import stop_request
from service.cli.terminal.options import DatasetFolder, Device, Workers
from service.cli.terminal.progress import progress, tell

if TYPE_CHECKING:
    from torch import Tensor

    from models.encoders.backbone import Backbone


def distill(
    *,
    dataset: DatasetFolder,
    out: Annotated[
        Path,
        typer.Option("--out", "-o", metavar="DIR", help="Where the student and its work are kept."),
    ],
    teacher: Annotated[
        str,
        typer.Option(
            help="What to learn from: a torchvision network, or a checkpoint, of which the student "
            "learns to see what tells its captions apart.",
        ),
    ] = "mobilenet_v2",
    weights: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE",
            show_default="those of the checkpoint",
            help="The weights of a torchvision teacher: .safetensors, or torchvision's own .pth.",
        ),
    ] = None,
    student: Annotated[
        str, typer.Option(help="The torchvision network that learns, a smaller one.")
    ] = "mnasnet1_0",
    start: Annotated[
        Path | None,
        typer.Option(
            metavar="PATH",
            show_default="random weights",
            help="What the student begins with: a file of weights, or a checkpoint's network (a "
            "folder, or a built-in one's name).",
        ),
    ] = None,
    split: Annotated[
        str, typer.Option(help="The pictures to learn from. Their captions are not read.")
    ] = "train",
    side: Annotated[
        int, typer.Option(min=32, help="Pixels along a side that the student sees.")
    ] = 128,
    teacher_side: Annotated[int, typer.Option(min=32, help="Likewise the teacher.")] = 224,
    epochs: Annotated[
        int, typer.Option(min=1, help="Passes over the pictures: of each, a new cut in every one.")
    ] = 60,
    batch_size: Annotated[int, typer.Option(min=2, help="Cuts at a time.")] = 128,
    learning_rate: Annotated[float, typer.Option(help="AdamW's, at its highest.")] = 2e-3,
    seed: Annotated[int, typer.Option(help="Of all that is random.")] = 0,
    device: Device = "auto",
    workers: Workers = None,
) -> None:
    """Train a small network to see what a larger one sees.

    Both look at the same random cuts of the pictures, under other colours and laid over each
    other; the student has to say what the teacher saw, and what its layers held. A checkpoint as
    the teacher leaves out what no caption speaks of. More epochs are better, for a long time. Stop
    it at any time and run the same command to go on. What comes out are weights for 'hasse
    features --backbone'.

    \b
    [bold]Examples[/bold]
      hasse distill data/flickr8k --weights mobilenet_v2.safetensors \\
          --out data/student
      hasse distill data/flickr8k --teacher data/model --epochs 280 \\
          --out data/student
      hasse distill data/coco --teacher resnet50 --weights resnet50.pth \\
          --out data/student
    """
    from models.checkpoints import checkpoint
    from models.datasets import load
    from models.encoders.backbone import build_backbone
    from models.encoders.mixed_precision import multiplies_bfloat16
    from models.files import alone_in
    from models.images.pixel_store import cache_pixels
    from models.images.preprocessing import Preprocessing
    from models.training.distillation import (
        DistillationConfig,
        distil,
        identity,
    )
    from models.training.run import TrainingStopped, require_same
    from service.runtime.device import pick_device

    place = pick_device(device)
    try:
        config = DistillationConfig(
            student=student,
            side=side,
            teacher_side=teacher_side,
            epochs=epochs,
            batch_size=batch_size,
            learning_rate=learning_rate,
            bfloat16=multiplies_bfloat16(place),
            seed=seed,
        )
    except ValueError as error:
        raise CommandError(f"these options do not go together: {error}") from None
    # All that can be wrong is told before the pictures are read, which takes long.
    collection = load(dataset).split(split)
    looks = Preprocessing(resize=teacher_side, crop=teacher_side, framing="whole")
    build_backbone(student).keep_grid().require_side(side)
    network, projection = _teacher(teacher, weights)
    network.require_side(teacher_side)
    begun = None
    if start is not None and start.is_file():
        begun = build_backbone(student, start)
    elif start is not None:
        found = checkpoint.find(start)
        begun = checkpoint.load(found, to_learn=True).model.images.backbone
        if begun.name != student:
            raise CommandError(
                f"{start} has a {begun.name}, and the student is a {student}: name another --start "
                f"or --student"
            )
    config.require_enough(len(collection))
    begins = None if begun is None else begun.network.state_dict()
    kept = f"what is done is kept in {out}; the same command goes on from there"
    with resumable(lambda: kept), alone_in(out):
        # Those of another distillation would take the place of its pictures.
        require_same(out, identity(config, collection.images, network, projection, begins))
        with progress("reading pictures") as report:
            pictures = cache_pixels(
                collection,
                looks,
                out / "pictures",
                workers=workers,
                progress=report,
                skipped=tell,
            )
        with stop_request() as stop, progress("learning") as report:
            try:
                path = distil(
                    config,
                    pictures.pixels,
                    network,
                    out,
                    images=collection.images,
                    projection=projection,
                    start=begins,
                    device=place,
                    report=training_report(report, epochs, _described),
                    stop=stop,
                )
            except TrainingStopped as stopped:
                raise Interrupted(f"{stopped}; {kept}") from None
    typer.echo(f"{path}: weights of {student}")
    typer.echo(
        f"next: hasse features {dataset} --backbone {student} --weights {path} "
        f"--resize {side} --crop {side} --framing whole --out ...",
        err=True,
    )


def _teacher(named: str, weights: Path | None) -> tuple[Backbone, Tensor | None]:
    """Return a network that keeps its grid, and what a checkpoint makes of its features (N, F)."""
    from models.checkpoints import checkpoint
    from models.encoders.backbone import build_backbone

    if weights is not None:
        return build_backbone(named, weights).keep_grid(), None
    folder = checkpoint.find(Path(named))
    if not folder.is_dir():
        raise CommandError(
            f"there is no checkpoint {named}: name its folder, or the --weights of a torchvision "
            f"network"
        )
    images = checkpoint.load(folder, to_learn=True).model.images
    return images.backbone.keep_grid(), images.projection.weight.detach()


def _described(explained: float) -> str:
    return f"explains {explained:.1%} of what the teacher sees in pictures not learned from"
