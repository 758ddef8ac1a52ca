"""`hasse ocr`: reads the text in pictures."""

from __future__ import annotations

import typer

from hasse.service.cli.terminal.configuration import configure
from hasse.service.cli.terminal.errors import resumable
from hasse.service.cli.terminal.options import Library
from hasse.service.cli.terminal.progress import progress
from hasse.service.plural import count


def ocr(*, library: Library = None) -> None:
    """Read the text in all pictures of the library that were not read yet.

    Receipts, screenshots, signs and letters are then found by their words. Stop it at any time: the
    same command goes on. It needs the extra 'ocr', and nothing is downloaded.

    \b
    Example:
      hasse ocr
    """
    import time

    from hasse.index.store import Index
    from hasse.service.pipelines.reading import Recogniser, read_pictures

    settings = configure(library=library)
    reader, started = Recogniser(), time.monotonic()
    with Index.open(settings.index, verify="sizes") as index:
        message = "what was read is kept; the same command goes on from there"
        with progress("reading pictures") as report, resumable(lambda: message):
            read, with_text = read_pictures(index, reader, settings.picture_limits, report)
    rate = read / max(time.monotonic() - started, 1e-9)
    typer.echo(f"{count(read, 'picture')} read, {rate:.1f} a second; {with_text:,} with text")
