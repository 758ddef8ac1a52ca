"""The model that `hasse use` names: one that is there, a published folder, or one to download."""

from __future__ import annotations

import re
import shutil
from pathlib import Path

import typer

from hasse.models.checkpoints import named_models
from hasse.models.checkpoints.model_folder import CONFIG
from hasse.models.home import home
from hasse.models.published import hub
from hasse.models.published.layout import layout_of_folder
from hasse.models.published.names import PUBLISHED, PublishedModel
from hasse.models.published.reading import read
from hasse.service.cli.terminal.errors import CommandError, resumable
from hasse.service.cli.terminal.progress import progress, tell

_MEGABYTE = 1_000_000


def choose_model(name: Path, *, yes: bool) -> Path:
    """Return the folder of a model, which is made of published files where it is not there yet.

    A download is asked for, unless `yes`.

    Raises:
        CommandError: the answer was no, or nobody could answer.
        PublishedModelError, CheckpointError: the files cannot be downloaded or used.
    """
    if layout_of_folder(name) is not None:
        return _make(_name_of(name), name, name.resolve().name)
    found, published = named_models.find(name), PUBLISHED.get(str(name))
    if not (found / CONFIG).is_file():
        if published is None:
            raise CommandError(
                f"there is no model '{name}': name one of 'hasse lab model list', the folder of "
                f"one, or one of {', '.join(PUBLISHED)}, which are downloaded"
            )
        found = _download(published, yes=yes)
    if published is not None:  # the model has copies of these files
        shutil.rmtree(home() / "downloads" / published.repository, ignore_errors=True)
    return found


def _download(published: PublishedModel, *, yes: bool) -> Path:
    """Download a model and make it."""
    model = hub.look_up(published.repository)
    size = f"{model.size / _MEGABYTE:,.0f} MB"
    typer.echo(
        f"'{published.name}' is {model.address}: {size}, texts in {published.languages}, licence "
        f"{published.licence}"
    )
    if not yes:
        _ask(f"Download {size}?")
    folder = home() / "downloads" / published.repository
    message = f"what is downloaded is kept in {folder}; the same command goes on from there"
    with progress("downloading (MB)") as report, resumable(lambda: message):
        hub.download(
            model, folder, lambda done, total: report(done // _MEGABYTE, -(-total // _MEGABYTE))
        )
    return _make(published.name, folder, published.repository)


def _ask(question: str) -> None:
    try:
        answer = typer.confirm(question)
    except typer.Abort:
        raise CommandError(
            "nothing was downloaded: give --yes where nobody can answer the question"
        ) from None
    if not answer:
        raise CommandError("nothing was downloaded: the library is as it was")


def _make(name: str, folder: Path, encoder: str) -> Path:
    """Make a model of a published folder, unless it was made of the same files before."""
    files = read(folder, encoder)
    if named_models.is_made_of(name, files.source):
        return named_models.made_models() / name
    made = named_models.make(name, files)
    tell(f"made the model '{name}' in {made}")
    return made


def _name_of(folder: Path) -> str:
    """Return a name that a model may have, made of a folder's."""
    return re.sub(r"[^A-Za-z0-9._-]+", "-", folder.resolve().name).strip("._-")[:64]
