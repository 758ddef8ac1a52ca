from __future__ import annotations

import errno
import gc
import os
import re
import shutil
import sqlite3
import threading
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from pathlib import Path

import numpy as np
import pytest

from index.build import build
from index.catalog import mutations
from index.catalog.catalog import Catalog
from index.catalog.records import SegmentRecord
from index.catalog.schema import FORMAT
from index.errors import (
    BadPointsError,
    BadRowsError,
    DamagedIndexError,
    FormatVersionError,
    IndexExistsError,
    IndexLockedError,
    MissingIndexError,
    ModelMismatchError,
    NotAnIndexError,
    NotLoadedError,
    ReadOnlyIndexError,
)
from index.search.query import Query
from index.segments.segment import Segment, Verify, write_segment
from index.segments.writer import Writer
from index.store import Index
from index.types import KINDS, MODES, CaptionRow, Mode, ModelIdentity
from index.verify import verify
from tests.index.samples import captions, embeddings, images, model, small_index, violations
from tests.oracle import best


def test_what_was_added_is_found_described_and_still_there_after_opening(tmp_path: Path) -> None:
    with small_index(tmp_path / "i") as index:
        point = embeddings(np.random.default_rng(1), 1, 16)[0]
        before = [index.search(Query(kind, 5), point) for kind in KINDS]
    with Index.open(tmp_path / "i", model().fingerprint) as index:
        assert index.model == model()
        assert index.generation == 1
        for kind, answer in zip(KINDS, before, strict=True):
            again = index.search(Query(kind, 5), point)
            assert again.ids.tolist() == answer.ids.tolist()
            assert again.violations.tolist() == answer.violations.tolist()
        row = index.image(3)
        assert row is not None
        assert row == images([3])[0]._replace(added=row.added)
        assert index.path_of(row) == (tmp_path / "i" / "pictures" / "3.jpg").resolve()
        assert index.captions([103, 99]) == {103: CaptionRow(103, 3, "caption 103")}
        assert [c.id for c in index.captions_of([3, 4])[3]] == [103, 115]
        assert index.image(99) is None
        assert index.captions_of([99]) == {99: []}
        assert set(index.images([1, 2, 99])) == {1, 2}
        info = index.info()
        assert (info.images, info.captions, info.generation) == (12, 24, 1)
        assert info.bytes == sum(
            file.stat().st_size for file in (tmp_path / "i" / "segments").rglob("*.*")
        )


def test_search_speaks_for_all_segments_as_numpy_does(tmp_path: Path) -> None:
    rng = np.random.default_rng(2)
    points = embeddings(rng, 60, 16)
    with Index.create(tmp_path / "i", model()) as index:
        for at in range(0, 60, 20):
            index.add(images(range(at, at + 20)), points[at : at + 20])
        query = embeddings(rng, 1, 16)[0]
        answer = index.search(Query("image", 7), query)
        expected = violations("image", "order", points, query)
        assert answer.ids.tolist() == best(expected, np.arange(60), 7).tolist()
        assert answer.generation == index.generation == 3


def test_removed_images_and_their_captions_are_gone_from_every_search(tmp_path: Path) -> None:
    with small_index(tmp_path / "i") as index:
        query = np.zeros(16)
        index.remove([3, 7])
        for live in (index, Index.open(tmp_path / "i")):
            for mode in MODES:
                found = live.search(Query("image", 100, mode), query)
                assert found.ids.tolist() == [1, 2, 4, 5, 6, 8, 9, 10, 11, 12]
                assert found.searched == 10
                found = live.search(Query("caption", 100, mode), np.ones(16))
                assert not {103, 107, 115, 119} & set(found.ids.tolist())
                assert found.searched == 20
            assert live.image(3) is None
            assert live.captions([103]) == {}
            live.close()


