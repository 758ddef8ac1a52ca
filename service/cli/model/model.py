"""`hasse lab model`: models that need no training, and what is known of all that have a name."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from hasse.service.cli.terminal.errors import CommandError
from hasse.service.cli.terminal.help_text import Commands
from hasse.service.cli.terminal.options import DatasetFolder, Encoding, Features, Json, Split
from hasse.service.cli.terminal.progress import progress, tell
from hasse.service.cli.terminal.table import print_table
from hasse.service.plural import count

if TYPE_CHECKING:
    from hasse.models.checkpoints.named_models import Description

model = Commands(help="Make a model without training; list and remove them.")

NewName = Annotated[str, typer.Argument(metavar="NAME", help="What the model will be called.")]
Name = Annotated[
    str, typer.Argument(metavar="NAME", help="The name of a model, or the folder of a checkpoint.")
]
From = Annotated[
    str,
    typer.Option(
        "--from",
        metavar="ENCODER",
        help="open_clip/MODEL:WEIGHTS, such as open_clip/ViT-B-32:laion2b_s34b_b79k. "
        "docs/encoders.md compares them.",
    ),
]
Weights = Annotated[
    Path | None,
    typer.Option(
        metavar="PATH",
        help="A file of weights, or a folder as on the Hugging Face hub, with its configuration.",
    ),
]
DownloadWeights = Annotated[
    bool,
    typer.Option("--download-weights", help="Download the weights that are published, once."),
]


@model.add
def make(
    *,
    name: NewName,
    encoder: From,
    weights: Weights = None,
    download_weights: DownloadWeights = False,
) -> None:
    """Make a model of a pretrained encoder of pictures and texts, as it is.

    It compares by the cosine. Afterwards its name is good wherever a model is asked for. It says
    how likely a caption is to be true only once 'hasse lab model calibrate' has measured it.

    \b
    Examples:
      hasse lab model make clip --from open_clip/ViT-B-32:laion2b_s34b_b79k \\
          --download-weights
      hasse use clip
    """
    from hasse.models.checkpoints import named_models
    from hasse.models.encoders import registry

    if download_weights == (weights is not None):
        raise CommandError(
            "say where the weights are, with --weights PATH, or have those that are published "
            "downloaded, with --download-weights"
        )
    named_models.require_free(name)
    if weights is None:
        weights = registry.download_weights(encoder, tell)
    folder = named_models.make(name, encoder, weights)
    _show(named_models.describe(folder))
    tell(f"next: 'hasse use {name}' brings your library over to it")


@model.add
def calibrate(
    *,
    name: Name,
    dataset: DatasetFolder,
    split: Split = None,
    features: Features = None,
    encoding: Encoding,
) -> None:
    """Measure on captioned pictures how likely captions are to be true, and keep it.

    Points do not change, and neither do indexes. A service has to be started again.

    \b
    Examples:
      hasse lab model calibrate clip data/coco
    """
    from hasse.models.checkpoints.named_models import describe, find
    from hasse.models.datasets import load
    from hasse.service.pipelines.evaluation import calibrate as measure
    from hasse.service.pipelines.training import part_to_measure
    from hasse.service.runtime.device import pick_device

    folder = find(Path(name))
    if describe(folder).built_in:
        raise CommandError(
            f"'{name}' comes with Hasse and stays as it is: copy {folder}, and name the copy"
        )
    collection = part_to_measure(load(dataset), split, "val", tell)
    source = encoding.source(features)
    found = measure(folder, collection, source, pick_device(encoding.device), progress)
    for kind, of in (("pictures", found.image), ("captions", found.caption)):
        if of is None:
            typer.echo(f"{kind}: not one true and one false pair, so nothing is known of them")
        else:
            typer.echo(
                f"{kind}: {count(of.pairs, 'pair')}, {of.true:,} of them true; called true up to "
                f"a violation of {of.threshold:.3f}"
            )


@model.command("list")
def list_(*, as_json: Json = False) -> None:
    """List the built-in models, and those that 'hasse lab model make' made."""
    from hasse.models.checkpoints.named_models import describe_models

    found = list(describe_models())
    if as_json:
        typer.echo(json.dumps([each.to_json() for each in found], indent=2))
        return
    columns = ("name", "encoder", "score", "dimension", "MB", "calibrated", "")
    rows = [
        (
            each.name,
            each.encoder,
            each.score,
            f"{each.dimension:,}",
            f"{each.megabytes:,.0f}",
            "yes" if each.calibrated else "no",
            "built in" if each.built_in else "",
        )
        for each in found
    ]
    print_table(columns, rows)


@model.add
def show(*, name: Name, as_json: Json = False) -> None:
    """Show what is known of one model."""
    from hasse.models.checkpoints.named_models import describe, find

    found = describe(find(Path(name)))
    if as_json:
        typer.echo(json.dumps(found.to_json(), indent=2))
    else:
        _show(found)


@model.add
def remove(*, name: Annotated[str, typer.Argument(metavar="NAME", help="Its name.")]) -> None:
    """Delete a model that 'hasse lab model make' made. Indexes that it made need it."""
    from hasse.models.checkpoints import named_models

    typer.echo(f"removed {named_models.remove(name)}")


def _show(found: Description) -> None:
    says = "yes" if found.calibrated else "no: 'hasse lab model calibrate' measures it on captions"
    print_table(
        ("", ""),
        [
            ("name", found.name),
            ("encoder", found.encoder),
            ("score", found.score),
            ("dimension", f"{found.dimension:,}"),
            ("size", f"{found.megabytes:,.1f} MB"),
            ("calibrated", says),
            ("folder", found.folder),
        ],
    )
