"""`hasse lab model`: makes models without training, lists, calibrates, converts, removes them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from hasse.lab.commands.options import DatasetFolder, Features, Split
from hasse.service.cli.terminal.errors import CommandError
from hasse.service.cli.terminal.help_text import Commands
from hasse.service.cli.terminal.options import Encoding, Json
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

    The encoders become ONNX graphs, which run without torch and open_clip. The model compares by
    the cosine. Afterwards its name is good wherever a model is asked for. It says
    how likely a caption is to be true only once 'hasse lab model calibrate' has measured it.

    \b
    Examples:
      hasse lab model make clip --from open_clip/ViT-B-32:laion2b_s34b_b79k \\
          --download-weights
      hasse use clip
    """
    from hasse.lab.encoders import registry
    from hasse.models.checkpoints import named_models

    if download_weights == (weights is not None):
        raise CommandError(
            "name the file of the weights with --weights PATH, or download the published ones "
            "with --download-weights"
        )
    named_models.require_free(name)
    if weights is None:
        weights = registry.download_weights(encoder, tell)
    pair = registry.build_encoder_pair(encoder, weights)
    from hasse.lab.encoders.pair_export import exported  # needs open_clip, which made the pair

    with exported(encoder, pair) as files:
        folder = named_models.make(name, files)
    _print_model(named_models.describe(folder))
    tell(f"next: 'hasse use {name}' brings your library over to it")


@model.add
def convert(*, name: Name) -> None:
    """Bring a model of version 0.3.0, made of open_clip's encoders, to ONNX graphs.

    Points stay the same up to rounding, so libraries that it has encoded stay as they are. Its
    calibration stays, too.

    \b
    Example:
      hasse lab model convert clip
    """
    from hasse.lab.encoders.registry import require_library
    from hasse.models.checkpoints.named_models import describe, find

    require_library("open_clip/")
    from hasse.lab.encoders.pair_export import convert as replace

    folder = find(Path(name))
    replace(folder)
    _print_model(describe(folder))


@model.add
def calibrate(
    *,
    name: Name,
    dataset: DatasetFolder,
    split: Split = None,
    features: Features = None,
    encoding: Encoding,
) -> None:
    """Calibrate the probabilities of a model on captioned pictures.

    Points and indexes do not change. Restart a service that uses the model.

    \b
    Examples:
      hasse lab model calibrate clip data/coco
    """
    from hasse.lab.features.source import with_features
    from hasse.lab.pipelines.evaluation import calibrate as measure
    from hasse.lab.pipelines.training import part_to_measure
    from hasse.models.calibration import Calibration
    from hasse.models.checkpoints.named_models import describe, find
    from hasse.models.datasets import load
    from hasse.service.core.device import pick_device

    folder = find(Path(name))
    if describe(folder).built_in:
        raise CommandError(
            f"'{name}' comes with Hasse and stays as it is: copy {folder}, and name the copy"
        )
    collection = part_to_measure(load(dataset), split, "val", tell)
    source = with_features(encoding.source(), features)
    result = measure(folder, collection, source, pick_device(encoding.device), progress)
    for kind, fit in (("pictures", result.image), ("captions", result.caption)):
        if fit is None:
            typer.echo(f"{kind}: not calibrated, for lack of a true and a false pair")
        elif isinstance(fit, Calibration):
            typer.echo(
                f"{kind}: {count(fit.pairs, 'pair')}, {fit.true:,} of them true; called true up to "
                f"a violation of {fit.threshold:.3f}"
            )


@model.add
def export(
    *,
    folder: Annotated[Path, typer.Argument(metavar="FOLDER", help="The folder of a checkpoint.")],
) -> None:
    """Write the network of pictures of a model that an earlier version trained.

    Without it, the model encodes captions only. Points, fingerprint and indexes do not change.

    \b
    Examples:
      hasse lab model export data/mine-model
    """
    from hasse.lab.checkpoints import learned_model

    if learned_model.export(folder):
        typer.echo(f"{folder} encodes pictures without torch now")
    else:
        typer.echo(f"{folder} needs no network of its own: an installed package has it")


@model.command("list")
def list_(*, as_json: Json = False) -> None:
    """List the built-in models, and those that 'hasse use' and 'hasse lab model make' made."""
    from hasse.models.checkpoints.named_models import describe_models

    models = list(describe_models())
    if as_json:
        typer.echo(json.dumps([each.to_json() for each in models], indent=2))
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
        for each in models
    ]
    print_table(columns, rows)


@model.add
def show(*, name: Name, as_json: Json = False) -> None:
    """Show the encoder, score, size and folder of a model."""
    from hasse.models.checkpoints.named_models import describe, find

    description = describe(find(Path(name)))
    if as_json:
        typer.echo(json.dumps(description.to_json(), indent=2))
    else:
        _print_model(description)


@model.add
def remove(*, name: Annotated[str, typer.Argument(metavar="NAME", help="Its name.")]) -> None:
    """Delete a model that is not built in. Libraries that it encoded need it."""
    from hasse.models.checkpoints import named_models

    typer.echo(f"removed {named_models.remove(name)}")


def _print_model(description: Description) -> None:
    remedy = "no: 'hasse lab model calibrate' measures it on captions"
    print_table(
        ("", ""),
        [
            ("name", description.name),
            ("encoder", description.encoder),
            ("score", description.score),
            ("dimension", f"{description.dimension:,}"),
            ("size", f"{description.megabytes:,.1f} MB"),
            ("calibrated", "yes" if description.calibrated else remedy),
            ("folder", description.folder),
        ],
    )
