from __future__ import annotations

import shutil
import sqlite3
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from hasse.index.catalog.catalog import Catalog
from hasse.index.catalog.records import State
from hasse.index.catalog.schema import CAPTIONS, IMAGES
from hasse.index.errors import DamagedIndexError, HasseIndexError
from hasse.index.segments import segment
from hasse.index.segments.change import Change
from hasse.index.segments.segment import write_segment
from hasse.index.store import Index
from hasse.index.verify import verify
from tests.index.samples import BOUNDED, captions, embeddings, images, model, small_index


def rows_of(folder: Path) -> list[object]:
    catalog = Catalog(f"sqlite:///{folder / 'catalog.db'}")
    try:
        with catalog.reading() as connection:
            rows = [
                tuple(row) for t in (IMAGES, CAPTIONS) for row in connection.execute(t.select())
            ]
        state = catalog.state()
        gone = {kind: [pair.tolist() for pair in pairs] for kind, pairs in state.deleted.items()}
        return [state.model, state.generation, state.segments, gone, *rows]
    finally:
        catalog.close()


def test_whole_index_has_no_findings_and_is_read_to_the_end(tmp_path: Path) -> None:
    told: list[tuple[int, int]] = []
    with small_index(tmp_path / "i") as index:
        index.remove([2])
        index.add(images([40]), embeddings(np.random.default_rng(1), 1, 16))
        report = verify(index.folder, progress=lambda *sizes: told.append(sizes))
        assert report.ok
        assert (report.generation, report.segments, report.rows) == (3, 3, 37)
        assert report.bytes == index.info().bytes
    assert told[-1] == (report.bytes, report.bytes)


def test_removed_image_hides_no_caption_of_its_number(tmp_path: Path) -> None:
    with Index.create(tmp_path / "i", model(), threads=1) as index:
        index.add(images([1, 2]), np.zeros((2, 16)), captions([1], [2]), np.zeros((1, 16)))
        index.remove([1])
    assert verify(tmp_path / "i").ok


def test_image_that_came_back_is_no_finding(tmp_path: Path) -> None:
    with small_index(tmp_path / "i") as index:
        index.remove([2])
        index.add(images([2]), np.zeros((1, 16)))
    assert verify(tmp_path / "i").findings == ()


def test_verify_ignores_additions_made_while_the_catalog_is_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    state, waiting = Catalog.state, [40]
    with small_index(tmp_path / "i") as index:

        def state_after_an_addition(catalog: Catalog, *known: Any) -> State:
            while waiting:
                index.add(images([waiting.pop()]), np.zeros((1, 16)))
            return state(catalog, *known)

        monkeypatch.setattr(Catalog, "state", state_after_an_addition)
        report = verify(index.folder)
    assert report.findings == ()
    assert report.generation == 2