def test_adding_then_removing_changes_no_answer(tmp_path: Path) -> None:
    rng = np.random.default_rng(3)
    query = embeddings(rng, 1, 16)[0]
    with small_index(tmp_path / "i") as index:
        before = [index.search(Query(kind, 40), query) for kind in KINDS]
        index.add(
            images([50, 51]),
            embeddings(rng, 2, 16),
            captions([500, 501], [50]),
            embeddings(rng, 2, 16),
        )
        index.remove([50, 51])
        assert index.generation == 3
        for kind, old in zip(KINDS, before, strict=True):
            new = index.search(Query(kind, 40), query)
            assert new.ids.tolist() == old.ids.tolist()
            assert new.violations.tolist() == old.violations.tolist()
            assert new.searched == old.searched


def test_an_id_can_come_back_with_another_point(tmp_path: Path) -> None:
    with small_index(tmp_path / "i") as index:
        for corner in range(3):
            index.remove([5])
            point = np.zeros((1, 16))
            point[0, corner] = 1
            index.add(images([5]), point)
            with Index.open(tmp_path / "i") as again:
                for live in (index, again):
                    answer = live.search(Query("image", 1), point[0])
                    assert (answer.ids[0], answer.violations[0]) == (5, 0)
                    assert answer.searched == 12


@pytest.mark.parametrize("mode", MODES)
def test_a_joint_search_scores_an_id_that_came_back_by_its_new_point(
    mode: Mode, tmp_path: Path
) -> None:
    rng = np.random.default_rng(4)
    with small_index(tmp_path / "i", rows=4) as index:
        for _ in range(3):
            point, parts = embeddings(rng, 1, 16), embeddings(rng, 2, 16)
            index.remove([2])
            index.add(images([2]), point)
            answer = index.search_jointly(Query("image", 4, mode), parts)
            assert sorted(answer.ids.tolist()) == [1, 2, 3, 4]
            wanted = [violations("image", "order", point, part)[0] for part in parts]
            assert answer.parts is not None
            assert answer.parts[answer.ids.tolist().index(2)] == pytest.approx(wanted, rel=1e-5)


def test_stored_points_are_read_back_by_id_and_the_dead_are_not(tmp_path: Path) -> None:
    with small_index(tmp_path / "i") as index:
        point = embeddings(np.random.default_rng(3), 1, 16)
        index.remove([5, 6])
        index.add(images([5]), point)
        found = index.points("image", [4, 5, 6, 99])
        assert sorted(found) == [4, 5]
        assert found[5].tolist() == point[0].tolist()
        assert index.points("caption", []) == {}


def test_another_reader_sees_a_change_when_it_looks(tmp_path: Path) -> None:
    with small_index(tmp_path / "i") as writer, Index.open(tmp_path / "i") as reader:
        assert not reader.refresh()
        writer.add(images([70]), np.ones((1, 16)))
        assert reader.search(Query("image", 1), np.ones(16)).violations[0] > 0
        assert reader.refresh()
        assert reader.search(Query("image", 1), np.ones(16)).ids[0] == 70
        writer.remove([70])
        assert reader.refresh()
        assert reader.search(Query("image", 1), np.ones(16)).ids[0] != 70


def test_an_index_is_not_written_over_another(tmp_path: Path) -> None:
    small_index(tmp_path / "i").close()
    with pytest.raises(IndexExistsError, match=r"already holds an index.*choose another folder"):
        Index.create(tmp_path / "i", model())
    with Index.open(tmp_path / "i") as index:
        assert index.info().images == 12


@pytest.mark.parametrize("name", ["segments", "staging", "compaction"])
def test_an_index_is_not_made_where_a_folder_of_somebody_else_would_be_swept_away(
    name: str, tmp_path: Path
) -> None:
    mine = tmp_path / "i" / name / "mine" / "thesis.txt"
    mine.parent.mkdir(parents=True)
    mine.write_text("years of work")
    said = rf"i/{name} is there, .*: choose another"
    with pytest.raises(NotAnIndexError, match=said):
        Index.create(tmp_path / "i", model())
    with pytest.raises(NotAnIndexError, match=said):
        build(tmp_path / "i", model(), lambda _: [], lambda _: [], source="s", total=0)
    assert mine.read_text() == "years of work"
    shutil.rmtree(mine.parent)
    Index.create(tmp_path / "i", model(), threads=1).close()


