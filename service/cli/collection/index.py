"""`hasse index`: build, grow, check and describe what is searched."""

from __future__ import annotations

import json
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from service.cli.terminal.errors import CommandError, resumable
from service.cli.terminal.help_text import Commands, join_lines
from service.cli.terminal.options import (
    BatchSize,
    DatasetFolder,
    Device,
    Features,
    IndexFolder,
    Json,
    Model,
    Workers,
)
from service.cli.terminal.problems import counted, tell_each
from service.cli.terminal.progress import progress, tell
from service.cli.terminal.table import print_table
from service.plural import count

if TYPE_CHECKING:
    from index.store import Index
    from models.checkpoints.checkpoint import Checkpoint
    from models.datasets import Dataset
    from models.datasets.problems import Problems
    from service.pipelines.dataset_encoding import ImageSource
    from service.pipelines.indexing import Known

index = Commands(
    no_args_is_help=True,
    help=join_lines("""Build what is searched, add to it, check it.

    An index is a folder. Every change is there whole or not at all, whatever happens meanwhile,
    and a running service shows it soon after.

    \b
    [bold]Examples[/bold]
      hasse index build data/mine --model data/mine-model --out data/mine-index
      hasse index add data/mine-index new-pictures/
      hasse index remove data/mine-index 17 18
      hasse index compact data/mine-index
      hasse index verify data/mine-index
    """),
)


@index.add
def build(
    *,
    dataset: DatasetFolder,
    out: Annotated[
        Path, typer.Option("--out", "-o", metavar="INDEX", help="Where the index goes.")
    ],
    model: Model = None,
    split: Annotated[
        str | None, typer.Option(show_default="all", help="Only the pictures of this split.")
    ] = None,
    features: Features = None,
    batch_size: BatchSize = 32,
    device: Device = "auto",
    workers: Workers = None,
) -> None:
    """Encode a dataset's pictures and captions with a model, and make them searchable.

    Stop it at any time: the same command goes on with what is missing. A damaged picture is
    left out with one line that says why.

    \b
    [bold]Examples[/bold]
      hasse index build data/scenes --split test --out data/scenes-index
      hasse index build data/coco --model data/coco-model \\
          --features data/coco-features --out data/coco-index
    """
    from models.datasets import load
    from service.pipelines.dataset_encoding import ImageSource

    collection = load(dataset)
    if split is not None:
        collection = collection.split(split)
    checkpoint = _checkpoint(model, device, collection)
    source = ImageSource(features, batch_size, workers, tell)
    with _built(collection, checkpoint, out, source) as built:
        _say_size(built, out)
    typer.echo(f'next: hasse search "..." --index {out}, or hasse serve --index {out}', err=True)


@index.add
def add(
    *,
    folder: IndexFolder,
    pictures: Annotated[
        list[Path], typer.Argument(metavar="PATH...", help="Pictures, or folders of pictures.")
    ],
    captions: Annotated[
        Path | None,
        typer.Option(help="For one folder: a .csv, .tsv or .jsonl with file_name and caption."),
    ] = None,
    model: Annotated[
        Path | None,
        typer.Option(
            "--model",
            "-m",
            metavar="DIR",
            show_default="the index's own, or photographs for a new one",
            help="The checkpoint: a folder, or the name of a built-in one.",
        ),
    ] = None,
    batch_size: BatchSize = 32,
    device: Device = "auto",
    workers: Workers = None,
) -> None:
    """Add pictures to an index, with the captions in beach.txt beside beach.jpg, if any.

    Where there is no index yet, it is made, by the built-in model for photographs if no other
    is named. New pictures get ids after the largest there is. One that is in the index already
    is passed over, so the same command can be repeated.

    \b
    [bold]Examples[/bold]
      hasse index add data/mine-index ~/Pictures
      hasse index add data/mine-index photo.jpg another.png
      hasse index add data/mine-index new-pictures/ --captions captions.csv
    """
    from index.store import Index
    from service.pipelines import indexing
    from service.pipelines.dataset_encoding import ImageSource

    known = _known(folder)
    collections, problems = _collections(pictures, captions, known.paths if known else frozenset())
    named = model or (None if known is None else _remembered(folder))
    checkpoint = _checkpoint(named, device, collections[0])
    source = ImageSource(None, batch_size, workers, tell)
    rest, added, there = collections, 0, 0
    if known is None:
        with _built(collections[0], checkpoint, folder, source) as built:
            rest, added = collections[1:], built.info().images
    with Index.open(folder, checkpoint.fingerprint) as opened:
        kept = "pictures added so far are searchable; the same command goes on with the rest"
        with progress("adding") as report, resumable(lambda: kept):
            for collection in rest:
                done = indexing.add(opened, collection, checkpoint, source, report, known)
                added, there = added + done.added, there + done.known
        _tidy(opened, kept)
        generation = opened.info().generation
    if undecoded := sum(len(collection) for collection in collections) - added - there:
        problems.by_reason["cannot be decoded"] = undecoded
    known_ones = f"; {there:,} were there already" if there else ""
    wrong = counted(problems)
    typer.echo(f"{count(added, 'picture')} added{known_ones}{wrong}; generation {generation}")


