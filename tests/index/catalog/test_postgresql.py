"""An index whose catalog is in a real PostgreSQL server does what one in SQLite does."""

from __future__ import annotations

import gc
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
import sqlalchemy as sql

from hasse.index.build import build
from hasse.index.catalog.selection import Selection
from hasse.index.errors import (
    BadRowsError,
    CatalogUnreachableError,
    DamagedIndexError,
    IndexExistsError,
    IndexLockedError,
    MissingIndexError,
    NotAnIndexError,
    ReadOnlyIndexError,
)
from hasse.index.search.query import Query
from hasse.index.segments.change import Change
from hasse.index.segments.compaction import everything
from hasse.index.store import Index
from hasse.index.types import KINDS, MODES, CaptionRow, ImageRow
from hasse.index.verify import verify
from tests.index import test_reencode
from tests.index.samples import captions, changes, embeddings, images, model, small_index
from tests.postgresql import disconnect, execute, new_database, place_catalog

ROOT = Path(__file__).parents[3]
DIMENSION = 16


@pytest.fixture
def database() -> Iterator[sql.URL]:
    with new_database() as url:
        yield url


@pytest.fixture
def folder(tmp_path: Path, database: sql.URL) -> Path:
    """A folder for an index whose catalog is in an empty database."""
    return place_catalog(tmp_path / "index", database)


def answers(index: Index, selection: Selection | None = None) -> list[object]:
    """What the index answers to some searches of each kind and mode."""
    found: list[object] = []
    for point in embeddings(np.random.default_rng(5), 3, DIMENSION):
        for kind in KINDS:
            for mode in MODES:
                answer = index.search(Query(kind, 7, mode, selection=selection), point)
                found.append((kind, mode, answer.ids.tolist(), answer.violations.tolist()))
    return found


def change(index: Index) -> None:
    """Add, remove and merge."""
    points = embeddings(np.random.default_rng(1), 6, DIMENSION)
    rows = [ImageRow(50 + n, f"{n}.jpg", f"new/{n}.jpg", None, None, "train") for n in range(6)]
    index.add(rows, points, captions([900, 901], [50, 51]), points[:2])
    index.remove([1, 2, 53])
    index.add(images([1]), points[3:4])
    index.compact(everything)
    index.remove([3])


def test_index_in_postgresql_answers_as_one_in_sqlite(folder: Path, tmp_path: Path) -> None:
    with small_index(folder) as index, small_index(tmp_path / "sqlite") as reference:
        assert answers(index) == answers(reference)
        change(index)
        change(reference)
        assert index.generation == reference.generation
        for selection in (None, Selection(split="train"), Selection(image_ids=(4, 50, 99))):
            assert answers(index, selection) == answers(reference, selection)
    assert not (folder / "catalog.db").exists()


def test_open_index_in_postgresql_describes_what_was_added(folder: Path) -> None:
    with small_index(folder) as index:
        change(index)
        before = answers(index)
    with Index.open(folder, model().fingerprint) as index:
        assert answers(index) == before
        info = index.info()
        assert (info.images, info.captions) == (15, 20)
        row = index.catalog.images([52])[52]
        assert row is not None
        assert (row.path, row.width, row.split) == ("new/2.jpg", None, "train")
        assert index.catalog.captions([104]) == {104: CaptionRow(104, 4, "caption 104")}
        assert [row.id for row in index.catalog.captions_of([4, 5])[4]] == [104, 116]
        found = index.catalog.described_images([50, 2])
        assert set(found) == {50}
        assert [row.id for row in found[50].captions] == [900]
        assert [file.path for file in found[50].paths] == [found[50].row.path]
        hits, removal = index.catalog.image_hits([4, 50, 3])
        assert set(hits) == {4, 50}
        assert removal == index.generation
        assert index.catalog.caption_hits([900, 101])[0].keys() == {900}
        largest = index.catalog.largest_ids()
        assert (largest["image"], largest["caption"]) == (55, 901)