def test_a_folder_without_an_index_is_named_with_the_remedy(tmp_path: Path) -> None:
    with pytest.raises(MissingIndexError, match=r"no index at .*nowhere: .*hasse index build"):
        Index.open(tmp_path / "nowhere")


@pytest.mark.parametrize(
    "line", ["", "nonsense", "postgresql+psycopg://me@host:port/mine", "sqlite:///else.db", "\xff"]
)
def test_an_index_whose_catalog_has_no_usable_address_is_neither_made_nor_opened(
    line: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "catalog.url").write_text(f"{line}\n", encoding="latin-1")
    for use in (Index.open, verify, lambda folder: Index.create(folder, model())):
        with pytest.raises(NotAnIndexError, match=r"catalog\.url holds no address .* or remove it"):
            use(tmp_path)
    assert [path.name for path in tmp_path.iterdir()] == ["catalog.url"]


def test_a_database_of_somebody_else_is_not_an_index_and_stays_as_it_is(tmp_path: Path) -> None:
    path = tmp_path / "catalog.db"
    with sqlite3.connect(path) as other:
        other.execute("CREATE TABLE images (id INTEGER)")
    other.close()
    before = path.read_bytes()
    with pytest.raises(NotAnIndexError, match="not a catalog of ours"):
        Index.open(tmp_path)
    assert path.read_bytes() == before


def test_another_models_index_is_refused_with_its_checkpoint_named(tmp_path: Path) -> None:
    small_index(tmp_path / "i").close()
    with pytest.raises(ModelMismatchError, match=r"'sample'.*name its checkpoint, models/sample"):
        Index.open(tmp_path / "i", "0" * 64)


@pytest.mark.parametrize("other", [FORMAT - 1, FORMAT + 1])
def test_index_of_an_earlier_or_later_format_is_refused(other: int, tmp_path: Path) -> None:
    small_index(tmp_path / "i").close()
    set_format(tmp_path / "i", other)
    said = f"has the format {other}, and this version reads {FORMAT}: build the index again"
    with pytest.raises(FormatVersionError, match=said):
        Index.open(tmp_path / "i")


def set_format(folder: Path, number: int) -> None:
    with closing(sqlite3.connect(folder / "catalog.db")) as catalog, catalog:
        catalog.execute("UPDATE meta SET format = ?", (number,))


@pytest.mark.parametrize("other", [model(8), model(score="order-reversed")])
def test_segments_that_do_not_fit_the_model_of_the_catalog_are_refused(
    other: ModelIdentity, tmp_path: Path
) -> None:
    small_index(tmp_path / "i").close()
    with Index.create(tmp_path / "other", other) as index:
        index.add(images([1]), np.ones((1, other.dimension)))
    with closing(sqlite3.connect(tmp_path / "i" / "catalog.db")) as catalog, catalog:
        catalog.execute("ATTACH ? AS other", (str(tmp_path / "other" / "catalog.db"),))
        catalog.execute("DELETE FROM meta")
        catalog.execute("INSERT INTO meta SELECT * FROM other.meta")
    said = r"order points of 16 .* makes .*: build the index"
    with pytest.raises(DamagedIndexError, match=said):
        Index.open(tmp_path / "i")
    findings = verify(tmp_path / "i").findings
    assert len(findings) == 2
    assert all(re.search(said, line) for line in findings)


def test_ids_that_were_removed_count_among_the_largest(tmp_path: Path) -> None:
    with small_index(tmp_path / "i") as index:
        index.remove([12])
        assert index.catalog.largest_ids() == {"image": 12, "caption": 124}


