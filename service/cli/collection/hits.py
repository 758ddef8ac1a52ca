"""Prints the hits of a search as a table or as paths, and opens them."""

from __future__ import annotations

import os
import sys
from typing import TYPE_CHECKING

import typer

from hasse.service.cli.terminal.table import print_files, print_table
from hasse.service.plural import count
from hasse.service.verdict import (
    NOTHING_SHOWS,
    WHERE_WORDS,
    hit_word,
    nothing_shows,
    percent,
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

_OPEN_MAXIMUM = 5  # hits that --open opens


def print_hits(answer: ImageAnswer | CaptionAnswer) -> None:
    """Print a table of hits, and remarks on the answer on standard error."""
    from hasse.service.questions.answers import CommonAnswer, ImageAnswer

    probabilities = [hit.probability for hit in answer.hits]
    has_text_hits = isinstance(answer, ImageAnswer) and any(hit.says for hit in answer.hits)
    if answer.searched and not answer.hits:
        typer.echo("nothing found", err=True)
    elif nothing_shows(probabilities) and not has_text_hits:
        typer.echo(f"{NOTHING_SHOWS}. The nearest:", err=True)
    if answer.hits:
        calibrated = any(probability is not None for probability in probabilities)
        _print_table(answer, calibrated=calibrated)
    if isinstance(answer, ImageAnswer | CommonAnswer):
        warn_of_unknown_words(answer)
    if isinstance(answer, ImageAnswer):
        _print_suggestion(answer)
    typer.echo(_summary(answer), err=True)


def _print_table(answer: ImageAnswer | CaptionAnswer, *, calibrated: bool) -> None:
    """Print a row for each hit; only a `calibrated` model has probabilities to print."""
    from hasse.service.questions.answers import ImageAnswer

    columns = ["rank", "image id", *(["likely", "verdict"] if calibrated else [])]
    if isinstance(answer, ImageAnswer):
        files = [[*_cells(hit, calibrated), hit.path, _text(hit)] for hit in answer.hits]
        print_files([*columns, "path", "text"], files)
        return
    captions = [
        [*_cells(hit, calibrated), _with_author(hit.caption, hit.written_by), hit.path]
        for hit in answer.hits
    ]
    print_table([*columns, "caption", "path"], captions)


def paths_of(answer: ImageAnswer | CaptionAnswer) -> list[str]:
    """Return the paths of the hits, each once."""
    hits: Sequence[ImageHit | CaptionHit] = answer.hits
    return list(dict.fromkeys(hit.path for hit in hits))


def print_paths(paths: Iterable[str], *, null: bool) -> None:
    """Print the bytes of paths, with a line end or a NUL after each."""
    out = sys.stdout.buffer
    for path in paths:
        out.write(os.fsencode(path) + (b"\0" if null else b"\n"))
    out.flush()


def open_first(answer: ImageAnswer | CaptionAnswer) -> None:
    """Open the first hits in the system's viewer."""
    for path in paths_of(answer)[:_OPEN_MAXIMUM]:
        typer.launch(path)


def _cells(hit: ImageHit | CaptionHit, calibrated: bool) -> list[str]:
    """Return the first cells of a row, with the verdict of a `calibrated` model."""
    cells = [str(hit.rank), str(hit.image_id)]
    if not calibrated:
        return cells
    likely = "" if hit.probability is None else percent(hit.probability)
    says = bool(getattr(hit, "says", ()))
    return [*cells, likely, hit_word(hit.probability, says=says) or "unknown words"]


def _text(hit: ImageHit) -> str:
    """Return what is left out and may be there, a text with words of the query, or a caption."""
    if hit.may_show:
        return f"may show {', '.join(hit.may_show)}"
    for match in hit.says[:1]:
        where = "" if match.where == "caption" else f" ({WHERE_WORDS[match.where]})"
        return f"{match.text}{where}"
    if hit.captions or not hit.written_captions:
        return "".join(hit.captions[:1])
    return _with_author(hit.written_captions[0], "a model")


def _with_author(caption: str, written_by: str | None) -> str:
    return caption if written_by is None else f"{caption} (written by a model)"


def warn_of_unknown_words(answer: ImageAnswer | CommonAnswer | Entailment) -> None:
    """Print the words of the question that the model does not know, if any."""
    if answer.unknown_words:
        unknown = ", ".join(answer.unknown_words)
        typer.echo(f"the model {answer.model} does not know: {unknown}", err=True)


def _print_suggestion(answer: ImageAnswer) -> None:
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