def test_selection_in_postgresql_is_that_of_sqlite(folder: Path, tmp_path: Path) -> None:
    selections = (
        (Selection(path_prefix="1"), 8),  # 1.jpg, 10.jpg, 11.jpg, 12.jpg
        (Selection(path_prefix="", taken_from=5, taken_before=9), 1),
        (Selection(path_prefix=f"{tmp_path}/", absolute_paths=True), 25),
        (Selection(path_prefix=f"{tmp_path}/x", absolute_paths=True), 0),
        (Selection(distinct_texts=True), 24),
        (Selection(split="train", distinct_texts=True), 1),
    )
    one_point = np.ones((1, DIMENSION))
    with small_index(folder) as index, small_index(tmp_path / "sqlite") as reference:
        for each in (index, reference):
            row = ImageRow(50, "50.jpg", "new/50.jpg", split="train", taken=7)
            each.add([row], one_point, [CaptionRow(900, 50, "Caption 101.")], one_point)
        for selection, count in selections:
            query = Query("caption", 50, selection=selection)
            found = [each.search(query, one_point[0]) for each in (index, reference)]
            assert found[0].ids.tolist() == found[1].ids.tolist()
            assert found[0].same == found[1].same
            assert found[0].searched == count


def test_written_captions_in_a_database_are_kept_apart(folder: Path, database: sql.URL) -> None:
    small_index(folder).close()
    row, point = CaptionRow(900, 50, "a dog", "m 0123"), np.ones((1, DIMENSION))
    with Index.open(folder) as index:
        index.add(images([50]), point, [row], point)
        assert index.catalog.captions([900]) == {900: row}
        assert index.catalog.caption_hits([900])[0][900].written_by == "m 0123"
        assert index.catalog.image_hits([50])[0][50].captions == [["a dog", "m 0123"]]
        for written, searched in ((None, 24), (False, 24), (True, 25)):
            query = Query("caption", 50, selection=Selection(written=written))
            assert index.search(query, point[0]).searched == searched
        index.add([], point[:0], [CaptionRow(901, 50, "a cat")], point)
        assert [row.id for row in index.catalog.captions_of([50])[50]] == [901]
    assert verify(folder).ok


def test_build_into_postgresql_is_whole_and_verified(folder: Path) -> None:
    rng = np.random.default_rng(3)
    rows, points = images(range(1, 41)), embeddings(rng, 40, DIMENSION)
    told, told_points = captions(range(100, 160), range(1, 41)), embeddings(rng, 60, DIMENSION)
    with build(
        folder,
        model(DIMENSION),
        changes(
            lambda _: [(rows[at : at + 10], points[at : at + 10]) for at in range(0, 40, 10)],
            lambda _: [(told, told_points)],
        ),
        source="sample",
        total=100,
        rows_per_segment=16,
        threads=1,
    ) as index:
        assert index.catalog.counts() == {"image": 40, "caption": 60}
    report = verify(folder)
    assert report.ok, report.findings
    assert report.rows == 100


def test_index_in_postgresql_is_encoded_anew_by_another_model(folder: Path) -> None:
    small_index(folder).close()
    assert test_reencode.run(folder, last=10) == 2
    with Index.open(folder, test_reencode.OTHER.fingerprint) as index:
        assert index.catalog.counts() == {"image": 10, "caption": 20}
    assert verify(folder).ok


def test_other_reader_follows_changes_in_postgresql(folder: Path) -> None:
    with small_index(folder) as index, Index.open(folder) as reader:
        change(index)
        reader.refresh()
        assert reader.generation == index.generation
        assert answers(reader) == answers(index)


WRITER = """
import sys
from pathlib import Path
import numpy as np
from hasse.index.store import Index
from tests.index.samples import changes, embeddings, images

first = int(sys.argv[2])
with Index.open(Path(sys.argv[1])) as index:
    print("open", flush=True)
    sys.stdin.readline()
    for at in range(first, first + 20):
        index.add(images([at]), embeddings(np.random.default_rng(at), 1, 16))
        if at % 2:
            index.remove([at])
        index.compact()
"""