def test_a_catalog_that_lost_rows_is_refused(tmp_path: Path) -> None:
    small_index(tmp_path / "i").close()
    with sqlite3.connect(tmp_path / "i" / "catalog.db") as other:
        other.execute("DELETE FROM captions WHERE id = 103")
    other.close()
    with pytest.raises(DamagedIndexError, match=r"catalog\.db knows 23 captions.*hold 24"):
        Index.open(tmp_path / "i")


def test_an_index_that_is_refused_is_left_with_no_file_open(tmp_path: Path) -> None:
    descriptors = Path("/proc/self/fd")
    small_index(tmp_path / "i").close()
    gc.collect()
    before = len(list(descriptors.iterdir()))
    gc.disable()  # what waits for it was not let go of
    try:
        with pytest.raises(ModelMismatchError):
            Index.open(tmp_path / "i", "0" * 64)
        with pytest.raises(IndexExistsError):
            build(tmp_path / "i", model(), lambda _: [], lambda _: [], source="sample", total=0)
        set_format(tmp_path / "i", FORMAT + 1)
        with pytest.raises(FormatVersionError):
            build(tmp_path / "i", model(), lambda _: [], lambda _: [], source="s", total=0)
        set_format(tmp_path / "i", FORMAT)
        with closing(sqlite3.connect(tmp_path / "i" / "catalog.db")) as other, other:
            other.execute("DELETE FROM captions WHERE id = 103")
        with pytest.raises(DamagedIndexError):
            Index.open(tmp_path / "i")
        with closing(sqlite3.connect(tmp_path / "i" / "catalog.db")) as other, other:
            other.execute("UPDATE meta SET name = 'another'")
        with pytest.raises(DamagedIndexError):
            verify(tmp_path / "i")
        catalog = tmp_path / "i" / "catalog.db"
        whole = catalog.read_bytes()
        for damaged in (b"no database", whole[:4096] + b"\xff" + whole[4097:]):
            catalog.write_bytes(damaged)
            with pytest.raises(DamagedIndexError, match=r"catalog\.db cannot be read"):
                Index.open(tmp_path / "i")
            with pytest.raises(DamagedIndexError, match=r"catalog\.db cannot be read"):
                Index.create(tmp_path / "i", model())
        assert len(list(descriptors.iterdir())) == before
    finally:
        gc.enable()


def test_a_moved_index_is_the_same_index(tmp_path: Path) -> None:
    with small_index(tmp_path / "i") as index:
        before = index.search(Query("image", 5), np.ones(16)).ids.tolist()
    shutil.move(tmp_path / "i", tmp_path / "j")
    with Index.open(tmp_path / "j") as index:
        assert index.search(Query("image", 5), np.ones(16)).ids.tolist() == before


@pytest.mark.parametrize(
    ("ids", "caption_ids", "of", "named"),
    [
        ([3], [], 1, "image 3 is in the index already"),
        ([60, 60], [], 1, "image 60 occurs twice"),
        ([60, 61.5], [], 1, "the id of one image is not a whole number of 64 bits"),
        ([2**63], [], 1, "the id of one image is not a whole number of 64 bits"),
        ([60], [101], 60, "caption 101 is in the index already"),
        ([60], [600], 61, "captions of image 61, which is not in the index"),
    ],
)
def test_rows_that_cannot_be_added_are_named_and_nothing_changes(
    ids: list[int], caption_ids: list[int], of: int, named: str, tmp_path: Path
) -> None:
    with small_index(tmp_path / "i") as index:
        with pytest.raises(BadRowsError, match=named):
            index.add(
                images(ids),
                np.zeros((len(ids), 16)),
                captions(caption_ids, [of]),
                np.zeros((len(caption_ids), 16)),
            )
        with pytest.raises(BadRowsError, match="image 99 is not in the index"):
            index.remove([1, 99])
        half = images([60])[0]._replace(file_name="\ud800.jpg")
        with pytest.raises(BadRowsError, match="the text of image 60 is not Unicode"):
            index.add([half], np.zeros((1, 16)))
        lost = images([60])[0]._replace(path="a\0b.jpg")
        with pytest.raises(BadRowsError, match="the text of image 60 holds a NUL character"):
            index.add([lost], np.zeros((1, 16)))
        cut = captions([61], [1])[0]._replace(text="a dog\0 runs")
        with pytest.raises(BadRowsError, match="the text of caption 61 holds a NUL character"):
            index.add([], np.zeros((0, 16)), [cut], np.zeros((1, 16)))
        with pytest.raises(BadPointsError, match=r"image 60 .row 0. has nan"):
            index.add(images([60]), np.full((1, 16), np.nan))
        assert index.generation == 1
        assert index.info().images == 12
        assert len(list((tmp_path / "i" / "segments").iterdir())) == 2


