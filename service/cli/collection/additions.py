"""Adds folders to a library, syncs it with them, and follows them."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING

import typer

from hasse.index.catalog.locations import Locations
from hasse.index.errors import (
    HasseIndexError,
    IndexExistsError,
    IndexLockedError,
    MissingIndexError,
)
from hasse.index.store import Index
from hasse.models.datasets import Dataset, DatasetError
from hasse.models.home import home
from hasse.service.cli.terminal.configuration import configure
from hasse.service.cli.terminal.errors import CommandError, resumable
from hasse.service.cli.terminal.options import Encoding
from hasse.service.cli.terminal.progress import progress, tell
from hasse.service.cli.terminal.skipped_rows import skipped_summary, warn_each
from hasse.service.plural import count
from hasse.service.runtime.following import encoders_of
from hasse.service.runtime.reading import BackgroundReading, advice
from hasse.service.writing.folders.encoders import Encoders
from hasse.service.writing.folders.plan import Counts
from hasse.service.writing.folders.scan import DEFAULT_OPTIONS, Scan, ScanOptions, scan
from hasse.service.writing.folders.sync import FolderSync

if TYPE_CHECKING:  # torch, which takes seconds to import, is needed only to encode
    from hasse.models.checkpoints.checkpoint import Checkpoint
    from hasse.service.writing.image_source import ImageSource

_STOP_MESSAGE = "what was changed so far is searchable; the same command goes on with the rest"


@dataclass(frozen=True, slots=True)
class SyncOptions:
    """Options of `hasse add` and `hasse sync`."""

    scan: ScanOptions = DEFAULT_OPTIONS
    model: Path | None = None
    encoding: Encoding = field(default_factory=Encoding)
    allow_empty: bool = False
    dry_run: bool = False
    read_text: bool = True  # start reading text in new pictures in the background


def add_folders(library: Path, paths: Sequence[Path], options: SyncOptions) -> None:
    """Add folders and single pictures to a library, and print one line of counts.

    The library is created if there is none.
    """
    if options.scan.captions is not None and (len(paths) > 1 or paths[0].is_file()):
        raise CommandError("--captions is for one folder: name that one, and nothing beside it")
    for path in paths:
        if (path / "catalog.db").is_file():
            raise CommandError(f"{path} is a library, not a folder of pictures: see --library")
    opened = _open_if_exists(library)
    if opened is None:
        _create_library(library, paths, options)
        return
    with opened:
        require_no_demo(opened.model.name)
        _require_present(paths, _indexed_files(opened))
        _sync(opened, _encoders(opened, options), _scan(opened, paths, options), options)


def sync_folders(library: Path, options: SyncOptions) -> None:
    """Sync a library with its folders, and print one line of counts."""
    with Index.open(library, verify="sizes") as opened:
        scanned = _scan(opened, folders_of(opened), options)
        _sync(opened, _encoders(opened, options), scanned, options)


def follow(library: Path, options: SyncOptions) -> None:
    """Sync a library with its folders until Ctrl-C, and print a line for each change."""
    from hasse.service.writing.folders.watch import FolderWatch

    reading = BackgroundReading(library)

    def report(counts: Counts, generation: int) -> None:
        if options.read_text and (counts.added or counts.changed):
            reading.start()
        typer.echo(f"{_summarize(counts)}; generation {generation}")

    with Index.open(library, verify="sizes") as opened:
        tell(f"following {', '.join(map(str, folders_of(opened)))}; Ctrl-C stops")
        watch = FolderWatch(
            opened,
            _encoders(opened, options, lambda line: None),  # the watch itself prints these lines
            on_change=report,
            warn=tell,
        )
        try:
            with resumable(lambda: "the library is as the last line says"):
                watch.run(threading.Event())
        finally:
            reading.stop()


def folders_of(index: Index) -> list[Path]:
    """Return the followed folders of a library; raises CommandError if there are none."""
    folders = index.catalog.locations(index.folder, find_missing=True).followed_folders
    if not folders:
        raise CommandError("the library has no folders: 'hasse add FOLDER' adds one")
    return folders


def require_no_demo(model: str) -> None:
    """Raise CommandError for the model of the demo, which knows drawn scenes only."""
    if model == "scenes":
        raise CommandError(
            "the model of the demo knows drawn scenes only: name another --model, or, where the "
            "library is the demo's, another --library"
        )


def _create_library(library: Path, paths: Sequence[Path], options: SyncOptions) -> None:
    """Make a library of pictures; a dry run makes a temporary one.

    Raises:
        DatasetError: there is no picture.
    """
    _require_present(paths, [])
    _require_apart(library, paths)
    real = Path(os.path.realpath(library))
    scanned = scan(paths, options.scan, locations=Locations(real), index_folder=real)
    if not scanned.files:
        skipped = "".join(f" ({line})" for line in scanned.skipped.report_lines()[-1:])
        raise DatasetError(
            f"no pictures in {', '.join(map(str, paths))} and below{skipped}: "
            "docs/collections.md lists the formats"
        )
    from hasse.models.checkpoints import named_models
    from hasse.service.cli.collection.model_choice import choose_model

    if options.model is None or options.dry_run:
        model = named_models.find_or_default(options.model, Dataset("", ()))
    else:
        model = choose_model(options.model, yes=False)
    require_no_demo(model.name)
    checkpoint = load_checkpoint(model, options.encoding.device)
    with TemporaryDirectory(prefix="hasse-") as temporary:
        folder = Path(temporary, "library") if options.dry_run else library
        try:
            created = create_index(folder, checkpoint)
        except IndexExistsError:  # another command created it meanwhile: both add to it
            created = Index.open(folder, checkpoint.fingerprint)
        with created:
            _sync(created, Encoders(lambda: checkpoint, options.encoding.source), scanned, options)
            if created.info().images and not options.dry_run:
                tell("next: 'hasse search a dog on a beach', or 'hasse serve'")


def _require_apart(library: Path, paths: Sequence[Path]) -> None:
    """Raise CommandError for a library in a folder of pictures."""
    real = Path(os.path.realpath(library))  # Path.resolve fails on links in a circle
    parent = next((path for path in paths if real.is_relative_to(os.path.realpath(path))), None)
    if parent is None and library.is_dir() and scan([library]).files:
        parent = library
    if parent is not None and real != Path(os.path.realpath(home() / "library")):
        raise CommandError(
            f"{parent} is a folder of pictures, and no place for a library: leave --library out, "
            "or name a folder of its own"
        )


def create_index(folder: Path, checkpoint: Checkpoint) -> Index:
    """Create an empty index for the points of a model."""
    from hasse.service.writing.indexing import identity_of

    return Index.create(folder, identity_of(checkpoint))


def _encoders(
    index: Index, options: SyncOptions, skipped: Callable[[str], None] = tell
) -> Encoders:
    settings = configure(device=options.encoding.device)
    settings = settings.model_copy(update={"model": options.model})
    return encoders_of(index, settings, partial(options.encoding.source, skipped=skipped))


def load_checkpoint(folder: Path, device: str) -> Checkpoint:
    """Load a checkpoint onto a device."""
    from hasse.models.checkpoints.checkpoint import load
    from hasse.service.core.device import pick_device

    return load(folder, pick_device(device), runtime=configure().encoder_runtime)


def build_index(
    dataset: Dataset,
    checkpoint: Checkpoint,
    folder: Path,
    source: ImageSource,
    segment_rows: int | None = None,
) -> Index:
    """Build an index of a dataset, with progress."""
    from hasse.service.writing import indexing

    message = f"what is encoded is kept in {folder}; the same command goes on from there"
    with progress("indexing") as report, resumable(lambda: message):
        return indexing.build(
            dataset, checkpoint, folder, source, report, rows_per_segment=segment_rows
        )


def warn_of_unknown_captions(texts: Collection[str], model: str) -> None:
    """Print how many captions have no word that a model knows, if there are any."""
    if texts:
        tell(
            f"{count(len(texts), 'caption')} without a word that the model {model} knows, such as "
            f"'{min(texts)}': searches find them by their words alone"
        )


def _summarize(counts: Counts) -> str:
    """Return the counts of a sync in one line."""
    parts = [count(counts.added, "picture") + " added"]
    numbers = (
        (counts.moved, "moved"),
        (counts.changed, "changed"),
        (counts.copies, "copied"),
        (counts.removed, "removed"),
    )
    parts += [f"{number:,} {what}" for number, what in numbers if number]
    line = ", ".join(parts)
    captions = [
        f"{count(number, 'caption')} {what}"
        for number, what in ((counts.captions_added, "added"), (counts.captions_removed, "removed"))
        if number
    ]
    if captions:
        line += f"; {', '.join(captions)}"
    return line + (f"; {counts.present:,} were there already" if counts.present else "")


def _open_if_exists(folder: Path) -> Index | None:
    try:
        return Index.open(folder, verify="sizes")
    except MissingIndexError as error:
        if type(error) is not MissingIndexError:  # a subclass: its build is unfinished
            raise
        return None


def _indexed_files(index: Index) -> list[Path]:
    rows = index.catalog.all_paths()
    return [Path(index.locations.absolute(row.path)) for row in rows]


def _require_present(paths: Sequence[Path], indexed: Sequence[Path]) -> None:
    """Raise CommandError for a path that neither exists nor contains indexed files."""
    for at, path in enumerate(paths):
        real = Path(os.path.realpath(path))  # Path.resolve fails on links in a circle
        if not path.exists() and not any(file.is_relative_to(real) for file in indexed):
            joined = (" ".join(map(str, paths[at:end])) for end in range(at + 2, len(paths) + 1))
            quoted = next((name for name in joined if Path(name).exists()), None)
            remedy = "check the path" if quoted is None else f'put it in quotes, as in "{quoted}"'
            raise CommandError(f"there is no picture or folder {path}: {remedy}")


def _scan(index: Index, paths: Sequence[Path], options: SyncOptions) -> Scan:
    locations = index.catalog.locations(index.folder, find_missing=True)
    return scan(paths, options.scan, locations=locations, index_folder=index.folder)


def _sync(index: Index, encoders: Encoders, scanned: Scan, options: SyncOptions) -> None:
    if options.model is not None:  # refuse another model even if there is nothing new to encode
        encoders.load()
    sync = FolderSync(index, scanned, remove=True, allow_empty=options.allow_empty)
    try:
        if options.dry_run:
            counts = sync.dry_run(encoders)
        else:
            with progress("adding pictures") as report, resumable(lambda: _STOP_MESSAGE):
                counts = sync.apply(encoders, report)
    finally:
        warn_each(sync.scan.skipped)
    if not options.dry_run:
        merge_small(index)
        if options.read_text and (counts.added or counts.changed):
            _start_reading_text(index.folder)
    warn_of_unknown_captions(sync.unknown_captions, index.model.name)
    for sentence in sync.plan.unreachable.values():
        tell(sentence)
    prefix = "nothing was changed; without --dry-run: " if options.dry_run else ""
    typer.echo(f"{prefix}{_summarize(counts)}{skipped_summary(sync.scan.skipped)}")
    if counts == Counts() and not scanned.named_folders:
        raise typer.Exit(1)  # none of the named files is a picture


def _start_reading_text(library: Path) -> None:
    """Read the text in new pictures in the background, or print once what that needs."""
    if BackgroundReading(library).start(detached=True):
        tell("text in the new pictures is read in the background; 'hasse status' says how far")
    elif line := advice(library):
        tell(line)


def merge_small(index: Index) -> None:
    """Merge the small segments of many additions. If that fails, the additions stay."""
    try:
        with progress("merging rows") as report, resumable(lambda: _STOP_MESSAGE):
            index.compact(progress=report)
    except IndexLockedError:
        pass  # a service is merging
    except HasseIndexError as error:
        tell(f"the additions are there, but small segments could not be merged: {error}")
