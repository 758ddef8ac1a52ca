"""`hasse lab embed`: writes the embeddings of texts or pictures."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from hasse.lab.commands.options import ModelOrPhotographs
from hasse.service.cli.terminal.options import Encoding
from hasse.service.cli.terminal.progress import progress, tell
from hasse.service.plural import count

Inputs = Annotated[
    list[Path] | None,
    typer.Argument(
        metavar="[INPUT]...",
        show_default="lines of standard input",
        help="A file with one text a line; or pictures, and folders of pictures.",
    ),
]
Out = Annotated[
    Path | None,
    typer.Option(
        "--out",
        "-o",
        metavar="FILE",
        show_default="JSON lines on standard output",
        help="A .npy file gets an array with a row for each input, any other file JSON lines.",
    ),
]
_LISTED = 5  # maximum of line numbers in a message


def embed(
    *,
    inputs: Inputs = None,
    model: ModelOrPhotographs = Path("photographs"),
    out: Out = None,
    encoding: Encoding,
) -> None:
    """Write the embeddings of texts or of pictures, for your own programs.

    Rows are in the order of the lines, or of the pictures: a folder's by name. A picture that
    cannot be read has a row of NaN (null in JSON).

    \b
    Examples:
      hasse lab embed captions.txt --out captions.npy
      hasse lab embed ~/Pictures --model data/mine-model --out pictures.jsonl
      echo "a dog on a beach" | hasse lab embed
    """
    from hasse.lab.checkpoints import learned_model
    from hasse.lab.pipelines import embedding
    from hasse.models.checkpoints import named_models
    from hasse.service.core.device import pick_device

    items = embedding.read_inputs(inputs or [embedding.STANDARD_INPUT])
    texts = [item for item in items if isinstance(item, str)]
    pictures = [item for item in items if isinstance(item, Path)]
    loaded = learned_model.load(
        named_models.find(model), pick_device(encoding.device), with_pictures=bool(pictures)
    )
    blocks = (
        embedding.text_blocks(loaded, texts, loaded.model.encode_captions)
        if texts
        else embedding.picture_blocks(loaded, pictures, encoding.source())
    )
    shape = len(items), loaded.model.config.dimension
    with progress("embedding") as report:
        unknown = embedding.write(blocks, out, shape, lambda done: report(done, len(items)))
    if unknown:
        first = ", ".join(str(at + 1) for at in unknown[:_LISTED])
        more = ", ..." if len(unknown) > _LISTED else ""
        tell(
            f"{count(len(unknown), 'line')} of {len(items):,} without a word that the model "
            f"{loaded.name} knows, whose embeddings say nothing: {first}{more}"
        )
    if out is not None:
        tell(
            f"{out}: {shape[0]:,} x {shape[1]:,}, score {loaded.model.config.score}, model "
            f"{loaded.name} {loaded.fingerprint[:12]}"
        )
