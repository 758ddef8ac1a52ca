"""`hasse search`: images by a caption, captions by a picture, and searches by several parts."""

from __future__ import annotations

import asyncio
import math
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal, TypeVar

import typer

from models.images.formats import PICTURE_SUFFIXES
from service.cli.terminal.configuration import configure
from service.cli.terminal.errors import CommandError
from service.cli.terminal.options import Json, ServiceDevice, ServiceIndex, ServiceModel
from service.cli.terminal.table import print_table

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterable, Sequence

    from service.core.engine import Engine
    from service.lattice_schemas import CommonAnswer, Entailment, Part
    from service.schemas import (
        CaptionAnswer,
        CaptionHit,
        ImageAnswer,
        ImageHit,
        SearchFacts,
        SearchOptions,
    )
    from service.settings import Settings

Result = TypeVar("Result")

# Copies of service.lattice_schemas and service.schemas, which would load pydantic before --help.
_PARTS_MAXIMUM, _K_MAXIMUM, _CANDIDATES_MAXIMUM = 16, 1000, 1_000_000


Query = Annotated[
    str | None,
    typer.Argument(
        metavar="[TEXT_OR_PICTURE]",
        show_default=False,
        help="A caption, or the path of a picture. Leave it out with --all-of or --common.",
    ),
]
AllOf = Annotated[
    list[str] | None,
    typer.Option(metavar="PART", help="Find images that every PART is true of; repeat it."),
]
Common = Annotated[
    list[str] | None,
    typer.Option(metavar="PART", help="Find captions that are true of every PART; repeat it."),
]
Plus = Annotated[
    list[str] | None,
    typer.Option(metavar="PART", help="Find images like TEXT_OR_PICTURE, with PART added."),
]
Minus = Annotated[
    list[str] | None, typer.Option(metavar="PART", help="Take PART out; needs --plus.")
]
K = Annotated[int, typer.Option("--k", "-k", min=1, max=_K_MAXIMUM, help="How many hits to print.")]
SearchMode = Annotated[
    Literal["certified", "exact", "fast"],
    typer.Option(
        help="certified: provably the exact best. exact: a full scan. fast: likely the best."
    ),
]
Candidates = Annotated[
    int | None,
    typer.Option(
        min=1, max=_CANDIDATES_MAXIMUM, help="How many candidates the prefilter passes on."
    ),
]
MaxViolation = Annotated[
    float | None, typer.Option(min=0.0, help="Leave out hits with a larger violation.")
]


def search(
    *,
    query: Query = None,
    all_of: AllOf = None,
    common: Common = None,
    plus: Plus = None,
    minus: Minus = None,
    index: ServiceIndex = None,
    model: ServiceModel = None,
    k: K = 10,
    mode: SearchMode = "certified",
    candidates: Candidates = None,
    max_violation: MaxViolation = None,
    device: ServiceDevice = None,
    as_json: Json = False,
) -> None:
    """Find images by a caption, or captions by a picture. No service needs to run.

    The violation tells how far a hit falls short: 0 means that the caption is true of it.
    A PART is a caption, the path of a picture, or the id of an image of the collection.

    \b
    [bold]Examples[/bold]
      hasse search "a dog on a beach"
      hasse search photo.jpg --index data/mine-index
      hasse search --all-of "a dog" --all-of "a child" --all-of "a beach"
      hasse search --common one.jpg --common another.jpg
      hasse search photo.jpg --minus "a dog" --plus "a cat"
      hasse search "a child" -k 100 --json | jq -r '.hits\\[].file_name'
    """
    from service.schemas import SearchOptions

    if max_violation is not None and not math.isfinite(max_violation):
        raise CommandError("--max-violation takes a finite number; leave it out to keep all hits")
    settings = configure(index=index, model=model, device=device)
    options = SearchOptions(k=k, mode=mode, candidates=candidates, max_violation=max_violation)
    _check(query, all_of or [], common or [], plus or [], minus or [])
    start = None if query is None else (parse_part if plus else _parse_text_or_picture)(query)
    every, shared, added, removed = (
        [parse_part(text) for text in texts or []] for texts in (all_of, common, plus, minus)
    )
    answer = ask(
        settings,
        lambda engine: _search(engine, options, start, every, shared, added, removed),
        [start, *every, *shared, *added, *removed],
    )
    if as_json:
        typer.echo(answer.model_dump_json(indent=2))
    else:
        _print(answer)


