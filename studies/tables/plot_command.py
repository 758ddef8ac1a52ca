"""`hasse study plot`: words and pictures of a model in a plane."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from hasse.service.cli.terminal.configuration import picture_limits
from hasse.service.cli.terminal.errors import CommandError
from hasse.service.cli.terminal.options import Device, ModelOrPhotographs
from hasse.service.plural import count


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

    from hasse.models.checkpoints import checkpoint, named_models
    from hasse.models.images.decoding import open_file
    from hasse.service.runtime.device import pick_device
    from hasse.studies.tables.plane import draw, principal_plane
    from hasse.studies.tables.plotter import require_matplotlib

    require_matplotlib()
    texts = [text.strip() for text in words.split(",") if text.strip()]
    paths = pictures or []
    if len(texts) + len(paths) < 3:
        raise CommandError("a plane needs at least three words or pictures: name more of them")
    loaded = checkpoint.load(
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
