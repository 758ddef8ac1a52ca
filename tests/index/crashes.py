"""Kill a writer at any of its write points, or fill its disk there, and look at what is left.

    python -m tests.index.crashes FOLDER SEED COUNT [sqlite|postgresql]

does each work (`change`, `compact`, `build`, `reencode` and `describe`) COUNT times, stopped in
each way (`kill` and `full`) at write points chosen by the seed, and prints one JSON line for each:
the fault found, or null. A write point is every call that reaches the disk: before it, and, for a
write, after half of it; and both sides of a commit.

Each attempt is a fork of one process that has everything imported, so that hundreds are quick.
With `postgresql` the catalog is a database of the server of the tests, and works are only killed.
"""

from __future__ import annotations

import json
import os
import shutil
import sys
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, Final

import faiss
import numpy as np

from hasse.index.build import build, reencode
from hasse.index.catalog import documents
from hasse.index.catalog.database import CATALOG_URL, catalog_url
from hasse.index.catalog.searches import delete_search, note_seen, save_search, saved_searches
from hasse.index.catalog.selection import Selection
from hasse.index.errors import DiskFullError, MissingIndexError
from hasse.index.search.query import Query
from hasse.index.segments.change import Change
from hasse.index.segments.compaction import everything
from hasse.index.segments.cost_model import Thresholds
from hasse.index.store import Index
from hasse.index.types import (
    KINDS,
    MODES,
    CaptionRow,
    Ids,
    ImageRow,
    Metadata,
    Points,
    VersionRow,
)
from hasse.index.verify import verify
from tests.index.samples import captions, changes, embeddings, images, model, small_index
from tests.index.write_points import WritePoints, forked
from tests.postgresql import execute, new_database, place_catalog

_READ: Final = "text in the picture"
_LARGE = Thresholds(bounds_from_bytes=1, prefilter_from_rows=16)
POINTS = embeddings(np.random.default_rng(0), 60, 16)
SHORT = embeddings(np.random.default_rng(1), 60, 8)
OTHER = model(8, name="other")


def change(folder: Path, acknowledge: Callable[[int], None]) -> None:
    """Add, remove, and add again what was removed: generations 2 to 4 of a small index."""
    with Index.open(folder, threads=1, thresholds=_LARGE) as index:
        index.add(images([50, 51]), POINTS[:2], captions([500], [50]), POINTS[2:3])
        acknowledge(2)
        index.remove([3, 50])
        acknowledge(3)
        index.add(images([3]), POINTS[3:4], captions([501, 502], [3, 51]), POINTS[4:6])
        acknowledge(4)


# The images and captions of each generation that `change` makes.
STATES: dict[int, tuple[set[int], set[int]]] = {
    1: (set(range(1, 13)), set(range(101, 125))),
    2: ({*range(1, 13), 50, 51}, {*range(101, 125), 500}),
    3: ({1, 2, *range(4, 13), 51}, {*range(101, 125)} - {103, 115}),
    4: ({*range(1, 13), 51}, ({*range(101, 125)} - {103, 115}) | {501, 502}),
}


def compact(folder: Path, acknowledge: Callable[[int], None]) -> None:
    """Merge twice with a removal and an addition between: generations 2 to 7 of a small index."""
    with Index.open(folder, threads=1, thresholds=_LARGE) as index:
        index.remove([3])
        acknowledge(2)
        index.compact(everything)
        acknowledge(4)
        index.add(images([3]), POINTS[3:4])
        acknowledge(5)
        index.compact(everything)
        acknowledge(6)
        index.remove([4])
        acknowledge(7)


# Both kinds lose rows, so the first merge is of both; the second finds two segments of images.
_WITHOUT_3 = (set(range(1, 13)) - {3}, set(range(101, 125)) - {103, 115})
_WITH_3 = (set(range(1, 13)), _WITHOUT_3[1])
COMPACTED: dict[int, tuple[set[int], set[int]]] = {
    1: STATES[1],
    2: _WITHOUT_3,
    3: _WITHOUT_3,
    4: _WITHOUT_3,
    5: _WITH_3,
    6: _WITH_3,
    7: (_WITH_3[0] - {4}, _WITH_3[1] - {104, 116}),
}


