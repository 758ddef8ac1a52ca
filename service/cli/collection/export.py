"""`hasse export`: writes the hits of a search, or all pictures, for other programs."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from hasse.service.cli.collection.asking import FilledQuestion, answer_question
from hasse.service.cli.terminal.command import restore_dash
from hasse.service.cli.terminal.configuration import configure
from hasse.service.cli.terminal.errors import CommandError
from hasse.service.cli.terminal.options import Library, LibraryModel
from hasse.service.cli.terminal.progress import progress, tell
from hasse.service.plural import count
from hasse.service.questions import table
from hasse.service.verdict import NOTHING_SHOWS

if TYPE_CHECKING:
    from hasse.index.store import Index


def export(
    *,
    out: Annotated[
        Path,
        typer.Argument(
            metavar="OUT", help="A file that ends in .csv, .jsonl, .zip or .parquet; or a folder."
        ),
    ],
    caption: Annotated[
        list[str] | None,
        typer.Argument(metavar="WORDS", show_default="all pictures", help="What to search for."),
    ] = None,
    k: Annotated[int, typer.Option("-n", min=1, max=1000, help="Maximum number of hits.")] = 100,
    nearest: Annotated[
        int, typer.Option(min=0, help="Number of hits besides those that show or say it.")
    ] = 0,
    library: Library = None,
    model: LibraryModel = None,
) -> None:
    """Write the pictures that a search finds, or all of the library, for other programs.

    CSV and JSON lines have paths and captions, and the probabilities of a search. A ZIP has the
    original files, and a folder has links to them. Parquet has ids, paths, dates, captions and
    embeddings of all pictures (pip install pyarrow).

    \b
    Examples:
      hasse export dogs.csv a dog on a beach -n 50
      hasse export dogs.zip a dog on a beach
      hasse export dogs/ a dog on a beach     # links
      hasse export library.parquet
    """
    from hasse.index.store import Index
    from hasse.service.routes import export_formats

    kind = out.suffix.lower().lstrip(".")
    if kind not in ("csv", "jsonl", "zip", "parquet", ""):
        raise CommandError(f"{out}: end the name in .csv, .jsonl, .zip or .parquet")
    if kind == "parquet" and caption:
        raise CommandError("Parquet has all pictures: leave the text out")
    if kind and out.exists():
        raise CommandError(f"{out} exists: remove it, or choose another name")
    settings = configure(library=library, model=model)
    hits: list[export_formats.Fields] | None = None
    if caption:
        words = " ".join(map(restore_dash, caption))
        question = FilledQuestion(table.SEARCH_IMAGES, {"caption": words, "k": k})
        found = [hit.model_dump() for hit in answer_question(settings, question).hits]
        hits = export_formats.rows_of(found, nearest)
        if not hits:
            raise CommandError(f"{NOTHING_SHOWS}: '--nearest 10' writes the nearest")
    with Index.open(settings.index, verify="sizes") as index:
        rows: Iterable[Any] = export_formats.images(index) if hits is None else hits
        if kind == "parquet":
            total = index.catalog.counts()["image"]
            with progress("writing") as report:
                export_formats.write_parquet(index, rows, out, lambda done: report(done, total))
        elif kind in ("csv", "jsonl"):
            _write(out, export_formats.lines(rows, kind))  # type: ignore[arg-type]
        else:
            _write_originals(index, list(rows), out, zipped=kind == "zip")
    typer.echo(str(out), err=True)


def _write_originals(index: Index, rows: list[Any], out: Path, *, zipped: bool) -> None:
    from hasse.service.routes.export_formats import Originals

    originals = Originals(index, rows)
    for name in originals.missing:
        tell(f"{name}: not there: left out")
    if zipped:
        _write(out, originals.zip_pieces())
    else:
        originals.link(out)
    tell(count(len(originals.files), "picture"))


def _write(out: Path, pieces: Iterable[bytes]) -> None:
    """Write a file whole or not at all."""
    partial = out.with_name(out.name + ".partial")
    try:
        with partial.open("wb") as file:
            file.writelines(pieces)
        partial.replace(out)
    finally:
        partial.unlink(missing_ok=True)
