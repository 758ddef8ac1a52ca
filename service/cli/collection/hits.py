"""Prints the hits of a search: as a table, as paths, as pictures."""

from __future__ import annotations

import os
import sys
from typing import TYPE_CHECKING

import typer

from hasse.service.cli.terminal.table import print_files, print_table
from hasse.service.plural import count
from hasse.service.verdict import (
    HIT_WORDS,
    NOTHING_SHOWS,
    WHERE_WORDS,
    nothing_shows,
    percent,
    verdict,
)

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from hasse.service.questions.answers import (
        CaptionAnswer,
        CaptionHit,
        CommonAnswer,
        Entailment,
        ImageAnswer,
        ImageHit,
        SearchFacts,
    )

_OPENED = 5  # hits that --open opens at most


def print_hits(answer: ImageAnswer | CaptionAnswer) -> None:
    """Print a table, and what there is to say about the answer on standard error."""
    from hasse.service.questions.answers import CommonAnswer, ImageAnswer

    probabilities = [hit.probability for hit in answer.hits]
    said = isinstance(answer, ImageAnswer) and any(hit.says for hit in answer.hits)
    if answer.searched and not answer.hits:
        typer.echo("nothing found", err=True)
    elif nothing_shows(probabilities) and not said:
        typer.echo(f"{NOTHING_SHOWS}. The nearest:", err=True)
    if answer.hits:
        _print_table(answer, known=any(one is not None for one in probabilities))
    if isinstance(answer, ImageAnswer | CommonAnswer):
        warn_of_unknown_words(answer)
    if isinstance(answer, ImageAnswer):
        _suggest(answer)
    typer.echo(_summary(answer), err=True)


def _print_table(answer: ImageAnswer | CaptionAnswer, *, known: bool) -> None:
    """Print a row for each hit; where no probability is `known`, their order says it all."""
    from hasse.service.questions.answers import ImageAnswer

    columns = ["rank", "image id", *(["likely", "verdict"] if known else [])]
    if isinstance(answer, ImageAnswer):
        files = [[*_cells(hit, known), hit.path, _text(hit)] for hit in answer.hits]
        print_files([*columns, "path", "text"], files)
        return
    captions = [
        [*_cells(hit, known), _marked(hit.caption, hit.written_by), hit.path] for hit in answer.hits
    ]
    print_table([*columns, "caption", "path"], captions)


def paths_of(answer: ImageAnswer | CaptionAnswer) -> list[str]:
    """Return the path of each hit, each once."""
    hits: Sequence[ImageHit | CaptionHit] = answer.hits
    return list(dict.fromkeys(hit.path for hit in hits))


def print_paths(paths: Iterable[str], *, null: bool) -> None:
    """Print paths as the file system has them, with a line end or a NUL after each."""
    out = sys.stdout.buffer
    for path in paths:
        out.write(os.fsencode(path) + (b"\0" if null else b"\n"))
    out.flush()


def open_first(answer: ImageAnswer | CaptionAnswer) -> None:
    """Open the first hits in the program that the system opens pictures with."""
    for path in paths_of(answer)[:_OPENED]:
        typer.launch(path)


def _cells(hit: ImageHit | CaptionHit, known: bool) -> list[str]:
    """Return the first cells of a row; where no probability is `known`, there is none."""
    cells = [str(hit.rank), str(hit.image_id)]
    if not known:
        return cells
    if hit.probability is None:
        return [*cells, "", "unknown words"]
    return [*cells, percent(hit.probability), HIT_WORDS[verdict(hit.probability)]]


def _text(hit: ImageHit) -> str:
    """Return the first text that says words of the query, or else the first caption."""
    for one in hit.says[:1]:
        return one.text if one.where == "caption" else f"{one.text} ({WHERE_WORDS[one.where]})"
    if hit.captions or not hit.written_captions:
        return "".join(hit.captions[:1])
    return _marked(hit.written_captions[0], "a model")


def _marked(caption: str, written_by: str | None) -> str:
    return caption if written_by is None else f"{caption} (written by a model)"


def warn_of_unknown_words(answer: ImageAnswer | CommonAnswer | Entailment) -> None:
    """Name the words of the question that the model does not know, if any."""
    if answer.unknown_words:
        unknown = ", ".join(answer.unknown_words)
        typer.echo(f"the model {answer.model} does not know: {unknown}", err=True)


def _suggest(answer: ImageAnswer) -> None:
    if answer.did_you_mean is not None:
        typer.echo(f"did you mean: {answer.did_you_mean}", err=True)


def _summary(answer: SearchFacts) -> str:
    if not answer.searched:
        return "no pictures to search: the library is empty, or the options leave none"
    if answer.plan == "text":
        return f"searched by their texts alone: {count(answer.searched, 'picture')}"
    if answer.certified:
        return f"checked all {answer.searched:,}"
    return f"not all of {answer.searched:,} were checked: '--mode certified' does"
