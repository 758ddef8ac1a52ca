"""`hasse demo`: draws, indexes and serves the built-in collection."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal, TypeAlias

import typer

from hasse.models.home import home
from hasse.service.cli.serving.serve import Host, Port
from hasse.service.cli.terminal.configuration import configure
from hasse.service.cli.terminal.errors import CommandError, resumable
from hasse.service.cli.terminal.options import Encoding, ServiceDevice
from hasse.service.cli.terminal.progress import progress, tell

if TYPE_CHECKING:
    from hasse.models.checkpoints.checkpoint import Checkpoint
    from hasse.models.datasets import Dataset
    from hasse.service.settings import Settings

SCENES = 2000
# missing: or unfinished; current: made by this version of the model; outdated: by an earlier
# version; foreign: by another model.
IndexState: TypeAlias = Literal["missing", "current", "outdated", "foreign"]


def demo(
    *,
    host: Host = None,
    port: Port = None,
    device: ServiceDevice = None,
    count: Annotated[
        int | None,
        typer.Option(
            min=1, max=100_000, show_default="2000", help="How many scenes to draw and index."
        ),
    ] = None,
    library: Annotated[
        Path | None,
        typer.Option(
            "--library",
            "-l",
            metavar="DIR",
            show_default="one for the demo",
            help="Folder of the library; the scenes are drawn beside it.",
        ),
    ] = None,
    serve: Annotated[
        bool, typer.Option("--serve/--no-serve", help="Serve the library, or only make it.")
    ] = True,
) -> None:
    """Draw the built-in collection, index it and serve it.

    A second start is quick: it reuses the scenes and the index. The scenes are of the test split,
    so the model has never seen them. Your own library is left alone.

    \b
    Examples:
      hasse demo
      hasse demo --port 9000 --count 10000
    """
    from hasse.service.runtime.sockets import listen
    from hasse.service.runtime.workers import serve as run

    settings = configure(library=library or home() / "demo", host=host, port=port, device=device)
    if serve:
        # Report a port in use before the work, not after it.
        listen(settings.host, settings.port).close()
    prepared = prepare(settings, count)
    if serve:
        run(prepared, typer.echo)


def prepare(settings: Settings, count: int | None) -> Settings:
    """Draw and index the collection if it is missing; return the settings that serve it.

    Raises:
        CommandError: the folder of the index holds something else.
    """
    from hasse.models.checkpoints import checkpoint, named_models
    from hasse.service.cli.collection.additions import build_index

    built_in = checkpoint.load(named_models.pretrained())
    state = _state(settings.index, built_in, count)
    if state == "outdated":
        shutil.rmtree(settings.index)
    if state in {"missing", "outdated"}:
        scenes = _load_or_draw(
            settings.index.with_name(f"{settings.index.name}-scenes"), count or SCENES
        )
        build_index(scenes, built_in, settings.index, Encoding().source()).close()
    # The index remembers the path of its model, but the checkout may have moved since.
    model = None if state == "foreign" else built_in.folder
    return settings.model_copy(update={"model": settings.model or model})


def _load_or_draw(folder: Path, count: int) -> Dataset:
    """Return the test split of the scenes; draw it if it is missing."""
    from hasse.models.datasets import DatasetError, load
    from hasse.service.pipelines.scenes import generate

    try:
        dataset = load(folder)
        if dataset.name == "scenes" and dataset.splits() == {"test": count}:
            return dataset
    except DatasetError:
        pass
    message = "the same command draws the same scenes again"
    with progress("drawing scenes") as report, resumable(lambda: message):
        return generate(folder, train=0, val=0, test=count, progress=report)


def _state(folder: Path, model: Checkpoint, count: int | None) -> IndexState:
    """Return the state of the index in a folder. An index of another model is served unchanged.

    Raises:
        CommandError: the index holds another number of scenes, or is outdated but was changed.
    """
    from hasse.index.errors import MissingIndexError
    from hasse.index.store import Index

    try:
        with Index.open(folder, verify="sizes") as index:
            index_model = index.model
            images, generation = index.info().images, index.generation
    except MissingIndexError:
        return "missing"
    if not images:
        return "missing"  # an interrupted build, which continues
    if count is not None and count != images:
        raise CommandError(
            f"{folder} holds {images:,} images: remove it, or choose another with --library"
        )
    if index_model.fingerprint == model.fingerprint:
        return "current"
    if Path(index_model.checkpoint).parts[-2:] != model.folder.parts[-2:]:
        tell(f"{folder} was made by the model {index_model.name}: it is used as it is")
        return "foreign"
    if generation > 1:  # the pictures added since may exist nowhere else
        raise CommandError(
            f"{folder} was made by an earlier version of {model.name} and changed since: "
            "remove it, or choose another with --library"
        )
    tell(f"{folder} was made by an earlier version of {model.name}: it is built again")
    return "outdated"
