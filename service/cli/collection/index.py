"""`hasse index`: build, change, check and describe what is searched."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Annotated

import typer

from hasse.service.cli.collection.index_report import print_info, print_size, print_verification
from hasse.service.cli.terminal.configuration import picture_limits
from hasse.service.cli.terminal.errors import resumable
from hasse.service.cli.terminal.help_text import Commands, join_lines
from hasse.service.cli.terminal.options import (
    BatchSize,
    DatasetFolder,
    Device,
    Exclude,
    Features,
    IndexFolder,
    Json,
    Model,
    OnCluster,
    Workers,
)
from hasse.service.cli.terminal.progress import progress, tell
from hasse.service.plural import count

IndexModel = Annotated[
    Path | None,
    typer.Option(
        "--model",
        "-m",
        metavar="DIR",
        show_default="the index's own, or photographs for a new one",
        help="The checkpoint: a folder, or the name of a built-in one.",
    ),
]
Captions = Annotated[
    Path | None,
    typer.Option(help="For one folder: a .csv, .tsv or .jsonl with file_name and caption."),
]
AllowEmpty = Annotated[
    bool,
    typer.Option(
        "--allow-empty",
        help="Remove what has vanished even where a folder is missing, empty or on another device.",
    ),
]
FollowLinks = Annotated[
    bool,
    typer.Option("--follow-links", help="Take files that links out of the folder lead to."),
]
index = Commands(
    no_args_is_help=True,
    help=join_lines("""Build what is searched, add to it, check it.

    An index is a folder. Every change is there whole or not at all, whatever happens meanwhile,
    and a running service shows it soon after.

    \b
    [bold]Examples[/bold]
      hasse index build data/mine --model data/mine-model --out data/mine-index
      hasse index add data/mine-index new-pictures/
      hasse index sync data/mine-index ~/Pictures
      hasse index remove data/mine-index 17 18
      hasse index reencode data/mine-index --model data/other-model
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
    segment_rows: Annotated[
        int | None,
        typer.Option(
            min=1,
            show_default="1,048,576",
            help="Rows of a segment; more segments divide among more machines.",
        ),
    ] = None,
    batch_size: BatchSize = 32,
    device: Device = "auto",
    workers: Workers = None,
    cluster: OnCluster = None,
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
    from hasse.models.checkpoints.named_models import find_or_default
    from hasse.models.datasets import load
    from hasse.service.cli.collection.additions import built, loaded, tell_unknown
    from hasse.service.writing.image_source import ImageSource

    collection = load(dataset)
    if split is not None:
        collection = collection.split(split)
    checkpoint = loaded(find_or_default(model, collection), device)
    source = ImageSource(features, batch_size, workers, tell, picture_limits())
    if cluster is not None:
        from hasse.service.cluster.encoding import points_of

        source = replace(source, spread=points_of(cluster, checkpoint.folder, source))
    with built(collection, checkpoint, out, source, segment_rows) as made:
        print_size(made.info(), out)
    knows = checkpoint.vocabulary.knows
    unknown = {one.text for one in collection.captions if not knows(one.text)}
    tell_unknown(unknown, checkpoint.name)
    typer.echo(f'next: hasse search "..." --index {out}, or hasse serve --index {out}', err=True)


@index.add
def add(
    *,
    folder: IndexFolder,
    pictures: Annotated[
        list[Path], typer.Argument(metavar="PATH...", help="Pictures, or folders of pictures.")
    ],
    captions: Captions = None,
    exclude: Exclude = None,
    follow_links: FollowLinks = False,
    model: IndexModel = None,
    batch_size: BatchSize = 32,
    device: Device = "auto",
    workers: Workers = None,
) -> None:
    """Add pictures to an index, with the captions in beach.txt beside beach.jpg, if any.

    Where there is no index yet, it is made, by the built-in model for photographs if no other
    is named. New pictures get ids after the largest there is. Files that were moved or changed
    since, and captions, are followed too, so the same command can be repeated. What has vanished
    stays in the index and is named: 'hasse index sync' removes it.

    \b
    [bold]Examples[/bold]
      hasse index add data/mine-index ~/Pictures
      hasse index add data/mine-index photo.jpg another.png
      hasse index add data/mine-index new-pictures/ --captions captions.csv
    """
    from hasse.service.cli.collection.additions import SyncOptions, bring_along
    from hasse.service.writing.folders.scan import ScanOptions

    options = SyncOptions(
        ScanOptions(captions, exclude or [], follow_links),
        model,
        batch_size,
        device,
        workers,
        limits=picture_limits(),
    )
    bring_along(folder, pictures, options)


@index.add
def sync(
    *,
    folder: IndexFolder,
    pictures: Annotated[
        list[Path], typer.Argument(metavar="FOLDER...", help="Folders of pictures.")
    ],
    captions: Captions = None,
    exclude: Exclude = None,
    follow_links: FollowLinks = False,
    allow_empty: AllowEmpty = False,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Print what would be done, and change nothing.")
    ] = False,
    model: IndexModel = None,
    batch_size: BatchSize = 32,
    device: Device = "auto",
    workers: Workers = None,
) -> None:
    """Bring an index in step with folders of pictures: add, move, change and remove.

    The bytes of a file decide, not its path: a picture that was moved or renamed keeps its id,
    and copies are paths of one image. Captions are read again. Only what lies below the named
    folders is removed, and nothing where a folder is missing, empty or on another device.

    \b
    [bold]Examples[/bold]
      hasse index sync data/mine-index ~/Pictures
      hasse index sync data/mine-index ~/Pictures --dry-run
    """
    from hasse.service.cli.collection.additions import SyncOptions, bring_along
    from hasse.service.writing.folders.scan import ScanOptions

    options = SyncOptions(
        ScanOptions(captions, exclude or [], follow_links),
        model,
        batch_size,
        device,
        workers,
        remove=True,
        allow_empty=allow_empty,
        dry_run=dry_run,
        limits=picture_limits(),
    )
    bring_along(folder, pictures, options)


