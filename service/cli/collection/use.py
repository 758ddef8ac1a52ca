"""`hasse use`: changes the model of a library."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from hasse.service.cli.terminal.configuration import configure
from hasse.service.cli.terminal.errors import CommandError, resumable
from hasse.service.cli.terminal.options import Encoding, Library
from hasse.service.cli.terminal.progress import progress, tell
from hasse.service.plural import count


def use(
    *,
    model: Annotated[Path, typer.Argument(metavar="MODEL", help="A name or a folder.")],
    library: Library = None,
    yes: Annotated[
        bool, typer.Option("--yes", "-y", help="Download a model without asking first.")
    ] = False,
    leave_out_missing: Annotated[
        bool,
        typer.Option("--leave-out-missing", help="Go on if a whole folder of pictures is missing."),
    ] = False,
    encoding: Encoding,
) -> None:
    """Change the model of the library: encode its pictures and captions anew.

    A picture that cannot be read is removed with its captions, and one line says why. Until the
    end, searches use the old model, and nobody else can write. Stop it at any time: the same
    command goes on.

    MODEL is a name of 'hasse lab model list', a folder of ONNX graphs as on the Hugging Face hub,
    or clip, clip-multilingual or siglip. These are downloaded, after their size and source are
    shown and you say yes.

    \b
    Examples:
      hasse use clip
      hasse use ~/models/ViT-B-32__openai
    """
    from hasse.index.errors import MissingIndexError, UnfinishedIndexError
    from hasse.service.cli.collection.additions import load_checkpoint, require_no_demo
    from hasse.service.cli.collection.model_choice import choose_model
    from hasse.service.writing import indexing

    require_no_demo(str(model))
    folder = configure(library=library).index
    checkpoint = load_checkpoint(choose_model(model, yes=yes), encoding.device)
    message = "the library is as it was; the same command goes on with what is missing"
    try:
        with progress("encoding") as report, resumable(lambda: message):
            result = indexing.reencode(
                folder, checkpoint, encoding.source(), report, leave_out_missing=leave_out_missing
            )
    except UnfinishedIndexError:
        raise
    except MissingIndexError as error:
        raise CommandError(
            f"the model '{checkpoint.name}' is ready, and there is no library in {folder} yet: "
            f"'hasse add FOLDER --model {checkpoint.name}' makes one"
        ) from error
    if result is None:
        typer.echo(f"the library uses the model '{checkpoint.name}' already")
        return
    left_out = f"; {count(result.left_out, 'picture')} left out" if result.left_out else ""
    typer.echo(f"{count(result.images, 'picture')} read by '{checkpoint.name}'{left_out}")
    tell("a service that runs on it uses the old model until it is restarted")
