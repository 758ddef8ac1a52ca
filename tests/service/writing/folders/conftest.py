from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import pytest

from hasse.index.store import Index
from hasse.index.verify import verify
from hasse.models.checkpoints import checkpoint
from hasse.models.checkpoints.checkpoint import Checkpoint
from hasse.service.writing import indexing
from hasse.service.writing.folders.encoders import Encoders
from hasse.service.writing.folders.plan import Counts
from hasse.service.writing.folders.scan import ScanOptions, scan
from hasse.service.writing.folders.sync import FolderSync
from hasse.service.writing.image_source import ImageSource
from tests.service.writing.folders.folder import draw
from tests.tiny import tiny_checkpoint


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Checkpoint:
    return checkpoint.load(tiny_checkpoint(tmp_path_factory.mktemp("model")))


@pytest.fixture
def index(tmp_path: Path, model: Checkpoint) -> Iterator[Index]:
    with Index.create(tmp_path / "index", indexing.identity_of(model), threads=1) as made:
        yield made


@pytest.fixture
def root(tmp_path: Path) -> Path:
    folder = tmp_path / "pictures"
    for at, name in enumerate(("a/one.png", "a/two.png", "three.png")):
        draw(folder / name, at)
    return folder


@pytest.fixture
def sync(index: Index, root: Path, model: Checkpoint) -> Callable[..., Counts]:
    def run(
        *paths: Path,
        remove: bool = True,
        allow_empty: bool = False,
        captions: Path | None = None,
        seen_at: float | None = None,
        exclude: Sequence[str] = (),
        follow_links: bool = False,
        skipped: list[str] | None = None,
    ) -> Counts:
        seen = scan(
            paths or [root],
            ScanOptions(captions, exclude, follow_links),
            locations=index.catalog.locations(index.folder, find_missing=True),
            index_folder=index.folder,
        )
        seen.seen_at = seen_at or seen.seen_at
        folder_sync = FolderSync(index, seen, remove=remove, allow_empty=allow_empty)
        encoders = Encoders(lambda: model, lambda: ImageSource(batch_size=2, block_seconds=0.0))
        counts = folder_sync.apply(encoders)
        (skipped if skipped is not None else []).extend(folder_sync.scan.skipped.lines)
        assert verify(index.folder).ok
        return counts

    return run
