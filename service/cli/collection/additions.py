"""The steps of `hasse index add`: read the pictures, put them into an index, merge segments."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from index.errors import HasseIndexError, IndexLockedError, MissingIndexError
from index.store import Index
from models.checkpoints.checkpoint import Checkpoint
from models.datasets import Dataset
from models.datasets import folder as reader
from models.datasets.skipped_rows import SkippedRows
from models.images.limits import PictureLimits
from service.cli.terminal.errors import CommandError, resumable
from service.cli.terminal.progress import progress, tell
from service.cli.terminal.skipped_rows import tell_each
from service.pipelines import adding, indexing
from service.pipelines.adding import Known
from service.pipelines.dataset_encoding import ImageSource

_ADDED = "pictures added so far are searchable; the same command goes on with the rest"


def known_of(folder: Path) -> Known | None:
    """Return what an index holds; None where none is built to the end."""
    try:
        with Index.open(folder, verify="sizes") as opened:
            return Known.of(opened) if opened.generation > 0 else None
    except MissingIndexError:
        return None


def read_pictures(
    paths: Sequence[Path],
    captions: Path | None,
    exclude: Sequence[str],
    known: Known | None,
    limits: PictureLimits,
) -> tuple[list[Dataset], SkippedRows]:
    """Return the pictures that paths name: those of each folder, and the single ones together."""
    for path in paths:
        if not (path.is_dir() or path.is_file()):
            raise CommandError(f"there is no picture or folder {path}: check the path")
    if captions is not None and (len(paths) > 1 or not paths[0].is_dir()):
        raise CommandError("--captions is for one folder: name that one, and nothing beside it")
    present = known.paths if known else frozenset()
    read = [
        reader.read(path, captions, known=present, exclude=exclude, limits=limits)
        for path in paths
        if path.is_dir()
    ]
    if single := [path for path in paths if not path.is_dir()]:
        read.append(reader.read_pictures(single, present, limits))
    skipped = SkippedRows.joined(found for _, found in read)
    tell_each(skipped)
    return [dataset for dataset, _ in read], skipped


def added_to(
    folder: Path,
    datasets: Sequence[Dataset],
    checkpoint: Checkpoint,
    source: ImageSource,
    known: Known | None,
) -> tuple[int, int, int]:
    """Add datasets to an index, which is built where there is none yet.

    Returns how many pictures were added, how many were there already, and the generation.
    """
    added, present = 0, 0
    if known is None:
        with built(datasets[0], checkpoint, folder, source) as made:
            datasets, added = datasets[1:], made.info().images
    with Index.open(folder, checkpoint.fingerprint) as opened:
        with progress("adding") as report, resumable(lambda: _ADDED):
            for dataset in datasets:
                done = adding.add(opened, dataset, checkpoint, source, report, known)
                added, present = added + done.added, present + done.known
        merge_small(opened)
        return added, present, opened.generation


def built(dataset: Dataset, checkpoint: Checkpoint, folder: Path, source: ImageSource) -> Index:
    """Build an index of a dataset, with progress."""
    kept = f"what is encoded is kept in {folder}; the same command goes on from there"
    with progress("indexing") as report, resumable(lambda: kept):
        return indexing.build(dataset, checkpoint, folder, source, report)


def merge_small(index: Index) -> None:
    """Merge what many additions have left; the additions stay where that fails."""
    try:
        with progress("merging rows") as report, resumable(lambda: _ADDED):
            index.compact(progress=report)
    except IndexLockedError:
        pass  # a service is merging
    except HasseIndexError as error:
        tell(f"the additions are there, but small segments could not be merged: {error}")