def fresh_build(folder: Path, acknowledge: Callable[[int], None]) -> None:
    """Build an index of 20 images and 40 captions in segments of 15 rows."""

    def image_blocks(done: Ids) -> Iterator[tuple[list[ImageRow], Points]]:
        for at in range(len(done), 20, 6):
            part = range(at, min(at + 6, 20))
            yield images(part), POINTS[part.start : part.stop]

    def caption_blocks(done: Ids) -> Iterator[tuple[list[CaptionRow], Points]]:
        for at in range(len(done), 40, 9):
            part = range(at, min(at + 9, 40))
            rows = [CaptionRow(id_, id_ % 20, f"caption {id_}") for id_ in part]
            yield rows, POINTS[part.start : part.stop]

    index = build(
        folder,
        model(),
        changes(image_blocks, caption_blocks),
        source="crashes",
        total=60,
        rows_per_segment=15,
        thresholds=_LARGE,
        threads=1,
    )
    acknowledge(index.generation)
    index.close()


def encode_anew(folder: Path, acknowledge: Callable[[int], None]) -> None:
    """Encode a small index by another model, of 8 coordinates, without image 12: generation 2."""

    def image_blocks(done: Ids) -> Iterator[tuple[list[ImageRow], Points]]:
        for at in range(len(done), 11, 4):
            part = range(at, min(at + 4, 11))
            yield images([row + 1 for row in part]), SHORT[part.start : part.stop]

    def caption_blocks(done: Ids) -> Iterator[tuple[list[CaptionRow], Points]]:
        rows = [row for row in captions(range(101, 125), range(1, 13)) if row.image_id < 12]
        for at in range(len(done), len(rows), 9):
            yield rows[at : at + 9], SHORT[at : min(at + 9, len(rows))]

    acknowledge(
        reencode(
            folder,
            OTHER,
            changes(image_blocks, caption_blocks),
            source="crashes",
            total=33,
            rows_per_segment=9,
            thresholds=_LARGE,
        )
    )


def describe(folder: Path, acknowledge: Callable[[int], None]) -> None:
    """Write metadata, texts and versions, and keep a search: generations 2 and 3, in six steps."""
    with Index.open(folder, threads=1, thresholds=_LARGE) as index:
        for step, work in enumerate(_DESCRIBING, start=1):
            work(index)
            acknowledge(step)


def _add_described(index: Index) -> None:
    said = Metadata(camera="Pentax", latitude=52.5, longitude=13.4, texts=(("title", "Felix"),))
    versions = [VersionRow(50, "ab", 50), VersionRow(51, "ab", 50)]
    rows = images([50, 51])
    index.change(Change(rows, POINTS[:2], metadata={50: said}, versions=versions))


def _read_texts(index: Index) -> None:
    index.change(Change(texts={_READ: {3: ["wifi password"], 50: ["exit"]}}))


_DESCRIBING: tuple[Callable[[Index], object], ...] = (
    _add_described,
    _read_texts,
    lambda index: save_search(index.catalog, "felix", '{"caption":"felix"}', [50]),
    lambda index: note_seen(index.catalog, "felix", [50, 51]),
    lambda index: save_search(index.catalog, "felix", '{"caption":"exit"}', []),
    lambda index: delete_search(index.catalog, "felix"),
)
# After each step: what is said by image 50 and by image 3, versions of 51, and the saved search.
_NONE: tuple[set[str], set[str], set[int], tuple[Any, ...]] = (set(), set(), set(), ())
_FELIX: tuple[set[str], set[str], set[int]] = ({"Felix", "exit"}, {"wifi password"}, {50})
DESCRIBED: tuple[tuple[Any, ...], ...] = (
    _NONE,
    ({"Felix"}, set(), {50}, ()),
    (*_FELIX, ()),
    (*_FELIX, ('{"caption":"felix"}', {50})),
    (*_FELIX, ('{"caption":"felix"}', {50, 51})),
    (*_FELIX, ('{"caption":"exit"}', set())),
    (*_FELIX, ()),
)


