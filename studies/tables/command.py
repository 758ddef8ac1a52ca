"""`hasse study figures`, `lengths` and `plot`: more about a model."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from hasse.lab.commands.options import DatasetFolder, Features, Model, ModelOrPhotographs, Split
from hasse.lab.features.source import with_features
from hasse.service.cli.terminal.configuration import picture_limits
from hasse.service.cli.terminal.errors import CommandError, resumable
from hasse.service.cli.terminal.options import Device, Json
from hasse.service.cli.terminal.progress import progress, tell
from hasse.service.plural import count

if TYPE_CHECKING:
    from hasse.lab.pipelines.evaluation import ModelEvaluation

Figures = Annotated[Path, typer.Option("--out", "-o", metavar="DIR", help="Where they go.")]


def figures(
    *,
    dataset: DatasetFolder,
    out: Figures,
    model: Model = None,
    split: Split = None,
    features: Features = None,
    device: Device = "auto",
) -> None:
    """Draw recall curves, ranks, violations and points of a model, as SVG.

    The result of the evaluation is written beside them, as JSON.

    \b
    Example:
      hasse study figures data/coco --model data/order \\
          --features data/coco-features --out data/order-figures
    """
    from hasse.studies.plotter import require_matplotlib
    from hasse.studies.tables.figures import draw

    require_matplotlib()
    measured, result = _measured(dataset, split, model, features, device)
    some = f"{out} holds some of the figures; the same command draws them all"
    with progress("drawing") as report, resumable(lambda: some):
        drawn = draw(measured, out, report)
    (out / "evaluation.json").write_text(json.dumps(result, indent=2) + "\n", encoding="utf-8")
    typer.echo(f"{out}: {count(len(drawn), 'figure')}")


def lengths(
    *,
    dataset: DatasetFolder,
    model: Model = None,
    split: Split = None,
    features: Features = None,
    device: Device = "auto",
    as_json: Json = False,
) -> None:
    """Measure whether captions of very different length find each other, and their image.

    \b
    Example:
      hasse study lengths data/coco --model data/order \\
          --features data/coco-features
    """
    from hasse.studies.tables.length_study import length_study

    measured, _ = _measured(dataset, split, model, features, device)
    encoded = measured.encoded
    study = length_study(encoded.dataset, encoded.images, encoded.captions, measured.score)
    if study is None:
        raise CommandError("no image has two captions of different lengths: name another dataset")
    if as_json:
        typer.echo(json.dumps({"model": measured.name, **study.to_json()}, indent=2))
        return
    typer.echo(
        f"captions of one image that differ by {count(study.least_gap, 'word')} or more, "
        f"{count(study.pairs, 'pair')}: mean rank of the image {study.image_rank:.1f}, of the "
        f"longer caption by the shorter one {study.caption_rank:.1f}"
    )


def plot(
    *,
    pictures: Annotated[
        list[Path] | None, typer.Argument(metavar="[PICTURE]...", help="Pictures to draw.")
    ] = None,
    words: Annotated[
        str, typer.Option(help="Words or texts to draw, with commas between them.")
    ] = "",
    out: Annotated[
        Path, typer.Option("--out", "-o", metavar="FILE", help="Where the drawing goes: an .svg.")
    ],
    model: ModelOrPhotographs = Path("photographs"),
    device: Device = "auto",
) -> None:
    """Draw words and pictures in two dimensions, as a model embeds them.

    The plane is that of the two principal components of all that is drawn, as in Figure 5 of
    Kiros et al. (2014).

    \b
    Example:
      hasse study plot cars/*.jpg --words "red,blue,green,car" --out cars.svg
    """
    import numpy as np

    from hasse.lab.checkpoints import learned_model
    from hasse.models.checkpoints import named_models
    from hasse.models.images.decoding import open_file
    from hasse.service.core.device import pick_device
    from hasse.studies.plotter import require_matplotlib
    from hasse.studies.tables.plane import draw, principal_plane

    require_matplotlib()
    texts = [text.strip() for text in words.split(",") if text.strip()]
    paths = pictures or []
    if len(texts) + len(paths) < 3:
        raise CommandError("a plane needs at least three words or pictures: name more of them")
    loaded = learned_model.load(
        named_models.find(model), pick_device(device), with_pictures=bool(paths)
    )
    if unknown := [text for text in texts if not loaded.vocabulary.knows(text)]:
        raise CommandError(f"{loaded.name} knows no word of '{unknown[0]}': leave it out")
    opened = [open_file(path, picture_limits()) for path in paths]
    points = [loaded.model.encode_captions(texts)] if texts else []
    if opened:
        points.append(loaded.model.encode_images(opened))
    places, share = principal_plane(np.concatenate(points))
    draw(places, texts, opened, out)
    typer.echo(
        f"{out}: {count(len(texts), 'text')} and {count(len(opened), 'picture')}; the plane shows "
        f"{share:.0%} of their variance"
    )


def _measured(
    dataset: Path, split: str | None, model: Path | None, features: Path | None, device: str
) -> tuple[ModelEvaluation, dict[str, Any]]:
    from hasse.lab.pipelines.evaluation import EvaluationRequest
    from hasse.service.core.device import pick_device
    from hasse.service.writing.image_source import ImageSource

    source = with_features(ImageSource(skipped=tell, limits=picture_limits()), features)
    request = EvaluationRequest(dataset, split, model, source=source)
    return request.run(pick_device(device), progress, tell)
