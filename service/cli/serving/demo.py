"""`hasse demo`: from nothing to a page that answers."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from service.cli.serving.serve import Host, Port
from service.cli.terminal.configuration import configure
from service.cli.terminal.errors import Mistake, keeping
from service.cli.terminal.options import ServiceDevice
from service.cli.terminal.progress import progress, tell

if TYPE_CHECKING:
    from models.checkpoints.checkpoint import Checkpoint
    from models.datasets import Dataset

COUNT = 2000


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
    pictures: Annotated[
        Path, typer.Option(metavar="DIR", help="Where the scenes are drawn.")
    ] = Path("data/scenes-demo"),
    index: Annotated[
        Path | None,
        typer.Option(
            "--index",
            "-i",
            metavar="INDEX",
            show_default="data/scenes-index",
            help="Where the index goes.",
        ),
    ] = None,
    serve: Annotated[
        bool, typer.Option("--serve/--no-serve", help="Serve it, or only make it.")
    ] = True,
) -> None:
    """Draw the built-in collection, index it with the built-in model, and serve it.

    What is there already is used again, so the second start is quick. The scenes are of the
    test split: the model has never seen them.

    \b
    [bold]Examples[/bold]
      hasse demo
      hasse demo --port 9000 --count 10000
    """
    from models.checkpoints import checkpoint
    from service.runtime.sockets import listen
    from service.runtime.workers import serve as run

    settings = configure(index=index, host=host, port=port, device=device)
    if serve:
        # A port in use is better said before the work than after it.
        listen(settings.host, settings.port).close()
    built_in = checkpoint.load(checkpoint.pretrained())
    present = _what_is_there(settings.index, built_in, count)
    if present == "former":
        shutil.rmtree(settings.index)
    if present in {"nothing", "former"}:
        _build(_scenes(pictures, count or COUNT), built_in, settings.index)
    if serve:
        # The index remembers where its model was; a checkout may have moved since.
        model = None if present == "foreign" else built_in.folder
        run(settings.model_copy(update={"model": settings.model or model}), typer.echo)


def _scenes(folder: Path, count: int) -> Dataset:
    """Return the drawn test split, drawn now if it is not there."""
    from models.datasets import DatasetError, load
    from models.datasets.scenes import generate

    try:
        found = load(folder)
        if found.name == "scenes" and found.splits() == {"test": count}:
            return found
    except DatasetError:
        pass
    again = "the same command draws them again, and the same ones"
    with progress("drawing scenes") as report, keeping(lambda: again):
        return generate(folder, train=0, val=0, test=count, progress=report)


def _what_is_there(
    folder: Path, model: Checkpoint, count: int | None
) -> Literal["nothing", "current", "former", "foreign"]:
    """Tell what the folder holds: no index, or one by this model, by a former state of it, or
    by another, which is somebody's own: it is left alone, and served.

    Raises:
        Mistake: another number of scenes was asked for than there is, or a former index holds what
            was written since.
    """
    from index.errors import MissingIndexError
    from index.store import Index

    try:
        with Index.open(folder, verify="sizes") as found:
            made_by = found.model
            there, generation = found.info().images, found.generation
    except MissingIndexError:
        return "nothing"
    if not there:
        return "nothing"  # a build that was stopped, and goes on
    if count is not None and count != there:
        raise Mistake(f"{folder} holds {there:,} images: remove it, or choose another with --index")
    if made_by.fingerprint == model.fingerprint:
        return "current"
    if Path(made_by.checkpoint).parts[-2:] != model.folder.parts[-2:]:
        typer.echo(f"{folder} was made by the model {made_by.name}: used as it is", err=True)
        return "foreign"
    if generation > 1:  # pictures that were added to it may lie nowhere else
        raise Mistake(
            f"{folder} was made by a former state of {model.name} and changed since: remove it, "
            "or choose another with --index"
        )
    typer.echo(f"{folder} was made by a former state of {model.name}: built again", err=True)
    return "former"


def _build(dataset: Dataset, model: Checkpoint, folder: Path) -> None:
    from service.pipelines import indexing
    from service.pipelines.dataset_encoding import ImageSource

    source = ImageSource(skipped=tell)
    kept = f"what is encoded is kept in {folder}; the same command goes on from there"
    with progress("indexing") as report, keeping(lambda: kept):
        indexing.build(dataset, model, folder, source, report).close()
