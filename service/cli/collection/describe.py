"""`hasse describe`: writes captions for a picture, or for all pictures of a library."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import typer

from hasse.service.cli.collection.asking import FilledQuestion, answer_question
from hasse.service.cli.collection.parts import parse_picture
from hasse.service.cli.terminal.errors import CommandError, resumable
from hasse.service.cli.terminal.fields import OptionsOf
from hasse.service.cli.terminal.options import Json, LibraryOptions
from hasse.service.cli.terminal.progress import progress
from hasse.service.cli.terminal.table import print_table
from hasse.service.plural import count
from hasse.service.questions import table
from hasse.service.questions.requests import DescribeQuery

if TYPE_CHECKING:
    from hasse.service.questions.answers import Description
    from hasse.service.settings import Settings


def describe(
    *,
    picture: Annotated[
        str | None,
        typer.Argument(metavar="[PICTURE]", help="Its path, or the id of one in the library."),
    ] = None,
    all_pictures: Annotated[
        bool, typer.Option("--all", help="Write one for each picture of the library that has none.")
    ] = False,
    sidecars: Annotated[
        bool,
        typer.Option(
            "--sidecars", help="With --all: write them and keywords to .xmp beside pictures too."
        ),
    ] = False,
    fields: Annotated[dict[str, Any], OptionsOf(DescribeQuery, ("image_id",), {"k": ("-n",)})],
    as_json: Json = False,
    library: LibraryOptions,
) -> None:
    """Write captions for a picture, with how likely each is true. It needs no library.

    With --all, the first caption of each picture is kept and found by searches, marked as written
    by a model. Stop it at any time: the same command goes on.

    \b
    Examples:
      hasse describe photo.jpg
      hasse describe --all
    """
    settings = library.settings()
    if all_pictures == (picture is not None):
        raise CommandError("give one of PICTURE and --all")
    if picture is None:
        _describe_all(settings, sidecars=sidecars)
        return
    if sidecars:
        raise CommandError("--sidecars needs --all")
    answer = _describe_picture(settings, parse_picture(picture), fields)
    if as_json:
        typer.echo(answer.model_dump_json(indent=2))
        return
    print_table(
        ("likely", "written caption"),
        [(f"{caption.probability:.0%}", caption.text) for caption in answer.captions],
    )


def _describe_picture(
    settings: Settings, picture: int | bytes, fields: dict[str, Any]
) -> Description:
    """Describe an image of the library, by its id, or a picture, by its bytes."""
    from hasse.models.captioning.phrases import PhraseWriter
    from hasse.models.images.decoding import open_picture
    from hasse.service.core import loading
    from hasse.service.errors import validated
    from hasse.service.questions import describe as describing

    fields = fields | {"image_id": picture}
    if isinstance(picture, int):
        answer: Description = answer_question(settings, FilledQuestion(table.DESCRIBE, fields))
        return answer
    request = validated(DescribeQuery, fields)
    loaded = loading.ModelLoader(settings).alone()
    writer = PhraseWriter(loaded)
    decoded = open_picture(picture, settings.picture_limits, loaded.model.preprocessing.resize)
    return describing.answer_without_index(writer, decoded, request)


def _describe_all(settings: Settings, *, sidecars: bool) -> None:
    """Write a caption for each picture of a library without a human caption."""
    from hasse.models.captioning.phrases import PhraseWriter
    from hasse.service.cli.collection.additions import merge_small
    from hasse.service.core import loading
    from hasse.service.pipelines.describing import describe_index, write_sidecars

    loaded, opened = loading.ModelLoader(settings, with_pictures=False).with_index()
    with opened:
        writer = PhraseWriter(loaded)
        message = "what is written is kept; the same command goes on from there"
        with progress("writing captions") as report, resumable(lambda: message):
            added, without = describe_index(opened, writer, report=report)
        merge_small(opened)
        unsure = f"; nothing is surely true of {count(without, 'picture')}" if without else ""
        typer.echo(f"{count(added, 'caption')} written{unsure}")
        if sidecars:
            written, unchanged = write_sidecars(opened)
            typer.echo(f"{count(written, 'sidecar')} written, {unchanged:,} left as they are")
