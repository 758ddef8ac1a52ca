"""`hasse search`: the two questions, from the shell."""

from __future__ import annotations

import asyncio
import math
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal, TypeVar

import typer

from service.cli.terminal.configuration import configure
from service.cli.terminal.errors import Mistake
from service.cli.terminal.options import Json, ServiceDevice, ServiceIndex, ServiceModel
from service.cli.terminal.table import print_table

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterable

    from service.core.engine import Engine
    from service.lattice_schemas import CommonAnswer, Entailment, Part
    from service.schemas import (
        CaptionAnswer,
        CaptionHit,
        ImageAnswer,
        ImageHit,
        SearchFacts,
    )
    from service.settings import Settings

Answer = TypeVar("Answer")

# service.lattice_schemas and service.schemas have them too, but would load pydantic before --help.
_PARTS_MAXIMUM, _K_MAXIMUM, _CANDIDATES_MAXIMUM = 16, 1000, 1_000_000
PICTURE_SUFFIXES = frozenset({".jpg", ".jpeg", ".png", ".webp", ".gif"})


def search(
    *,
    query: Annotated[
        str | None,
        typer.Argument(
            metavar="[TEXT_OR_PICTURE]",
            show_default=False,
            help="Words, or the path of a picture; not beside --all-of or --common.",
        ),
    ] = None,
    all_of: Annotated[
        list[str] | None,
        typer.Option(metavar="PART", help="Find images of which every part is true; repeat it."),
    ] = None,
    common: Annotated[
        list[str] | None,
        typer.Option(metavar="PART", help="Find captions true of every part; repeat it."),
    ] = None,
    plus: Annotated[
        list[str] | None,
        typer.Option(metavar="PART", help="Find images like TEXT_OR_PICTURE, with this put in."),
    ] = None,
    minus: Annotated[
        list[str] | None,
        typer.Option(metavar="PART", help="And with this taken out."),
    ] = None,
    index: ServiceIndex = None,
    model: ServiceModel = None,
    k: Annotated[int, typer.Option("--k", "-k", min=1, max=_K_MAXIMUM, help="How many hits.")] = 10,
    mode: Annotated[
        Literal["certified", "exact", "fast"],
        typer.Option(
            help="certified: provably the exact best. exact: a full scan. fast: likely the best."
        ),
    ] = "certified",
    candidates: Annotated[
        int | None,
        typer.Option(
            min=1, max=_CANDIDATES_MAXIMUM, help="How many candidates the prefilter hands on."
        ),
    ] = None,
    max_violation: Annotated[
        float | None, typer.Option(min=0.0, help="Leave out hits with a greater violation.")
    ] = None,
    device: ServiceDevice = None,
    as_json: Json = False,
) -> None:
    """Find images by a caption, or captions by a picture. No service needs to run.

    The violation says by how much a hit falls short: 0 means that the caption is true of it.
    A PART is words, the path of a picture, or the number of an image of the collection.

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
        raise Mistake("--max-violation is a number from 0 on; leave it out to keep all hits")
    settings = configure(index=index, model=model, device=device)
    options = SearchOptions(k=k, mode=mode, candidates=candidates, max_violation=max_violation)
    _check_together(query, all_of or [], common or [], plus or [], minus or [])
    start = None if query is None else part(query) if plus else _text_or_picture(query)
    every, both, put, taken = (
        [part(text) for text in texts or []] for texts in (all_of, common, plus, minus)
    )

    async def ask(engine: Engine) -> ImageAnswer | CaptionAnswer:
        from service.core import lattice
        from service.core.stages import Stages

        if start is None:
            found = lattice.all_of if every else lattice.common
            return await found(engine, every or both, options, Stages())
        if put:
            return await lattice.like(engine, start, put, taken, options, Stages())
        if isinstance(start, bytes):
            return await engine.captions_by_picture(start, options)
        return await engine.images_by_caption(str(start), options)

    answer = asyncio.run(answered(settings, ask, [start, *every, *both, *put, *taken]))
    if as_json:
        typer.echo(answer.model_dump_json(indent=2))
        return
    _show(answer)


def part(text: str) -> Part:
    """Read what stands on the command line for a caption, a picture or a stored image."""
    from service.schemas import image_id_of

    image_id = image_id_of(text)
    if image_id is not None:
        return image_id
    return _text_or_picture(text)


def _check_together(
    query: str | None, all_of: list[str], common: list[str], plus: list[str], minus: list[str]
) -> None:
    """Say what was mixed up, if anything was."""
    if minus and not plus:
        raise Mistake("--minus needs --plus: say what takes the place of what you take out")
    if sum(map(bool, (query is not None, all_of, common))) != 1:
        raise Mistake("ask one thing: TEXT_OR_PICTURE, --all-of PART ..., or --common PART ...")
    if len(max(all_of, common, plus, minus, key=len)) > _PARTS_MAXIMUM:
        raise Mistake(f"at most {_PARTS_MAXIMUM} parts can be given")
    if plus and query is None:
        raise Mistake("--plus needs TEXT_OR_PICTURE: say what the images should be like")


def _text_or_picture(query: str) -> str | bytes:
    """Return the bytes of the picture that the query names, or the words that it is."""
    path = Path(query)
    try:
        if path.is_file():
            return path.read_bytes()
    except ValueError:  # a NUL, or longer than any path may be
        return query
    except OSError as error:
        if path.suffix.lower() in PICTURE_SUFFIXES:
            raise Mistake(f"{query} cannot be read: {error.strerror}") from None
        return query
    if path.suffix.lower() in PICTURE_SUFFIXES:
        raise Mistake(f"there is no picture {query}: check the path")
    return sayable(query)


def sayable(text: str) -> str:
    """Return words of the command line, or say that they are none."""
    try:
        text.encode()
    except UnicodeEncodeError:  # bytes of another encoding, which Python carries as surrogates
        raise Mistake("the query is not text in UTF-8: check the shell's locale") from None
    return text


async def answered(
    settings: Settings,
    question: Callable[[Engine], Awaitable[Answer]],
    about: Iterable[Part | None],
) -> Answer:
    """Answer one question about some parts, with no more of the model than these need."""
    from service.core.engine import Engine

    with_pictures = any(isinstance(one, bytes) for one in about)
    engine = Engine.for_one_question(settings, with_pictures=with_pictures)
    try:
        return await question(engine)
    finally:
        engine.close()


_FIT = ("rank", "violation", "likely")


def _show(answer: ImageAnswer | CaptionAnswer) -> None:
    from service.lattice_schemas import CommonAnswer
    from service.schemas import ImageAnswer

    if isinstance(answer, ImageAnswer):
        print_table(
            (*_FIT, "file name", "caption"),
            [(*_fit(hit), hit.file_name, "".join(hit.captions[:1])) for hit in answer.hits],
        )
    else:
        print_table(
            (*_FIT, "caption", "of image"),
            [(*_fit(hit), hit.caption, str(hit.image_id)) for hit in answer.hits],
        )
    if isinstance(answer, ImageAnswer | CommonAnswer):
        tell_unknown(answer)
    typer.echo(_standing(answer), err=True)


def tell_unknown(answer: ImageAnswer | CommonAnswer | Entailment) -> None:
    """Name the words of a question that the model never learned, if there are any."""
    if answer.unknown_words:
        unknown = ", ".join(answer.unknown_words)
        typer.echo(f"the model {answer.model} never learned: {unknown}", err=True)


def _fit(hit: ImageHit | CaptionHit) -> tuple[str, str, str]:
    likely = "unknown" if hit.probability is None else f"{hit.probability:.0%}"
    return str(hit.rank), f"{hit.violation:.4f}", likely


def _standing(answer: SearchFacts) -> str:
    """Say how good the hits of an answer are; of images there are always some to search."""
    if not answer.searched:
        return "the collection has no captions that could be true of it"
    proof = "certified: the exact best" if answer.certified else "not proved to be the exact best"
    return (
        f"{proof} of {answer.searched:,}; {answer.rescored:,} scored exactly ({answer.plan}); "
        f"model {answer.model}, generation {answer.generation}"
    )
