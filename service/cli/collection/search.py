"""`hasse search`: images by a caption, captions by a picture, and searches by several parts."""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from hasse.service.cli.collection.asking import Asked, answer_to
from hasse.service.cli.collection.hits import open_first, paths_of, print_hits, print_paths
from hasse.service.cli.collection.parts import caption_or_picture, parse_part, text_or_picture
from hasse.service.cli.terminal.configuration import configure
from hasse.service.cli.terminal.errors import CommandError
from hasse.service.cli.terminal.fields import options_from
from hasse.service.cli.terminal.options import Json, Library, ServiceDevice, ServiceModel
from hasse.service.cli.terminal.preview import preview as shown
from hasse.service.cli.terminal.preview import protocol_of
from hasse.service.cli.terminal.progress import tell
from hasse.service.questions import table
from hasse.service.questions.requests import PARTS_MAXIMUM, CaptionQuery, Likeness
from hasse.service.schemas import is_instant

if TYPE_CHECKING:
    from hasse.service.questions.requests import Part

_DATE = re.compile(r"\d{4}(-\d\d)?")


@options_from(
    CaptionQuery,
    without=("image", "image_ids", "offset", "path_prefix"),
    flags={
        "k": ("--k", "-k", "--top"),
        "distinct": ("--distinct/--all-captions",),
        "written": ("--written/--by-people",),
    },
)
def search(
    *,
    query: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="[TEXT_OR_PICTURE]",
            show_default=False,
            help="A caption, or the path of a picture. Leave it out with --all-of or --common.",
        ),
    ] = None,
    all_of: Annotated[
        list[str] | None,
        typer.Option(metavar="PART", help="Find images that every PART is true of; repeat it."),
    ] = None,
    common: Annotated[
        list[str] | None,
        typer.Option(metavar="PART", help="Find captions that are true of every PART; repeat it."),
    ] = None,
    plus: Annotated[
        list[str] | None,
        typer.Option(metavar="PART", help="Find images like TEXT_OR_PICTURE, with PART added."),
    ] = None,
    minus: Annotated[
        list[str] | None, typer.Option(metavar="PART", help="Take PART out; needs --plus.")
    ] = None,
    similar: Annotated[
        Likeness | None,
        typer.Option(
            help="Find images like the picture, not captions: alike, or showing more, or less."
        ),
    ] = None,
    within: Annotated[
        Path | None,
        typer.Option("--in", metavar="FOLDER", help="Search only files in this folder and below."),
    ] = None,
    fields: dict[str, Any],
    library: Library = None,
    model: ServiceModel = None,
    device: ServiceDevice = None,
    paths: Annotated[
        bool, typer.Option("--paths", help="Print the paths of the hits alone.")
    ] = False,
    null: Annotated[
        bool, typer.Option("-0", "--null", help="End each path with a NUL, for xargs -0.")
    ] = False,
    open_: Annotated[
        bool, typer.Option("--open", help="Open the first five hits in the system's viewer.")
    ] = False,
    preview: Annotated[
        bool,
        typer.Option(
            "--preview",
            help="Show the hits in the terminal: kitty, Ghostty, iTerm2, WezTerm, Konsole.",
        ),
    ] = False,
    as_json: Json = False,
) -> None:
    """Find images by a caption, or captions by a picture. No service needs to run.

    The violation tells how far a hit falls short: 0 means that the caption is true of it. Without
    captions in the collection, a picture finds the images that are like it.
    A PART is a caption or the path of a picture; beside --plus, --minus and --common a number is
    the id of an image of the collection. A word that is also the name of a file is a word, unless
    it ends as a picture does or begins with ./

    \b
    [bold]Examples[/bold]
      hasse search a dog on a beach
      hasse search photo.jpg --library data/mine
      hasse search photo.jpg --similar alike
      hasse search a dog --in ~/Pictures/2024 --taken-from 2024-07 --open
      hasse search --all-of "a dog" --all-of "a child" --all-of "a beach"
      hasse search --common one.jpg --common another.jpg
      hasse search photo.jpg --minus "a dog" --plus "a cat"
      hasse search a child -k 100 --paths -0 | xargs -0 cp -t found
    """
    if as_json and paths:
        raise CommandError("give one of --json and --paths")
    if null and not paths:
        raise CommandError("-0 needs --paths")
    protocol = protocol_of(os.environ) if preview else None
    settings = configure(library=library, model=model, device=device)
    for name, value in fields.items():
        if value is not None and is_instant(CaptionQuery.model_fields[name]):
            fields[name] = _instant(name, value)
    if within is not None:
        fields["path_prefix"] = f"{str(within.resolve()).rstrip('/')}/"
    parts = {"all_of": all_of, "common": common, "plus": plus, "minus": minus}
    named = {name: texts for name, texts in parts.items() if texts}
    answer = answer_to(settings, *_questions(query or [], named, similar, fields))
    _tell_of_nothing_in(within, answer.searched)
    if as_json:
        typer.echo(answer.model_dump_json(indent=2))
    elif paths:
        print_paths(answer, null=null)
    else:
        print_hits(answer)
    if open_:
        open_first(answer)
    if protocol is not None:
        for path in paths_of(answer):
            typer.echo(path, err=True)
            try:
                sys.stdout.write(shown(Path(path), protocol, settings.picture_pixels))
            except (OSError, ValueError) as error:
                typer.echo(f"{path} cannot be shown: {error}", err=True)