def test_two_processes_write_to_one_index_in_postgresql(folder: Path) -> None:
    small_index(folder).close()
    writers = [
        subprocess.Popen(
            [sys.executable, "-c", WRITER, folder, str(first)],
            cwd=ROOT,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        for first in (100, 200)
    ]
    for writer in writers:
        assert writer.stdout is not None
        assert writer.stdout.readline() == "open\n"
    for writer in writers:
        writer.communicate("go\n", timeout=120)
        assert writer.returncode == 0
    with Index.open(folder) as index:
        kept = {at for first in (100, 200) for at in range(first, first + 20, 2)}
        assert set(index.catalog.images(range(100, 220))) == kept
        assert index.info().images == 12 + len(kept)
        assert index.generation >= 1 + 2 * 30
    assert verify(folder).ok


def test_lost_connections_are_made_again(folder: Path, database: sql.URL) -> None:
    with small_index(folder) as index:
        disconnect(database)
        assert index.catalog.images([3])
        index.remove([3])
        assert not index.catalog.images([3])


def test_refused_rows_change_nothing_in_postgresql(folder: Path) -> None:
    with small_index(folder) as index:
        before = answers(index)
        point = embeddings(np.random.default_rng(2), 1, DIMENSION)
        with pytest.raises(BadRowsError, match="5"):
            index.add(images([5]), point)
        with pytest.raises(BadRowsError, match="77"):
            index.add([], np.empty((0, DIMENSION)), captions([999], [77]), point)
        with pytest.raises(BadRowsError, match="88"):
            index.remove([88])
        assert index.generation == 1
        assert answers(index) == before


def test_create_in_a_database_that_holds_an_index_is_refused(
    folder: Path, database: sql.URL, tmp_path: Path
) -> None:
    small_index(folder).close()
    other = place_catalog(tmp_path / "other", database)
    with pytest.raises(IndexExistsError):
        Index.create(other, model())


def test_create_in_a_database_with_foreign_tables_is_refused(
    folder: Path, database: sql.URL
) -> None:
    execute(database, "CREATE TABLE images (name text)", "INSERT INTO images VALUES ('mine')")
    with pytest.raises(NotAnIndexError, match="images"):
        Index.create(folder, model())
    with pytest.raises((NotAnIndexError, MissingIndexError)):
        Index.open(folder)


def test_database_that_does_not_exist_is_unreachable(tmp_path: Path, database: sql.URL) -> None:
    folder = place_catalog(tmp_path / "absent", database.set(database="hasse_absent"))
    with pytest.raises(CatalogUnreachableError, match="hasse_absent"):
        Index.create(folder, model())


def test_database_that_is_read_only_refuses_writes_and_is_searched(
    folder: Path, database: sql.URL
) -> None:
    small_index(folder).close()
    name = database.database
    execute(database, f"ALTER DATABASE {name} SET default_transaction_read_only = on")
    with Index.open(folder) as index:
        assert len(index.search(Query("image", 5), np.ones(DIMENSION)).ids) == 5
        with pytest.raises(ReadOnlyIndexError, match="takes changes"):
            index.remove([3])
        assert index.generation == 1


def test_role_without_rights_is_told_to_ask_for_them(folder: Path, database: sql.URL) -> None:
    small_index(folder).close()
    role = f"{database.database}_reader"
    execute(database, f"CREATE ROLE {role} LOGIN")
    try:
        (folder / "catalog.url").write_text(database.set(username=role).render_as_string())
        with pytest.raises(CatalogUnreachableError, match="grant that role the tables"):
            Index.open(folder)
    finally:
        execute(database, f"DROP ROLE {role}")


def test_row_that_was_changed_in_the_database_is_damage(folder: Path, database: sql.URL) -> None:
    small_index(folder).close()
    execute(database, "UPDATE segments SET rows = rows + 1")
    with pytest.raises(DamagedIndexError, match="was changed"):
        Index.open(folder)


def test_changed_caption_is_found_by_verify(folder: Path, database: sql.URL) -> None:
    small_index(folder).close()
    execute(database, "UPDATE captions SET text = 'another' WHERE id = 104")
    report = verify(folder)
    assert any("104" in finding for finding in report.findings), report.findings


def test_postgresql_writer_that_loses_its_lock_commits_nothing(
    folder: Path, database: sql.URL
) -> None:
    with small_index(folder) as index, Index.open(folder) as other:
        with index.writing(), pytest.raises(IndexLockedError, match="wait for it to end"):
            other.remove([1], timeout=0.05)
        before = index.generation
        with pytest.raises(CatalogUnreachableError), index.writing() as writer:  # noqa: PT012
            disconnect(database)
            with other.writing(60):
                pass
            with pytest.raises(CatalogUnreachableError):
                writer.change(Change(removed_by_name=[1]))  # finds out
            writer.change(Change(removed_by_name=[1]))  # and connects to the server no more
        assert other.remove([2]) == before + 1


def test_postgresql_generation_read_elsewhere_keeps_its_segments(
    folder: Path, database: sql.URL
) -> None:
    def segments() -> set[str]:
        return {path.name for path in (folder / "segments").glob("image-*")}

    with small_index(folder) as index, Index.open(folder) as reader:
        index.add(images([50]), embeddings(np.random.default_rng(1), 1, DIMENSION))
        before = segments()
        disconnect(database)
        assert reader.snapshot.lease is not None
        reader.snapshot.lease.renew()  # takes anew what the server forgot
        index.compact(everything)
        assert segments() > before
        reader.refresh()
        gc.collect()  # the error of the lost connection refers to what was read before
        reader.refresh()
        index.compact(everything)
        assert not segments() & before
