"""The steps of `hasse add` and `hasse sync`: look at folders, and follow them."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING

import typer

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
from hasse.service.cli.terminal.skipped_rows import counted, tell_each
from hasse.service.plural import count
from hasse.service.runtime.reading import BackgroundReading, advice
from hasse.service.writing.folders.encoders import Encoders
from hasse.service.writing.folders.plan import Counts
from hasse.service.writing.folders.scan import DEFAULT_OPTIONS, ScanOptions, scan
from hasse.service.writing.folders.sync import FolderSync

if TYPE_CHECKING:  # torch, which takes seconds to import, is needed only to encode
    from hasse.models.checkpoints.checkpoint import Checkpoint
    from hasse.service.writing.image_source import ImageSource

_KEPT = "what was changed so far is searchable; the same command goes on with the rest"


@dataclass(frozen=True, slots=True)
class SyncOptions:
    """Options of `hasse add` and `hasse sync`."""

    scan: ScanOptions = DEFAULT_OPTIONS
    model: Path | None = None
    encoding: Encoding = field(default_factory=Encoding)
    allow_empty: bool = False
    dry_run: bool = False
    read_text: bool = True  # in the background


def add_folders(library: Path, paths: Sequence[Path], options: SyncOptions) -> None:
    """Bring a library in step with folders and single pictures, and print one line of counts.

    Where there is no library yet, it is made.
    """
    if options.scan.captions is not None and (len(paths) > 1 or paths[0].is_file()):
        raise CommandError("--captions is for one folder: name that one, and nothing beside it")
    for path in paths:
        if (path / "catalog.db").is_file():
            raise CommandError(f"{path} is a library, not a folder of pictures: see --library")
    with _opened_or_new(library, paths, options) as (opened, encoders):
        _require_present(paths, _known_files(opened))
        _sync(opened, encoders, paths, options)


def sync_folders(library: Path, options: SyncOptions) -> None:
    """Bring a library in step with its folders, and print one line of counts."""
    with Index.open(library, verify="sizes") as opened:
        _sync(opened, _encoders(opened, options), folders_of(opened), options)


def follow(library: Path, options: SyncOptions) -> None:
    """Keep a library in step with its folders until Ctrl-C, with a line for each change."""
    from hasse.service.writing.folders.watch import FolderWatch

    reading = BackgroundReading(library)

    def report(counts: Counts, generation: int) -> None:
        if options.read_text and (counts.added or counts.changed):
            reading.start()
        typer.echo(f"{summary(counts)}; generation {generation}")

    with Index.open(library, verify="sizes") as opened:
        tell(f"following {', '.join(map(str, folders_of(opened)))}; Ctrl-C stops")
        watch = FolderWatch(
            opened,
            _encoders(opened, options, lambda line: None),  # the watch tells each line once
            on_change=report,
            warn=tell,
        )
        try:
            with resumable(lambda: "the library is as it was last told"):
                watch.run(threading.Event())
        finally:
            reading.stop()


def folders_of(index: Index) -> list[Path]:
    """Return the folders that a library remembers; raises CommandError for none."""
    folders = index.catalog.locations(index.folder, find_missing=True).followed_folders
    if not folders:
        raise CommandError("the library has no folders: 'hasse add FOLDER' adds one")
    return folders


def require_no_demo(model: str) -> None:
    """Raise CommandError for the model of the demo: it reads drawn scenes only."""
    if model == "scenes":
        raise CommandError(
            "the model of the demo knows drawn scenes only: name another --model, or, where the "
            "library is the demo's, another --library"
        )


@contextmanager
def _opened_or_new(
    library: Path, paths: Sequence[Path], options: SyncOptions
) -> Iterator[tuple[Index, Encoders]]:
    """Yield the library; a new one where there is none, which a dry run makes elsewhere."""
    opened = _opened(library)
    if opened is not None:
        with opened:
            require_no_demo(opened.model.name)
            yield opened, _encoders(opened, options)
        return
    _require_present(paths, [])
    _require_apart(library, paths)
    _require_pictures(paths, options)
    from hasse.models.checkpoints import named_models

    model = named_models.find_or_default(options.model, Dataset("", ()))
    require_no_demo(model.name)
    checkpoint = loaded(model, options.encoding.device)
    with TemporaryDirectory(prefix="hasse-") as elsewhere:
        place = Path(elsewhere, "library") if options.dry_run else library
        try:
            made = created(place, checkpoint)
        except IndexExistsError:  # another command made it meanwhile: both add to it
            made = Index.open(place, checkpoint.fingerprint)
        with made:
            yield made, Encoders(lambda: checkpoint, partial(options.encoding.source, skipped=tell))
        if made.info().images and not options.dry_run:
            tell("next: 'hasse search a dog on a beach', or 'hasse serve'")


def _require_apart(library: Path, paths: Sequence[Path]) -> None:
    """Refuse a library in a folder of pictures."""
    place = Path(os.path.realpath(library))  # Path.resolve fails on links in a circle
    around = next((path for path in paths if place.is_relative_to(os.path.realpath(path))), None)
    if around is None and library.is_dir() and scan([library]).files:
        around = library
    if around is not None and place != Path(os.path.realpath(home() / "library")):
        raise CommandError(
            f"{around} is a folder of pictures, and no place for a library: leave --library out, "
            "or name a folder of its own"
        )


def _require_pictures(paths: Sequence[Path], options: SyncOptions) -> None:
    """Refuse to make a library of nothing."""
    seen = scan(paths, options.scan)
    if not seen.files:
        rest = "".join(f" ({line})" for line in seen.skipped.report_lines()[-1:])
        raise DatasetError(
            f"no pictures in {', '.join(map(str, paths))} and below{rest}: "
            "docs/collections.md lists the formats"
        )


def created(folder: Path, checkpoint: Checkpoint) -> Index:
    """Make an empty index whose points this model will make."""
    from hasse.service.writing.indexing import identity_of

    return Index.create(folder, identity_of(checkpoint))


def _encoders(
    index: Index, options: SyncOptions, skipped: Callable[[str], None] = tell
) -> Encoders:
    settings = configure(device=options.encoding.device)
    named = settings.model_copy(update={"model": options.model})
    return Encoders.of(index, named, partial(options.encoding.source, skipped=skipped))


def loaded(folder: Path, device: str) -> Checkpoint:
    """Load a checkpoint onto a device."""
    from hasse.models.checkpoints.checkpoint import load
    from hasse.service.runtime.device import pick_device

    return load(folder, pick_device(device), runtime=configure().encoder_runtime)


def built(
    dataset: Dataset,
    checkpoint: Checkpoint,
    folder: Path,
    source: ImageSource,
    segment_rows: int | None = None,
) -> Index:
    """Build an index of a dataset, with progress."""
    from hasse.service.writing import indexing

    kept = f"what is encoded is kept in {folder}; the same command goes on from there"
    with progress("indexing") as report, resumable(lambda: kept):
        return indexing.build(
            dataset, checkpoint, folder, source, report, rows_per_segment=segment_rows
        )


def tell_unknown(texts: Collection[str], model: str) -> None:
    """Say that captions mean nothing to a model, if there are such."""
    if texts:
        tell(
            f"{count(len(texts), 'caption')} without a word that the model {model} knows, such as "
            f"'{min(texts)}': kept, but no search finds them by what they say"
        )


def summary(counts: Counts) -> str:
    """Return what was done, or would be, in one line."""
    parts = [count(counts.added, "picture") + " added"]
    numbers = (
        (counts.moved, "moved"),
        (counts.changed, "changed"),
        (counts.copies, "copied"),
        (counts.removed, "removed"),
    )
    parts += [f"{number:,} {what}" for number, what in numbers if number]
    line = ", ".join(parts)
    said = [
        f"{count(number, 'caption')} {what}"
        for number, what in (
            (counts.captions_added, "added"),
            (counts.captions_removed, "removed"),
        )
        if number
    ]
    if said:
        line += f"; {', '.join(said)}"
    return line + (f"; {counts.present:,} were there already" if counts.present else "")


def _opened(folder: Path) -> Index | None:
    try:
        return Index.open(folder, verify="sizes")
    except MissingIndexError as error:
        if type(error) is not MissingIndexError:  # its build has not ended
            raise
        return None


def _known_files(index: Index) -> list[Path]:
    rows = index.catalog.all_paths()
    return [Path(index.locations.absolute(row.path)) for row in rows]


def _require_present(paths: Sequence[Path], known: Sequence[Path]) -> None:
    for at, path in enumerate(paths):
        place = Path(os.path.realpath(path))  # Path.resolve fails on links in a circle
        if not path.exists() and not any(file.is_relative_to(place) for file in known):
            joined = (" ".join(map(str, paths[at:end])) for end in range(at + 2, len(paths) + 1))
            whole = next((name for name in joined if Path(name).exists()), None)
            remedy = "check the path" if whole is None else f'put it in quotes, as in "{whole}"'
            raise CommandError(f"there is no picture or folder {path}: {remedy}")


def _sync(index: Index, encoders: Encoders, paths: Sequence[Path], options: SyncOptions) -> None:
    locations = index.catalog.locations(index.folder, find_missing=True)
    seen = scan(paths, options.scan, locations=locations, index_folder=index.folder)
    if options.model is not None:  # refused where it is another one, also where nothing is new
        encoders.load()
    sync = FolderSync(index, seen, remove=True, allow_empty=options.allow_empty)
    try:
        if options.dry_run:
            counts = sync.dry_run(encoders)
        else:
            with progress("adding pictures") as report, resumable(lambda: _KEPT):
                counts = sync.apply(encoders, report)
    finally:
        tell_each(sync.scan.skipped)
    if not options.dry_run:
        merge_small(index)
        if options.read_text and (counts.added or counts.changed):
            _read_text(index.folder)
    tell_unknown(sync.unknown_captions, index.model.name)
    for sentence in sync.plan.unreachable.values():
        tell(sentence)
    would = "nothing was changed; without --dry-run: " if options.dry_run else ""
    typer.echo(f"{would}{summary(counts)}{counted(sync.scan.skipped)}")
    if counts == Counts() and all(path.is_file() for path in paths):
        raise typer.Exit(1)  # none of the named files is a picture


def _read_text(library: Path) -> None:
    """Have the text in new pictures read after this command, or say once what reads it."""
    if BackgroundReading(library).start(detached=True):
        tell("text in the new pictures is read in the background; 'hasse status' says how far")
    elif line := advice(library):
        tell(line)


def merge_small(index: Index) -> None:
    """Merge what many additions have left; the additions stay where that fails."""
    try:
        with progress("merging rows") as report, resumable(lambda: _KEPT):
            index.compact(progress=report)
    except IndexLockedError:
        pass  # a service is merging
    except HasseIndexError as error:
        tell(f"the additions are there, but small segments could not be merged: {error}")