def _questions(
    words: Sequence[str],
    named: dict[str, list[str]],
    similar: Likeness | None,
    fields: dict[str, Any],
) -> Iterator[Asked]:
    """Yield the question that the arguments name, and one for where it has nothing to search.

    Raises:
        CommandError: the arguments do not go together.
    """
    if "minus" in named and "plus" not in named:
        raise CommandError("--minus needs --plus: say what replaces what you take out")
    if bool(words) + ("all_of" in named) + ("common" in named) != 1:
        raise CommandError("give one of TEXT_OR_PICTURE, --all-of PART ... or --common PART ...")
    if any(len(texts) > PARTS_MAXIMUM for texts in named.values()):
        raise CommandError(f"give at most {PARTS_MAXIMUM} parts")
    if "plus" in named and not words:
        raise CommandError("--plus needs TEXT_OR_PICTURE: say what the images should be like")
    if similar is not None and (not words or "plus" in named):
        raise CommandError("--similar needs a picture, and nothing else, to search by")
    if "all_of" in named:
        all_of = [text_or_picture(text) for text in named["all_of"]]
        yield Asked(table.SEARCH_ALL_OF, fields | {"all_of": all_of})
    elif "common" in named:
        common = [parse_part(text) for text in named["common"]]
        yield Asked(table.SEARCH_COMMON, fields | {"common": common})
    else:
        yield from _questions_by(words, named, similar, fields)


def _questions_by(
    words: Sequence[str],
    named: dict[str, list[str]],
    similar: Likeness | None,
    fields: dict[str, Any],
) -> Iterator[Asked]:
    """Yield the questions about a caption or a picture."""
    alone = len(words) == 1 and "plus" in named
    start: Part = parse_part(words[0]) if alone else caption_or_picture(words)
    if similar is not None and not isinstance(start, bytes):
        raise CommandError("--similar needs a picture, and nothing else, to search by")
    if "plus" in named:
        parts = {name: [parse_part(text) for text in texts] for name, texts in named.items()}
        yield Asked(table.SEARCH_LIKE, fields | parts | {"like": start})
    elif isinstance(start, bytes):
        if similar is None:
            yield Asked(table.SEARCH_CAPTIONS, fields | {"image": start})
        like = fields | {"image": start, "similar": similar or "alike"}
        yield Asked(table.SEARCH_SIMILAR, like)
    else:
        yield Asked(table.SEARCH_IMAGES, fields | {"caption": start})


def _tell_of_nothing_in(folder: Path | None, searched: int) -> None:
    if folder is not None and not searched:
        tell(f"no picture of the index lies in {folder} and fits the other options: check the path")


def _instant(name: str, text: str) -> str:
    """Return a date as the service takes it; raises CommandError for what is none."""
    whole = text + {4: "-01-01", 7: "-01"}.get(len(text), "") if _DATE.match(text) else text
    try:
        found = datetime.fromisoformat(whole)
    except ValueError:
        option = f"--{name.replace('_', '-')}"
        raise CommandError(f"{option} {text} is no date: write it as 2024-07-31") from None
    return (found if found.tzinfo else found.replace(tzinfo=UTC)).isoformat()
