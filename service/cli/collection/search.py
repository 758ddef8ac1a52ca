"""`hasse search`: images by a caption, captions by a picture, and searches by several parts."""

from __future__ import annotations

import asyncio
import math
import os
import re
import sys
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

import typer

from hasse.service.cli.collection import search_options as options
from hasse.service.cli.collection.hits import open_first, paths_of, print_hits, print_paths
from hasse.service.cli.collection.parts import caption_or_picture, parse_part, text_or_picture
from hasse.service.cli.terminal.configuration import configure
from hasse.service.cli.terminal.errors import CommandError
from hasse.service.cli.terminal.options import Json, ServiceDevice, ServiceIndex, ServiceModel
from hasse.service.cli.terminal.preview import preview as shown
from hasse.service.cli.terminal.preview import protocol_of

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterable, Sequence

    from hasse.service.core.engine import Engine
    from hasse.service.lattice_schemas import Part
    from hasse.service.picture_schemas import CaptionAnswer, CaptionOptions, Relation
    from hasse.service.schemas import ImageAnswer
    from hasse.service.settings import Settings

Result = TypeVar("Result")
_DATE = re.compile(r"\d{4}(-\d\d)?")


def search(
    *,
    query: options.Query = None,
    all_of: options.AllOf = None,
    common: options.Common = None,
    plus: options.Plus = None,
    minus: options.Minus = None,
    similar: options.Similar = None,
    distinct: options.Distinct = True,
    prefer: options.Prefer = "least_violation",
    written: options.Written = None,
    index: ServiceIndex = None,
    model: ServiceModel = None,
    k: options.K = 10,
    within: options.Within = None,
    split: options.Split = None,
    taken_from: options.TakenFrom = None,
    taken_before: options.TakenBefore = None,
    mode: options.SearchMode = "certified",
    candidates: options.Candidates = None,
    max_violation: options.MaxViolation = None,
    device: ServiceDevice = None,
    paths: options.Paths = False,
    null: options.Null = False,
    open_: options.Open = False,
    preview: options.Preview = False,
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
      hasse search photo.jpg --index data/mine-index
      hasse search photo.jpg --similar alike
      hasse search a dog --in ~/Pictures/2024 --taken-from 2024-07 --open
      hasse search --all-of "a dog" --all-of "a child" --all-of "a beach"
      hasse search --common one.jpg --common another.jpg
      hasse search photo.jpg --minus "a dog" --plus "a cat"
      hasse search a child -k 100 --paths -0 | xargs -0 cp -t found
    """
    from hasse.service.picture_schemas import CaptionOptions

    if max_violation is not None and not math.isfinite(max_violation):
        raise CommandError("--max-violation takes a finite number; leave it out to keep all hits")
    if as_json and paths:
        raise CommandError("give one of --json and --paths")
    if null and not paths:
        raise CommandError("-0 needs --paths")
    protocol = protocol_of(os.environ) if preview else None
    settings = configure(index=index, model=model, device=device)
    given = CaptionOptions(
        distinct=distinct,
        prefer=prefer,
        written=written,
        k=k,
        mode=mode,
        candidates=candidates,
        max_violation=max_violation,
        split=split,
        path_prefix=None if within is None else f"{str(within.resolve()).rstrip('/')}/",
        taken_from=_instant("--taken-from", taken_from),
        taken_before=_instant("--taken-before", taken_before),
    )
    question = _question(query or [], all_of or [], common or [], plus or [], minus or [], similar)
    answer = ask(settings, lambda engine: question.answer(engine, given), question.parts)
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


@dataclass(frozen=True, slots=True)
class _Question:
    """What a search is by; one of `start`, `all_of` and `common` is given."""

    start: Part | None
    all_of: Sequence[Part]
    common: Sequence[Part]
    plus: Sequence[Part]
    minus: Sequence[Part]
    similar: Relation | None

    @property
    def parts(self) -> list[Part | None]:
        """All parts, to know whether there are pictures among them."""
        return [self.start, *self.all_of, *self.common, *self.plus, *self.minus]

    async def answer(self, engine: Engine, given: CaptionOptions) -> ImageAnswer | CaptionAnswer:
        """Search."""
        from hasse.service.core import by_picture, lattice
        from hasse.service.core.stages import Stages
        from hasse.service.picture_schemas import SimilarOptions

        stages = Stages()
        if self.all_of:
            return await lattice.all_of(engine, self.all_of, given, stages)
        if self.start is None:
            return await lattice.common(engine, self.common, given, stages)
        if self.plus:
            return await lattice.like(engine, self.start, self.plus, self.minus, given, stages)
        if not isinstance(self.start, bytes):
            return await engine.images_by_caption(str(self.start), given)
        if self.similar is None:
            answer = await by_picture.captions(engine, self.start, given, stages)
            if answer.searched:
                return answer
            typer.echo("there are no captions to search: these are images like it", err=True)
        chosen = given.model_dump(exclude={"distinct", "prefer", "written"})
        like = SimilarOptions(**chosen, similar=self.similar or "alike")
        return await by_picture.similar(engine, self.start, like, stages)


def _question(
    words: list[str],
    all_of: list[str],
    common: list[str],
    plus: list[str],
    minus: list[str],
    similar: Relation | None,
) -> _Question:
    """Read the arguments; raises CommandError if they do not go together."""
    if minus and not plus:
        raise CommandError("--minus needs --plus: say what replaces what you take out")
    if sum(map(bool, (words, all_of, common))) != 1:
        raise CommandError("give one of TEXT_OR_PICTURE, --all-of PART ... or --common PART ...")
    if len(max(all_of, common, plus, minus, key=len)) > options.PARTS_MAXIMUM:
        raise CommandError(f"give at most {options.PARTS_MAXIMUM} parts")
    if plus and not words:
        raise CommandError("--plus needs TEXT_OR_PICTURE: say what the images should be like")
    start: Part | None = None
    if words:
        alone = len(words) == 1 and bool(plus)
        start = parse_part(words[0]) if alone else caption_or_picture(words)
    if similar is not None and (plus or not isinstance(start, bytes)):
        raise CommandError("--similar needs a picture, and nothing else, to search by")
    return _Question(
        start,
        [text_or_picture(text) for text in all_of],
        [parse_part(text) for text in common],
        [parse_part(text) for text in plus],
        [parse_part(text) for text in minus],
        similar,
    )


def _instant(option: str, text: str | None) -> str | None:
    """Return a date as the service takes it; raises CommandError for what is none."""
    if text is None:
        return None
    whole = text + {4: "-01-01", 7: "-01"}.get(len(text), "") if _DATE.match(text) else text
    try:
        found = datetime.fromisoformat(whole)
    except ValueError:
        raise CommandError(f"{option} {text} is no date: write it as 2024-07-31") from None
    return (found if found.tzinfo else found.replace(tzinfo=UTC)).isoformat()


def ask(
    settings: Settings,
    question: Callable[[Engine], Awaitable[Result]],
    parts: Iterable[Part | None],
) -> Result:
    """Answer one question; the image encoder is loaded only if a part is a picture."""
    from hasse.service.core.engine import Engine

    async def answer() -> Result:
        with_pictures = any(isinstance(part, bytes) for part in parts)
        engine = Engine.for_one_question(settings, with_pictures=with_pictures)
        try:
            return await question(engine)
        finally:
            engine.close()

    return asyncio.run(answer())