@index.add
def remove(
    *,
    folder: IndexFolder,
    image_ids: Annotated[
        list[int], typer.Argument(metavar="IMAGE_ID...", help="As search results show them.")
    ],
) -> None:
    """Remove images and their captions from an index. The pictures themselves stay."""
    from index.store import Index

    chosen = set(image_ids)  # one that is named twice is removed once
    with Index.open(folder) as opened:
        generation = opened.remove(sorted(chosen))
    typer.echo(f"{count(len(chosen), 'image')} removed; generation {generation}")


@index.add
def compact(*, folder: IndexFolder) -> None:
    """Merge all segments, and drop from the disk what was removed. Searches go on meanwhile.

    Stop it at any time: what is merged stays merged. It takes as much free space as what it
    merges. A running service merges small segments by itself.
    """
    from index.segments.compaction import everything
    from index.store import Index

    with Index.open(folder) as opened:
        kept = "what is merged stays merged, the rest is as it was"
        with progress("merging rows") as report, resumable(lambda: kept):
            done = opened.compact(everything, report)
    if done.after == done.before and not done.dropped:
        left = count(done.after, "segment")
        typer.echo(f"nothing to merge: {left}, generation {done.generation}")
    else:
        typer.echo(
            f"{count(done.before, 'segment')} became {done.after:,}, "
            f"{count(done.dropped, 'removed row')} dropped; "
            f"generation {done.generation}"
        )


@index.add
def verify(*, folder: IndexFolder, as_json: Json = False) -> None:
    """Check every file against its checksum and the catalog; status 1 if anything is wrong.

    Reads the whole index. It can be run while a service uses it.
    """
    from index.verify import verify as check

    with progress("checking bytes") as report:
        found = check(folder, progress=report)
    if as_json:
        typer.echo(json.dumps(asdict(found) | {"ok": found.ok}, indent=2, default=str))
    else:
        for finding in found.findings:
            typer.echo(finding)
        verdict = "whole" if found.ok else f"{count(len(found.findings), 'thing')} wrong"
        typer.echo(
            f"{folder}: {verdict}; {count(found.segments, 'segment')}, {count(found.rows, 'row')}, "
            f"{_size(found.bytes)}, generation {found.generation}"
        )
    raise typer.Exit(0 if found.ok else 1)