def test_every_damaged_file_is_named_with_the_remedy(tmp_path: Path) -> None:
    small_index(tmp_path / "i", rows=70, thresholds=BOUNDED).close()
    files = sorted(path for path in (tmp_path / "i" / "segments").rglob("*") if path.is_file())
    assert len(files) == 13
    for path in files:
        whole = path.read_bytes()
        damaged = bytearray(whole)
        damaged[len(damaged) // 2] ^= 1
        for changed in (bytes(damaged), whole[:-3], None):
            path.unlink()
            if changed is not None:
                path.write_bytes(changed)
            report = verify(tmp_path / "i")
            assert len([line for line in report.findings if str(path) in line]) == 1
            assert all("build the index again" in line for line in report.findings)
        path.write_bytes(whole)
    assert verify(tmp_path / "i").ok


def test_flipped_bit_in_the_catalog_is_found_or_changes_nothing(tmp_path: Path) -> None:
    small_index(tmp_path / "whole", rows=4).close()
    before = rows_of(tmp_path / "whole")
    whole = (tmp_path / "whole" / "catalog.db").read_bytes()
    shutil.copytree(tmp_path / "whole", tmp_path / "i")
    path = tmp_path / "i" / "catalog.db"
    rng = np.random.default_rng(0)
    # Most pages are nearly empty: flip where something is written.
    written = np.flatnonzero(np.frombuffer(whole, np.uint8))
    found = 0
    for at in rng.choice(written, 60, replace=False):
        damaged = bytearray(whole)
        damaged[at] ^= 1 << rng.integers(8)
        path.write_bytes(damaged)
        try:
            report = verify(tmp_path / "i")
        except HasseIndexError as error:
            assert "catalog.db" in str(error)  # noqa: PT017
            found += 1
        else:
            if report.findings:
                assert any("catalog.db" in line for line in report.findings)
                found += 1
            else:
                assert rows_of(tmp_path / "i") == before
        for beside in ("catalog.db-wal", "catalog.db-shm"):
            (tmp_path / "i" / beside).unlink(missing_ok=True)
    assert found > 20


def test_id_of_the_catalog_that_is_no_number_is_named(tmp_path: Path) -> None:
    small_index(tmp_path / "i").close()
    # The schema refuses it, but need not be the one that we made.
    with closing(sqlite3.connect(tmp_path / "i" / "catalog.db")) as other:
        other.executescript(
            """
            CREATE TABLE others AS SELECT * FROM images;
            DROP TABLE images;
            ALTER TABLE others RENAME TO images;
            UPDATE images SET id = NULL WHERE id = 3;
            """
        )
    with pytest.raises(DamagedIndexError, match=r"catalog\.db: the ids of images are not numbers"):
        verify(tmp_path / "i")


def test_rows_without_points_and_points_without_rows_are_named(tmp_path: Path) -> None:
    small_index(tmp_path / "i").close()
    with sqlite3.connect(tmp_path / "i" / "catalog.db") as other:
        other.execute("DELETE FROM captions WHERE id = 105")
    other.close()
    text_index, finding = verify(tmp_path / "i").findings
    assert "is out of date for 1 images: rebuild it with 'hasse lab index text" in text_index
    assert "caption 105 is in a segment and not in the catalog" in finding
    small_index(tmp_path / "j").close()
    with sqlite3.connect(tmp_path / "j" / "catalog.db") as other:
        other.execute("DELETE FROM segments WHERE kind = 'image'")
    other.close()
    (finding,) = verify(tmp_path / "j").findings
    assert "image 1 (and 11 more) is in the catalog and in no segment" in finding


def test_image_that_two_segments_hold_is_named(tmp_path: Path) -> None:
    with small_index(tmp_path / "i") as index, index.writing() as writer:
        folder = writer.workspace()
        record = write_segment(folder, "image", index.model.score, [3], np.zeros((1, 16)))
        writer.publish((folder, record))
        writer.commit([record])
    (finding,) = verify(tmp_path / "i").findings
    assert "image 3 is live in two segments" in finding


def test_points_that_are_not_allowed_are_found_even_with_a_good_checksum(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    points = np.ones((8300, 16), np.float32)
    points[8250, 3] = np.nan  # in the second block that is checked
    with Index.create(tmp_path / "i", model()) as index, index.writing() as writer:
        folder = writer.workspace()
        with monkeypatch.context() as patched:
            patched.setattr(segment, "checked_points", lambda *args: np.asarray(args[2]))
            record = segment.write_segment(folder, "image", "order", np.arange(8300), points)
        writer.publish((folder, record))
        writer.commit([record], lambda: [Change(images(range(8300)))])
    (finding,) = verify(tmp_path / "i").findings
    assert "image 8250 (row 8250) has nan at coordinate 3" in finding


def test_report_with_findings_is_not_ok(tmp_path: Path) -> None:
    with small_index(tmp_path / "i") as index:
        report = verify(index.folder)
    assert report.ok
    assert not replace(report, findings=("something",)).ok
