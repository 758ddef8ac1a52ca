"""`hasse lab index`: builds libraries from datasets, and shows how a library is stored."""

from __future__ import annotations

import json
from dataclasses import asdict, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from hasse.lab.commands.options import DatasetFolder, Features, Model, NewLibrary, OnCluster
from hasse.service.cli.collection.index_report import size
from hasse.service.cli.terminal.configuration import configure
from hasse.service.cli.terminal.errors import resumable
from hasse.service.cli.terminal.help_text import Commands
from hasse.service.cli.terminal.options import Encoding, Json, Library, LibraryModel
from hasse.service.cli.terminal.progress import progress, tell
from hasse.service.cli.terminal.table import print_table
from hasse.service.plural import count

if TYPE_CHECKING:
    from hasse.index.info import IndexInfo, SegmentInfo

_SEGMENT_COLUMNS = (
    *("segment", "kind", "rows", "searched", "size", "bounds", "prefilter", "plan", "generation"),
)

index = Commands(help="Libraries of datasets, and how a library is stored.")


@index.add
def build(
    *,
    dataset: DatasetFolder,
    library: NewLibrary,
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
    encoding: Encoding,
    cluster: OnCluster = None,
) -> None:
    """Encode a dataset's pictures and captions with a model, and make them searchable.

    Stop it at any time: the same command goes on with what is missing. A damaged picture is
    left out with one line that says why.

    \b
    Examples:
      hasse lab index build data/scenes --split test --library data/test
      hasse lab index build data/coco --model data/coco-model \\
          --features data/coco-features --library data/coco-library
    """
    from hasse.lab.features.source import with_features
    from hasse.models.checkpoints.named_models import find_or_default
    from hasse.models.datasets import load
    from hasse.service.cli.collection.additions import (
        build_index,
        load_checkpoint,
        warn_of_unknown_captions,
    )

    collection = load(dataset)
    if split is not None:
        collection = collection.split(split)
    checkpoint = load_checkpoint(find_or_default(model, collection), encoding.device)
    source = with_features(encoding.source(), features)
    if cluster is not None:
        from hasse.lab.pipelines.cluster_encoding import points_of

        source = replace(source, cluster_batches=points_of(cluster, checkpoint.folder, source))
    with build_index(collection, checkpoint, library, source, segment_rows) as built:
        print_size(built.info(), library)
    knows = checkpoint.vocabulary.knows
    unknown = {caption.text for caption in collection.captions if not knows(caption.text)}
    warn_of_unknown_captions(unknown, checkpoint.name)
    tell(f"next: hasse search a dog --library {library}, or hasse serve --library {library}")


@index.add
def create(*, library: Library = None, model: LibraryModel = None) -> None:
    """Make an empty library, to which pictures are added later, also over HTTP.

    \b
    Example:
      hasse lab index create --library data/mine
    """
    from hasse.models.checkpoints.named_models import find_or_default
    from hasse.models.datasets import Dataset
    from hasse.service.cli.collection.additions import create_index, load_checkpoint

    folder = configure(library=library).index
    checkpoint = load_checkpoint(find_or_default(model, Dataset("", ())), "cpu")
    with create_index(folder, checkpoint) as empty:
        print_size(empty.info(), folder)


@index.add
def compact(*, library: Library = None) -> None:
    """Merge all segments, and delete removed rows from the disk. Searches go on meanwhile.

    Stop it at any time: what is merged stays merged. It needs as much free space as the segments
    take. A running service merges small segments by itself.
    """
    from hasse.index.segments.compaction import everything
    from hasse.index.store import Index

    with Index.open(configure(library=library).index) as opened:
        message = "what is merged stays merged, the rest is as it was"
        with progress("merging rows") as report, resumable(lambda: message):
            result = opened.compact(everything, report)
    if result.after == result.before and not result.dropped:
        segments = count(result.after, "segment")
        typer.echo(f"nothing to merge: {segments}, generation {result.generation}")
    else:
        typer.echo(
            f"{count(result.before, 'segment')} became {result.after:,}, "
            f"{count(result.dropped, 'removed row')} dropped; "
            f"generation {result.generation}"
        )


@index.add
def text(*, library: Library = None) -> None:
    """Make the text index anew, from the captions, names and metadata in the library.

    Every change keeps it up to date. 'hasse status --verify' says if this is needed.
    """
    from hasse.index.store import Index

    with Index.open(configure(library=library).index) as opened, opened.writing() as writer:
        generation = writer.rebuild_text_index()
    typer.echo(f"the text index is made anew; generation {generation}")


@index.add
def info(*, library: Library = None, as_json: Json = False) -> None:
    """Show which model made a library, and how it is stored."""
    from hasse.index.store import Index

    with Index.open(configure(library=library).index, verify="sizes") as opened:
        index_info = opened.info()
    print_info(index_info, as_json=as_json)


def print_size(info: IndexInfo, folder: Path) -> None:
    """Print the size of a new index in one line."""
    typer.echo(
        f"{folder}: {count(info.images, 'image')}, {count(info.captions, 'caption')}, "
        f"{size(info.bytes)}, model {info.model.name}"
    )


def print_info(info: IndexInfo, *, as_json: bool) -> None:
    """Print two tables: the index, and its segments."""
    if as_json:
        typer.echo(json.dumps(asdict(info), indent=2, default=str))
        return
    model = info.model
    print_table(
        ("", ""),
        [
            ("images", f"{info.images:,}"),
            ("captions", f"{info.captions:,}"),
            ("generation", f"{info.generation:,}"),
            ("size on disk", size(info.bytes)),
            ("memory to serve", size(info.resident)),
            ("model", f"{model.name} ({model.score}, {model.dimension} coordinates)"),
            ("fingerprint", model.fingerprint),
            ("checkpoint", model.checkpoint),
        ],
    )
    typer.echo()
    print_table(_SEGMENT_COLUMNS, [_cells(segment) for segment in info.segments])


def _cells(segment: SegmentInfo) -> tuple[str, ...]:
    return (
        segment.name,
        segment.kind,
        f"{segment.rows:,}",
        f"{segment.live:,}",
        size(segment.bytes),
        segment.bounds,
        segment.prefilter,
        segment.plan,
        str(segment.generation),
    )