@index.add
def info(*, folder: IndexFolder, as_json: Json = False) -> None:
    """Show what an index holds, which model made it, and how it is stored."""
    from index.store import Index

    with Index.open(folder, verify="sizes") as opened:
        found = opened.info()
    if as_json:
        typer.echo(json.dumps(asdict(found), indent=2, default=str))
        return
    model = found.model
    print_table(
        ("", ""),
        [
            ("images", f"{found.images:,}"),
            ("captions", f"{found.captions:,}"),
            ("generation", f"{found.generation:,}"),
            ("size on disk", _size(found.bytes)),
            ("memory to serve", _size(found.resident)),
            ("model", f"{model.name} ({model.score}, {model.dimension} coordinates)"),
            ("fingerprint", model.fingerprint),
            ("checkpoint", model.checkpoint),
        ],
    )
    typer.echo()
    print_table(
        (
            "segment",
            "kind",
            "rows",
            "searched",
            "size",
            "bounds",
            "prefilter",
            "plan",
            "generation",
        ),
        [
            (
                segment.name,
                segment.kind,
                f"{segment.rows:,}",
                f"{segment.live:,}",
                _size(segment.bytes),
                segment.bounds,
                segment.prefilter,
                segment.plan,
                str(segment.generation),
            )
            for segment in found.segments
        ],
    )


def _built(collection: Dataset, checkpoint: Checkpoint, out: Path, source: ImageSource) -> Index:
    from service.pipelines import indexing

    kept = f"what is encoded is kept in {out}; the same command goes on from there"
    with progress("indexing") as report, resumable(lambda: kept):
        return indexing.build(collection, checkpoint, out, source, report)


def _checkpoint(named: Path | None, device: str, collection: Dataset) -> Checkpoint:
    from models.checkpoints import checkpoint
    from service.runtime.device import pick_device

    return checkpoint.load(checkpoint.chosen(named, collection), pick_device(device))


def _known(folder: Path) -> Known | None:
    """Return what an index holds; None where none is built to the end."""
    from index.errors import MissingIndexError
    from index.store import Index
    from service.pipelines import indexing

    try:
        with Index.open(folder, verify="sizes") as opened:
            return indexing.Known.of(opened) if opened.generation > 0 else None
    except MissingIndexError:
        return None


def _remembered(folder: Path) -> Path:
    """Return where the checkpoint was when the index was made."""
    from index.store import Index

    with Index.open(folder, verify="sizes") as opened:
        place = opened.model.checkpoint
    if not place:
        raise CommandError(f"{folder} does not say where its model is: name it with --model")
    return Path(place)


def _collections(
    paths: list[Path], captions: Path | None, known: frozenset[str]
) -> tuple[list[Dataset], Problems]:
    """Return the pictures that paths name: those of each folder, and the single ones together."""
    from models.datasets import folder as reader
    from models.datasets.problems import Problems

    for path in paths:
        if not (path.is_dir() or path.is_file()):
            raise CommandError(f"there is no picture or folder {path}: check the path")
    if captions is not None and (len(paths) > 1 or not paths[0].is_dir()):
        raise CommandError("--captions is for one folder: name that one, and nothing beside it")
    read = [reader.read(path, captions, known=known) for path in paths if path.is_dir()]
    if single := [path for path in paths if not path.is_dir()]:
        read.append(reader.read_pictures(single, known))
    problems = Problems.joined(found for _, found in read)
    tell_each(problems)
    return [collection for collection, _ in read], problems


def _tidy(opened: Index, kept: str) -> None:
    """Merge what many additions have left; what was added stays added if that fails."""
    from index.errors import HasseIndexError, IndexLockedError

    try:
        with progress("merging rows") as report, resumable(lambda: kept):
            opened.compact(progress=report)
    except IndexLockedError:
        pass  # a service is at it
    except HasseIndexError as error:
        tell(f"the additions are there, but small segments could not be merged: {error}")


def _say_size(built: Index, out: Path) -> None:
    found = built.info()
    typer.echo(
        f"{out}: {count(found.images, 'image')}, {count(found.captions, 'caption')}, "
        f"{_size(found.bytes)}, model {found.model.name}"
    )


def _size(count: int) -> str:
    size = float(count)
    for unit in ("bytes", "kB", "MB", "GB"):
        if size < 1000:
            return f"{size:,.0f} {unit}" if unit == "bytes" else f"{size:,.1f} {unit}"
        size /= 1000
    return f"{size:,.1f} TB"
