"""Searches that are kept by name, as `hasse search` runs, lists and keeps them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from hasse.service.cli.collection.asking import Asked, with_engine
from hasse.service.cli.collection.selecting import Shown, show_answer
from hasse.service.cli.terminal.errors import CommandError
from hasse.service.cli.terminal.progress import tell
from hasse.service.cli.terminal.table import print_table
from hasse.service.questions import table

if TYPE_CHECKING:
    from hasse.service.core.engine import Engine
    from hasse.service.settings import Settings

_NAMED = 5  # new pictures that are named


def run_saved(settings: Settings, name: str, how: Shown) -> None:
    """Run a search that is kept, and say what is new since it was run last; "" lists all."""
    how.check()
    if not name:
        _list(settings, how)
        return

    async def work(engine: Engine) -> tuple[Any, list[int], str]:
        from hasse.service.questions import saved
        from hasse.service.questions.handlers import ask

        one = await saved.current(engine, name)
        answer = await ask(engine, table.SEARCH_IMAGES, one.request)
        await saved.note_looked(engine, one)
        return answer, one.new, one.looked

    answer, new, looked = with_engine(settings, work)
    show_answer(answer, settings, None, how)
    if new:
        paths = [hit.path for hit in answer.hits if hit.image_id in new][:_NAMED]
        named = f": {', '.join(paths)}" if paths else ""
        tell(f"{len(new):,} new since {looked[:10]}{named}")


def save_search(
    settings: Settings, name: str, asked: Asked, within: Path | None, how: Shown
) -> None:
    """Answer a search, and keep it by a name."""
    how.check()
    if asked.question is not table.SEARCH_IMAGES:
        raise CommandError("--save keeps a search by WORDS")
    request = asked.request()

    async def work(engine: Engine) -> Any:
        from hasse.service.questions import saved
        from hasse.service.questions.handlers import ask

        answer = await ask(engine, asked.question, request)
        await saved.save(engine, name, request)
        return answer

    show_answer(with_engine(settings, work), settings, within, how)
    tell(f"kept: 'hasse search @{name}' runs it, and says what is new")


def _list(settings: Settings, how: Shown) -> None:
    from hasse.service.questions import saved
    from hasse.service.questions.answers import SavedSearch

    found = with_engine(settings, saved.listed)
    if how.as_json:
        each = [SavedSearch(**one.fields()).model_dump(mode="json") for one in found]
        typer.echo(json.dumps(each, indent=2))
        return
    rows = [
        [f"@{one.name}", f"{len(one.found):,}", f"{len(one.new):,}", one.request.caption]
        for one in found
    ]
    if rows:
        print_table(["name", "pictures", "new", "words"], rows)
    else:
        tell("no searches are kept: 'hasse search WORDS --save NAME' keeps one")
