"""`hasse index text`: makes the text index of an index anew."""

from __future__ import annotations

import typer

from hasse.service.cli.terminal.options import IndexFolder


def text(*, folder: IndexFolder) -> None:
    """Make the text index anew, from the captions, names and metadata that an index holds.

    Every change keeps it up to date: only 'hasse index verify' may ask for this.

    \b
    [bold]Example[/bold]
      hasse index text data/mine-index
    """
    from hasse.index.store import Index

    with Index.open(folder) as opened, opened.writing() as writer:
        generation = writer.rebuild_text_index()
    typer.echo(f"the text index of {folder} is made anew; generation {generation}")
