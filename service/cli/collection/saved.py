"""Runs, lists and saves the saved searches of `hasse search`."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import typer

from hasse.service.cli.collection.asking import FilledQuestion, run_with_engine
from hasse.service.cli.collection.selecting import DisplayOptions, show_answer
from hasse.service.cli.terminal.errors import CommandError
from hasse.service.cli.terminal.progress import tell
from hasse.service.cli.terminal.table import print_table
from hasse.service.questions import table

if TYPE_CHECKING:
    from hasse.service.core.engine import Engine
    from hasse.service.settings import Settings

_LISTED = 5  # maximum of new pictures in a message


def run_saved(settings: Settings, name: str, display: DisplayOptions) -> None:
    """Run a saved search, and print what is new since its last run; the name "" lists all."""
    display.check()
    if not name:
        _list_saved(settings, display)
        return

    async def work(engine: Engine) -> tuple[Any, list[int], str]:
        from hasse.service.questions import saved
        from hasse.service.questions.handlers import ask

        search = await saved.run_saved(engine, name)
        answer = await ask(engine, table.SEARCH_IMAGES, search.request)
        await saved.mark_seen(engine, search)
        return answer, search.new_ids, search.looked

    answer, new, looked = run_with_engine(settings, work)
    show_answer(answer, settings, None, display)
    if new:
        paths = [hit.path for hit in answer.hits if hit.image_id in new][:_LISTED]
        listed = f": {', '.join(paths)}" if paths else ""
        tell(f"{len(new):,} new since {looked[:10]}{listed}")


def save_search(
    settings: Settings,
    name: str,
    question: FilledQuestion,
    within: str | None,
    display: DisplayOptions,
) -> None:
    """Answer a search, and save it by a name."""
    display.check()
    if question.question is not table.SEARCH_IMAGES:
        raise CommandError("--save needs a search by WORDS")
    request = question.request()

    async def work(engine: Engine) -> Any:
        from hasse.service.questions import saved
        from hasse.service.questions.handlers import ask

        answer = await ask(engine, question.question, request)
        await saved.save(engine, name, request)
        return answer

    show_answer(run_with_engine(settings, work), settings, within, display)
    tell(f"saved: 'hasse search @{name}' runs it, and says what is new")


def _list_saved(settings: Settings, display: DisplayOptions) -> None:
    from hasse.service.questions import saved
    from hasse.service.questions.answers import SavedSearch

    searches = run_with_engine(settings, saved.run_all)
    if display.as_json:
        documents = [SavedSearch(**search.fields()).model_dump(mode="json") for search in searches]
        typer.echo(json.dumps(documents, indent=2))
        return
    rows = [
        [
            f"@{search.name}",
            f"{len(search.image_ids):,}",
            f"{len(search.new_ids):,}",
            search.request.caption,
        ]
        for search in searches
    ]
    if rows:
        print_table(["name", "pictures", "new", "words"], rows)
    else:
        tell("no saved searches: 'hasse search WORDS --save NAME' saves one")