def check_describe(folder: Path, acknowledged: int) -> None:
    """Each step is there as a whole or not at all, and the text index agrees with it."""
    report = verify(folder)
    assert report.ok, report.findings
    with Index.open(folder, threads=1, thresholds=_LARGE) as index:
        with index.catalog.reading() as connection:
            texts = documents.texts_of(connection, [3, 50])
            assert documents.count_outdated(connection) == 0
        told = [
            {text for source, text in texts.get(id_, []) if source in ("title", _READ)}
            for id_ in (50, 3)
        ]
        versions = {row.picture for row in index.catalog.versions().values() if row.image_id == 51}
        kept = [(one.request, set(one.seen)) for one in saved_searches(index.catalog)]
        state = (*told, versions, kept[0] if kept else ())
        assert state in DESCRIBED[acknowledged : acknowledged + 2], (state, acknowledged)
        cameras = Selection(camera="pentax").ids(index.catalog, folder, "image", np.array([50]))
        assert set(cameras.tolist()) == ({50} if told[0] else set())
    check_use(folder)


def held(folder: Path) -> tuple[int, set[int], set[int]]:
    """Return the generation of an index and the ids that searches and the catalog give."""
    report = verify(folder)
    assert report.ok, report.findings
    with Index.open(folder, threads=1, thresholds=_LARGE) as index:
        nothing = np.zeros(index.model.dimension)
        found = [set(index.search(Query(kind, 1000), nothing).ids.tolist()) for kind in KINDS]
        assert set(index.catalog.images(range(100))) == found[0]
        assert set(index.catalog.captions(range(600))) == found[1]
        return index.generation, found[0], found[1]


def check_change(folder: Path, acknowledged: int) -> None:
    """The index is at the last generation acknowledged or the next one, and takes a change."""
    generation, *found = held(folder)
    last = max(acknowledged, 1)
    assert generation in (last, last + 1), (generation, acknowledged)
    assert tuple(found) == STATES[generation], generation
    check_use(folder)


def check_compact(folder: Path, acknowledged: int) -> None:
    """Every change acknowledged is there, whichever merge was under way, and it can be used."""
    generation, *found = held(folder)
    last = max(acknowledged, 1)
    # The first merge makes two generations, and acknowledges the second of them.
    assert last <= generation <= last + (2 if last == 2 else 1), (generation, acknowledged)
    assert tuple(found) == COMPACTED[generation], generation
    check_use(folder)


def check_use(folder: Path) -> None:
    """An addition and a merge sweep away whatever was left behind."""
    with Index.open(folder, threads=1, thresholds=_LARGE) as index:
        index.add(images([90]), POINTS[:1])
        segments = index.folder / "segments"
        known = {live.segment.record.name for live in index.snapshot.segments}
        assert {path.name for path in segments.iterdir()} == known
        before = index.search(Query("image", 50), POINTS[9]).ids.tolist()
        index.compact(everything)
        assert index.search(Query("image", 50), POINTS[9]).ids.tolist() == before
        assert len(list(segments.iterdir())) == 2
        names = {"compaction.lock", "generation", "lock", "notifications", "readers", "segments"}
        assert {path.name for path in folder.iterdir() if "catalog" not in path.name} <= names


def check_build(folder: Path, acknowledged: int) -> None:
    """Nothing or everything is there; when nothing, the next run completes it."""
    if acknowledged == 0 and not is_built(folder):
        fresh_build(folder, lambda _generation: None)
    assert held(folder) == (1, set(range(20)), set(range(40)))
    with Index.open(folder, threads=1, thresholds=_LARGE) as index, index.writing():
        pass  # the next writer sweeps away what a kill after the commit left
    parts = {"generation", "segments", "lock", "readers", "notifications"}
    assert {path.name for path in folder.iterdir() if "catalog" not in path.name} <= parts


def check_encode_anew(folder: Path, acknowledged: int) -> None:
    """The old points are searched or the new ones, and the next run completes what is missing."""
    generation, *found = held(folder)
    assert acknowledged in (0, generation)
    with Index.open(folder, threads=1, thresholds=_LARGE) as index:
        assert index.model == (model() if generation == 1 else OTHER)
        if generation == 1:
            assert tuple(found) == STATES[1]
            # Another writer keeps what is staged, once it is known for which model.
            staged = set(folder.glob("staging/*"))
            is_known = folder / "staging" / "build.json" in staged
            with index.writing():
                pass
            assert set(folder.glob("staging/*")) == (staged if is_known else set())
    if generation == 1:
        encode_anew(folder, lambda _generation: None)
    assert held(folder) == (2, set(range(1, 12)), set(range(101, 125)) - {112, 124})
    with Index.open(folder, OTHER.fingerprint, threads=1) as index:
        assert index.points("image", [4])[4].tolist() == SHORT[3].tolist()
        with index.writing():
            pass
        assert not (folder / "staging").exists()
        known = {live.segment.record.name for live in index.snapshot.segments}
        assert {path.name for path in (folder / "segments").iterdir()} == known


