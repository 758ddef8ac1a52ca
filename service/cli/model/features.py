"""`hasse features`: every picture through a frozen network, once."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal

import typer

from service.cli.terminal.errors import CommandError, Interrupted, resumable
from service.cli.terminal.interrupt import stop_request
from service.cli.terminal.options import BatchSize, DatasetFolder, Device, Workers
from service.cli.terminal.progress import progress, tell
from service.plural import count


def features(
    *,
    dataset: DatasetFolder,
    out: Annotated[
        Path, typer.Option("--out", "-o", metavar="DIR", help="Where the features are kept.")
    ],
    backbone: Annotated[
        str,
        typer.Option(help="A torchvision classification network: vgg19 (the paper's), resnet50 .."),
    ] = "vgg19",
    weights: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="Its weights: .safetensors, or torchvision's own .pth."),
    ] = None,
    download_weights: Annotated[
        bool,
        typer.Option("--download-weights", help="Fetch torchvision's ImageNet weights, once."),
    ] = False,
    crops: Annotated[
        Literal["1", "10"],
        typer.Option(help="1: the centre. 10: the paper's, ten times the work, some points more."),
    ] = "1",
    views: Annotated[
        int,
        typer.Option(
            min=0,
            max=1000,
            help="Random cuts of each picture whose features are kept too, for training to vary "
            "what it reads. Each is as much work as a crop.",
        ),
    ] = 0,
    parts: Annotated[
        bool | None,
        typer.Option(
            show_default="where the network sees a grid, with one crop",
            help="Whether to keep the features of nine parts of each picture, and of each view, "
            "beside those of the whole: no more work, ten times the space. The preset hasse "
            "learns more from them.",
        ),
    ] = None,
    resize: Annotated[int, typer.Option(min=1, help="Pixels of the shortest side.")] = 256,
    crop: Annotated[int, typer.Option(min=1, help="Pixels of the square cut from it.")] = 224,
    framing: Annotated[
        Literal["centre", "whole"],
        typer.Option(
            help="centre keeps a picture's proportions and may miss its ends; whole squeezes all "
            "of it into the square."
        ),
    ] = "centre",
    batch_size: BatchSize = 32,
    device: Device = "auto",
    workers: Workers = None,
) -> None:
    """Compute features of all pictures with a network that stays as it is.

    It is the slow part of training, so it is done once. Stop it at any time and run the same
    command to go on. A damaged picture is left out with one line that says why, and one that has
    another size or time of change than before is read again.

    \b
    [bold]Examples[/bold]
      hasse features data/coco --backbone resnet50 --download-weights \\
          --out data/coco-features
      hasse features data/flickr8k --backbone vgg19 --weights vgg19.pth \\
          --crops 10 --out data/flickr8k-features
    """
    from models.datasets import load
    from models.encoders import backbone as networks
    from models.images.features import ExtractionStopped, extract
    from models.images.preprocessing import Preprocessing
    from service.pipelines.training import note_weights
    from service.runtime.device import pick_device

    place = pick_device(device)
    collection = load(dataset)
    if parts and crops != "1":
        raise CommandError("parts are of one crop: leave --parts or --crops out")
    try:
        looks = Preprocessing(resize=resize, crop=crop, crops=int(crops), framing=framing)
    except ValueError as error:
        raise CommandError(f"these options do not go together: {error}") from None
    if download_weights:
        if weights is not None:
            raise CommandError(f"--weights names {weights}: leave it or --download-weights out")
        with progress(f"fetching the weights of {backbone}") as report:
            weights = networks.download_weights(backbone, report)
    elif weights is None:
        raise CommandError(
            "name the network's weights with --weights FILE, or fetch torchvision's with "
            "--download-weights: features of a network that has learned nothing say nothing"
        )
    network = networks.build_backbone(backbone, weights)
    kept = f"finished features are kept in {out}; the same command goes on from there"
    with progress("features") as report, stop_request() as stop, resumable(lambda: kept):
        try:
            store = extract(
                collection,
                network,
                looks,
                out,
                views=views,
                parts=crops == "1" and network.has_grid() if parts is None else parts,
                device=place,
                batch_size=batch_size,
                workers=workers,
                progress=report,
                stop=stop,
                skipped=tell,
                changed=tell,
            )
        except ExtractionStopped as stopped:
            raise Interrupted(f"{stopped}; the same command goes on from there") from None
    note_weights(out, weights)
    known = set(store.image_ids.tolist())  # also of pictures that are in the dataset no more
    there = sum(image.id in known for image in collection.images)
    typer.echo(f"{out}: {there:,} of {count(len(collection), 'picture')}")