@index.add
def watch(
    *,
    folder: IndexFolder,
    pictures: Annotated[
        list[Path], typer.Argument(metavar="FOLDER...", help="Folders of pictures.")
    ],
    exclude: Exclude = None,
    follow_links: FollowLinks = False,
    model: IndexModel = None,
    batch_size: BatchSize = 32,
    device: Device = "auto",
    workers: Workers = None,
) -> None:
    """Keep an index in step with folders of pictures, as 'hasse index sync' does, until Ctrl-C.

    A file is read once it has not changed for a second. A running service shows each change soon
    after; 'hasse serve --follow FOLDER' does both.

    \b
    [bold]Examples[/bold]
      hasse index watch data/mine-index ~/Pictures
    """
    from hasse.service.cli.collection.additions import SyncOptions, follow
    from hasse.service.writing.folders.scan import ScanOptions

    follow(
        folder,
        pictures,
        SyncOptions(
            ScanOptions(None, exclude or [], follow_links),
            model,
            batch_size,
            device,
            workers,
            limits=picture_limits(),
        ),
    )


@index.add
def create(*, folder: IndexFolder, model: IndexModel = None) -> None:
    """Make an empty index, to which pictures are added later, also over HTTP.

    \b
    [bold]Examples[/bold]
      hasse index create data/mine-index
    """
    from hasse.models.checkpoints.named_models import find_or_default
    from hasse.models.datasets import Dataset
    from hasse.service.cli.collection.additions import created, loaded

    checkpoint = loaded(find_or_default(model, Dataset("", ())), "cpu")
    with created(folder, checkpoint) as made:
        print_size(made.info(), folder)


@index.add
def reencode(
    *,
    folder: IndexFolder,
    model: Annotated[
        Path,
        typer.Option(
            "--model", "-m", metavar="NAME", help="The new checkpoint: a built-in one or a folder."
        ),
    ],
    leave_out_missing: Annotated[
        bool,
        typer.Option(
            "--leave-out-missing", help="Go on where a whole folder of pictures is missing."
        ),
    ] = False,
    batch_size: BatchSize = 32,
    device: Device = "auto",
    workers: Workers = None,
) -> None:
    """Bring an index over to another model: encode its pictures and captions anew.

    Ids, captions, paths, splits and times of addition stay. Pictures are read from their files.
    One that cannot be read is removed with its captions, with one line that says why. Searches
    find the old points until all new ones are there, and nobody else can write meanwhile. Stop
    it at any time: the same command goes on. It needs about twice the space of the new points.

    \b
    [bold]Examples[/bold]
      hasse index reencode data/mine-index --model photographs
    """
    from hasse.models.checkpoints.named_models import find
    from hasse.service.cli.collection.additions import loaded
    from hasse.service.writing import indexing
    from hasse.service.writing.image_source import ImageSource

    checkpoint = loaded(find(model), device)
    source = ImageSource(None, batch_size, workers, tell, picture_limits())
    kept = "the index is as it was; the same command goes on with what is missing"
    with progress("encoding") as report, resumable(lambda: kept):
        done = indexing.reencode(
            folder, checkpoint, source, report, leave_out_missing=leave_out_missing
        )
    if done is None:
        typer.echo(f"{folder} is an index of the model '{checkpoint.name}' already")
        return
    left_out = f"; {count(done.left_out, 'image')} left out" if done.left_out else ""
    typer.echo(
        f"{count(done.images, 'image')} encoded by '{checkpoint.name}'{left_out}; "
        f"generation {done.generation}"
    )
    tell("a service that runs on this index answers by the old model until it is started again")


@index.add
def remove(
    *,
    folder: IndexFolder,
    image_ids: Annotated[
        list[int], typer.Argument(metavar="IMAGE_ID...", help="As search results show them.")
    ],
) -> None:
    """Remove images and their captions from an index. The pictures themselves stay."""
    from hasse.index.store import Index

    unique = set(image_ids)  # one that is named twice is removed once
    with Index.open(folder) as opened:
        generation = opened.remove(sorted(unique))
    typer.echo(f"{count(len(unique), 'image')} removed; generation {generation}")


@index.add
def compact(*, folder: IndexFolder) -> None:
    """Merge all segments, and drop from the disk what was removed. Searches go on meanwhile.

    Stop it at any time: what is merged stays merged. It takes as much free space as what it
    merges. A running service merges small segments by itself.
    """
    from hasse.index.segments.compaction import everything
    from hasse.index.store import Index

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

    Reads the whole index and all its pictures, and names those that are missing or changed. It
    can be run while a service uses it.
    """
    from hasse.index.verify import changed_pictures
    from hasse.index.verify import verify as check

    with progress("checking bytes") as report:
        found = check(folder, progress=report)
    with progress("checking pictures") as report:
        pictures = changed_pictures(folder, progress=report)
    print_verification(folder, found, pictures, as_json=as_json)
    raise typer.Exit(0 if found.ok and not pictures else 1)


@index.add
def info(*, folder: IndexFolder, as_json: Json = False) -> None:
    """Show what an index holds, which model made it, and how it is stored."""
    from hasse.index.store import Index

    with Index.open(folder, verify="sizes") as opened:
        found = opened.info()
    print_info(found, as_json=as_json)