def is_built(folder: Path) -> bool:
    """Tell whether anything is visible of a build that was stopped."""
    try:
        return held(folder)[0] > 0
    except MissingIndexError:
        return False


WORKS = {
    "change": (change, check_change),
    "compact": (compact, check_compact),
    "build": (fresh_build, check_build),
    "reencode": (encode_anew, check_encode_anew),
    "describe": (describe, check_describe),
}


def attempt(folder: Path, name: str, stop_at: int, *, full: bool) -> dict[str, Any]:
    """Do the work once, stopped at one write point; say what was wrong afterwards."""
    place, note = folder / "index", folder / "acknowledged"
    shutil.rmtree(place, ignore_errors=True)
    note.write_bytes(b"\0")
    if name != "build":
        shutil.copytree(folder / "small", place)
    if (folder / "small" / CATALOG_URL).exists():
        _place_catalog(folder, place, empty=name == "build")
    work, check = WORKS[name]

    def stopped() -> None:
        points = WritePoints(stop_at, full=full)
        try:
            work(place, lambda generation: _overwrite(note, generation))
            assert points.passed < stop_at or not stop_at, "a full disk was not noticed"
        except DiskFullError:
            assert full
        (folder / "passed").write_text(str(points.passed))

    status, said = forked(stopped)
    acknowledged = note.read_bytes()[0]
    if not said:
        _, said = forked(lambda: check(place, acknowledged))
    return {
        "point": stop_at,
        "killed": os.WIFSIGNALED(status),
        "acknowledged": acknowledged,
        "fault": said or None,
    }


def _place_catalog(folder: Path, place: Path, *, empty: bool) -> None:
    """Give an index a database of its own, that of the small index anew or an empty one."""
    small = catalog_url(folder / "small")
    ours = small.set(database=f"{small.database}_attempt")
    template = "template0" if empty else small.database
    execute(
        small.set(database="postgres"),
        f"DROP DATABASE IF EXISTS {ours.database} WITH (FORCE)",
        f"CREATE DATABASE {ours.database} TEMPLATE {template}",
    )
    place.mkdir(exist_ok=True)
    (place / CATALOG_URL).write_text(ours.render_as_string(hide_password=False))


def _overwrite(path: Path, generation: int) -> None:
    with path.open("r+b") as file:
        file.write(bytes([generation]))


def write_points(folder: Path, name: str) -> int:
    """Return how many write points the whole work has."""
    outcome = attempt(folder, name, 0, full=False)
    assert outcome["fault"] is None, outcome["fault"]
    return int((folder / "passed").read_text())


def prepare(folder: Path) -> None:
    """Make the small index that `change` starts from; give segments all that large ones have."""
    folder.mkdir(parents=True, exist_ok=True)
    faiss.omp_set_num_threads(1)
    with small_index(folder / "small", thresholds=_LARGE) as index:
        # Every fork inherits the kernels that these have loaded.
        for kind in KINDS:
            for mode in MODES:
                index.search(Query(kind, 3, mode), POINTS[0])


def run(place: Path, seed: int, count: int, ways: Sequence[str]) -> None:
    """Do each work `count` times in each way, and print what came of it."""
    prepare(place)
    for work in WORKS:
        total = write_points(place, work)
        for way in ways:
            chosen = np.random.default_rng(seed).permutation(total)[:count] + 1
            for point in chosen.tolist():
                outcome = attempt(place, work, point, full=way == "full")
                line = {"work": work, "way": way, "of": total, **outcome}
                sys.stdout.write(json.dumps(line) + "\n")
                sys.stdout.flush()


def main() -> None:
    """Run the attempts that the command line asks for."""
    place, seed, count = Path(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3])
    if sys.argv[4:] != ["postgresql"]:
        run(place, seed, count, ("kill", "full"))
        return
    with new_database() as url:
        place_catalog(place / "small", url)
        run(place, seed, count, ("kill",))
        execute(url.set(database="postgres"), f"DROP DATABASE {url.database}_attempt WITH (FORCE)")


if __name__ == "__main__":
    main()