def test_captions_can_be_added_to_an_image_that_is_there(tmp_path: Path) -> None:
    with small_index(tmp_path / "i") as index:
        index.add([], np.empty((0, 16)), captions([900], [4]), np.zeros((1, 16)))
        assert index.search(Query("caption", 1), np.zeros(16)).ids[0] == 900
        assert [row.id for row in index.captions_of([4])[4]] == [104, 116, 900]


def test_what_is_gone_before_it_is_opened_is_looked_for_in_the_next_generation(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    opened, waiting = Segment.open, [80]
    with small_index(tmp_path / "i") as writer:

        def gone_at_first(place: Path, record: SegmentRecord, verify: Verify = "sizes") -> Segment:
            if waiting:
                writer.add(images([waiting.pop()]), np.zeros((1, 16)))
                raise DamagedIndexError("it was merged away")
            return opened(place, record, verify)

        monkeypatch.setattr(Segment, "open", gone_at_first)
        with Index.open(tmp_path / "i", threads=1) as reader:
            assert reader.generation == 2
            assert 80 in reader.points("image", [80])


def test_durable_change_that_cannot_be_loaded_is_reported_and_seen_later(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(*_: object) -> Segment:
        raise OSError(errno.EMFILE, "Too many open files")

    with small_index(tmp_path / "i") as index:
        with monkeypatch.context() as patched:
            patched.setattr(Segment, "open", broken)
            with pytest.raises(NotLoadedError, match=r"is there, .*Too many open.*not write it"):
                index.add(images([80]), np.zeros((1, 16)))
            with pytest.raises(NotLoadedError, match="is there"):
                index.remove([3])
        assert 80 not in index.points("image", [80])
        assert index.refresh()
        assert set(index.points("image", [3, 80])) == {80}
        assert index.generation == 3
    assert verify(tmp_path / "i").ok


def test_a_second_writer_is_told_of_the_first(tmp_path: Path) -> None:
    with small_index(tmp_path / "i") as index, Index.open(tmp_path / "i") as other:
        with (
            other.writing(),
            pytest.raises(IndexLockedError, match="another process is writing"),
            index.writing(timeout=0.05),
        ):
            pass
        index.add(images([80]), np.zeros((1, 16)))


def test_a_commit_that_outlives_its_writer_keeps_its_segment(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    settling = threading.Event()
    settle = Catalog.settle

    def settled(catalog: Catalog) -> None:
        settling.set()
        settle(catalog)

    monkeypatch.setattr(Catalog, "settle", settled)

    def write(index: Index) -> None:
        with index.writing():
            pass

    with small_index(tmp_path / "i") as index, ThreadPoolExecutor(1) as pool:
        writer = Writer(index.folder, index.catalog, index.model)
        folder = writer.workspace()
        point = np.full((1, index.model.dimension), 0.25, np.float32)
        record = write_segment(folder, "image", index.model.score, np.array([900]), point)
        writer.publish((folder, record))
        # The lock is free, as when a writer is killed whose database still commits.
        with index.catalog.writing() as connection:
            generation = mutations.raise_generation(connection, index.model)
            mutations.insert_images(connection, images([900]))
            mutations.insert_segments(connection, [record], generation)
            following = pool.submit(write, index)
            while not (settling.is_set() or following.done()):
                threading.Event().wait(0.001)
        following.result()
        assert index.generation == generation
        assert 900 in index.points("image", [900])
    assert verify(tmp_path / "i").ok


def test_a_write_waits_for_another_thread_no_longer_than_for_another_process(
    tmp_path: Path,
) -> None:
    with small_index(tmp_path / "i") as index, ThreadPoolExecutor(1) as pool, index.writing():
        point = np.zeros((1, 16))
        for write in (
            pool.submit(index.add, images([80]), point, timeout=0.05),
            pool.submit(index.remove, [1], timeout=0.05),
        ):
            with pytest.raises(IndexLockedError, match="another thread is writing"):
                write.result(30)


def test_many_small_additions_keep_few_files_open(tmp_path: Path) -> None:
    descriptors = Path("/proc/self/fd")
    with Index.create(tmp_path / "i", model()) as index:
        index.add(images([0]), np.ones((1, 16)))
        before = len(list(descriptors.iterdir()))
        for id_ in range(1, 30):
            index.add(images([id_]), np.ones((1, 16)))
        assert index.search(Query("image", 100), np.ones(16)).searched == 30
        assert len(list(descriptors.iterdir())) <= before + 2


def test_an_index_in_a_folder_that_cannot_be_written_is_searched_and_not_changed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with small_index(tmp_path / "i ?#") as index:
        before = index.search(Query("image", 5), np.ones(16)).ids.tolist()
    for name in ("lock", "readers", "notifications"):
        (tmp_path / "i ?#" / name).unlink()
    # Tests may run as root, whom permissions do not stop.
    monkeypatch.setattr(os, "access", lambda *_args: False)
    opened = os.open

    def read_only(path: Path, flags: int, mode: int = 0o777) -> int:
        if flags & os.O_CREAT:
            raise PermissionError(13, "Permission denied")
        return opened(path, flags, mode)

    monkeypatch.setattr(os, "open", read_only)
    with Index.open(tmp_path / "i ?#") as index:
        assert index.search(Query("image", 5), np.ones(16)).ids.tolist() == before
        assert {path.name for path in index.folder.iterdir()} == {"catalog.db", "segments"}

        def refused(*_args: object) -> None:
            raise PermissionError(13, "Permission denied")

        monkeypatch.setattr(Path, "open", refused)
        with pytest.raises(ReadOnlyIndexError, match=r"cannot be written \(Permission denied\)"):
            index.remove([1])


def test_every_answer_belongs_to_one_generation_while_pictures_come_and_go(
    tmp_path: Path,
) -> None:
    rng = np.random.default_rng(4)
    points = embeddings(rng, 40, 16)
    query = embeddings(rng, 1, 16)[0]
    expected = violations("image", "order", points, query)
    alive: dict[int, list[int]] = {}
    done = threading.Event()

    with Index.create(tmp_path / "i", model(), threads=2) as index:
        index.add(images(range(10)), points[:10])
        alive[1] = list(range(10))

        def look() -> int:
            looked = 0
            while not done.is_set() or looked < 20:
                answer = index.search(Query("image", 5), query)
                now = np.array(alive[answer.generation])
                assert answer.ids.tolist() == best(expected[now], now, 5).tolist()
                assert answer.searched == len(now)
                looked += 1
            return looked

        def change() -> None:
            for step in range(10, 28):
                now = alive[max(alive)]
                following = max(alive) + 1
                if step % 3:
                    alive[following] = [*now, step]
                    assert index.add(images([step]), points[[step]]) == following
                else:
                    alive[following] = now[1:]
                    assert index.remove([now[0]]) == following

        with ThreadPoolExecutor(4) as pool:
            lookers = [pool.submit(look) for _ in range(3)]
            try:
                change()
            finally:
                done.set()
            assert all(looker.result() >= 20 for looker in lookers)