async def _search(
    engine: Engine,
    options: SearchOptions,
    start: Part | None,
    all_of: Sequence[Part],
    common: Sequence[Part],
    plus: Sequence[Part],
    minus: Sequence[Part],
) -> ImageAnswer | CaptionAnswer:
    from service.core import by_picture, lattice
    from service.core.stages import Stages

    if all_of:
        return await lattice.all_of(engine, all_of, options, Stages())
    if start is None:
        return await lattice.common(engine, common, options, Stages())
    if plus:
        return await lattice.like(engine, start, plus, minus, options, Stages())
    if isinstance(start, bytes):
        return await by_picture.captions(engine, start, options, Stages())
    return await engine.images_by_caption(str(start), options)


def _check(
    query: str | None, all_of: list[str], common: list[str], plus: list[str], minus: list[str]
) -> None:
    """Raise CommandError if the options do not go together."""
    if minus and not plus:
        raise CommandError("--minus needs --plus: say what replaces what you take out")
    if sum(map(bool, (query is not None, all_of, common))) != 1:
        raise CommandError("give one of TEXT_OR_PICTURE, --all-of PART ... or --common PART ...")
    if len(max(all_of, common, plus, minus, key=len)) > _PARTS_MAXIMUM:
        raise CommandError(f"give at most {_PARTS_MAXIMUM} parts")
    if plus and query is None:
        raise CommandError("--plus needs TEXT_OR_PICTURE: say what the images should be like")


def parse_part(text: str) -> Part:
    """Read an argument as the id of a stored image, a picture, or a caption."""
    from service.schemas import image_id_of

    image_id = image_id_of(text)
    return _parse_text_or_picture(text) if image_id is None else image_id


def _parse_text_or_picture(query: str) -> str | bytes:
    """Return the bytes of the picture at this path, or the caption itself."""
    path = Path(query)
    names_picture = path.suffix.lower() in PICTURE_SUFFIXES
    try:
        if path.is_file():
            return path.read_bytes()
    except ValueError:  # a NUL, or longer than any path can be
        return query
    except OSError as error:
        if names_picture:
            raise CommandError(f"{query} cannot be read: {error.strerror}") from None
        return query
    if names_picture:
        raise CommandError(f"there is no picture {query}: check the path")
    return checked_text(query)


def checked_text(text: str) -> str:
    """Return an argument that is a caption; raises CommandError if it is not UTF-8."""
    try:
        text.encode()
    except UnicodeEncodeError:  # Python represents undecodable bytes as surrogates
        raise CommandError("the query is not text in UTF-8: check the shell's locale") from None
    return text


def ask(
    settings: Settings,
    question: Callable[[Engine], Awaitable[Result]],
    parts: Iterable[Part | None],
) -> Result:
    """Answer one question; the image encoder is loaded only if a part is a picture."""
    from service.core.engine import Engine

    async def answer() -> Result:
        with_pictures = any(isinstance(part, bytes) for part in parts)
        engine = Engine.for_one_question(settings, with_pictures=with_pictures)
        try:
            return await question(engine)
        finally:
            engine.close()

    return asyncio.run(answer())


def _print(answer: ImageAnswer | CaptionAnswer) -> None:
    from service.lattice_schemas import CommonAnswer
    from service.schemas import ImageAnswer

    columns = ("rank", "violation", "likely")
    if isinstance(answer, ImageAnswer):
        print_table(
            (*columns, "file name", "caption"),
            [(*_cells(hit), hit.file_name, "".join(hit.captions[:1])) for hit in answer.hits],
        )
    else:
        print_table(
            (*columns, "caption", "of image"),
            [(*_cells(hit), hit.caption, str(hit.image_id)) for hit in answer.hits],
        )
    if isinstance(answer, ImageAnswer | CommonAnswer):
        warn_of_unknown_words(answer)
    typer.echo(_summary(answer), err=True)


def _cells(hit: ImageHit | CaptionHit) -> tuple[str, str, str]:
    likely = "unknown" if hit.probability is None else f"{hit.probability:.0%}"
    return str(hit.rank), f"{hit.violation:.4f}", likely


def warn_of_unknown_words(answer: ImageAnswer | CommonAnswer | Entailment) -> None:
    """Name the words of the question that the model does not know, if any."""
    if answer.unknown_words:
        unknown = ", ".join(answer.unknown_words)
        typer.echo(f"the model {answer.model} does not know: {unknown}", err=True)


def _summary(answer: SearchFacts) -> str:
    if not answer.searched:
        return "the collection has no captions to search"
    proof = "certified: the exact best" if answer.certified else "not proved to be the exact best"
    return (
        f"{proof} of {answer.searched:,}; {answer.rescored:,} scored exactly ({answer.plan}); "
        f"model {answer.model}, generation {answer.generation}"
    )
