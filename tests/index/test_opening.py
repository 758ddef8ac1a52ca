"""Which folders an index is made or opened in, and how all others are refused."""

from __future__ import annotations

import gc
import os
import re
import shutil
import sqlite3
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from pathlib import Path

import numpy as np
import pytest

from hasse.index.build import build
from hasse.index.catalog.schema import FORMAT
from hasse.index.errors import (
    DamagedIndexError,
    FormatVersionError,
    IndexExistsError,
    MissingGpuExtraError,
    MissingIndexError,
    ModelMismatchError,
    NotAnIndexError,
    ReadOnlyIndexError,
)
from hasse.index.search.query import Query
from hasse.index.store import Index
from hasse.index.types import ModelIdentity
from hasse.index.verify import verify
from tests.index.samples import images, model, small_index


def test_index_is_not_written_over_another(tmp_path: Path) -> None:
    small_index(tmp_path / "i").close()
    with pytest.raises(IndexExistsError, match=r"already holds an index.*choose another folder"):
        Index.create(tmp_path / "i", model())
    with Index.open(tmp_path / "i") as index:
        assert index.info().images == 12


def test_open_on_a_gpu_without_torch_names_the_extra_to_install(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    small_index(tmp_path / "i").close()
    monkeypatch.delitem(sys.modules, "hasse.index.search.gpu_scan", raising=False)
    monkeypatch.setitem(sys.modules, "torch", None)
    remedy = r"cuda needs torch, .*type pip install 'hasse-search\[gpu\]'"
    with pytest.raises(MissingGpuExtraError, match=remedy):
        Index.open(tmp_path / "i", device="cuda")


def test_create_at_once_by_two_makes_one_index_and_tells_the_other(tmp_path: Path) -> None:
    together = threading.Barrier(2)

    def made(_: int) -> bool:
        together.wait()
        try:
            Index.create(tmp_path / "i", model(), threads=1).close()
        except IndexExistsError:
            return False
        return True

    with ThreadPoolExecutor(2) as pool:
        assert sorted(pool.map(made, range(2))) == [False, True]


def test_create_beside_a_long_writer_says_at_once_that_an_index_exists(
    tmp_path: Path,
) -> None:
    with small_index(tmp_path / "i") as index, index.writing(), pytest.raises(IndexExistsError):
        Index.create(tmp_path / "i", model())


@pytest.mark.parametrize("name", ["segments", "staging", "compaction"])
def test_create_refuses_a_folder_with_files_of_others_that_it_would_sweep(
    name: str, tmp_path: Path
) -> None:
    mine = tmp_path / "i" / name / "mine" / "thesis.txt"
    mine.parent.mkdir(parents=True)
    mine.write_text("years of work")
    said = rf"i/{name} exists, .*: choose another"
    with pytest.raises(NotAnIndexError, match=said):
        Index.create(tmp_path / "i", model())
    with pytest.raises(NotAnIndexError, match=said):
        build(tmp_path / "i", model(), lambda _: [], source="s", total=0)
    assert mine.read_text() == "years of work"
    shutil.rmtree(mine.parent)
    Index.create(tmp_path / "i", model(), threads=1).close()


def test_folder_without_an_index_is_named_with_the_remedy(tmp_path: Path) -> None:
    with pytest.raises(MissingIndexError, match=r"no library in .*nowhere yet: .*hasse add"):
        Index.open(tmp_path / "nowhere")


@pytest.mark.parametrize(
    "line", ["", "nonsense", "postgresql+psycopg://me@host:port/mine", "sqlite:///else.db", "\xff"]
)
def test_index_whose_catalog_has_no_usable_address_is_neither_made_nor_opened(
    line: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "catalog.url").write_text(f"{line}\n", encoding="latin-1")
    for use in (Index.open, verify, lambda folder: Index.create(folder, model())):
        with pytest.raises(NotAnIndexError, match=r"catalog\.url holds no address .* or remove it"):
            use(tmp_path)
    assert [path.name for path in tmp_path.iterdir()] == ["catalog.url"]


def test_database_of_somebody_else_is_not_an_index_and_stays_as_it_is(tmp_path: Path) -> None:
    path = tmp_path / "catalog.db"
    with sqlite3.connect(path) as other:
        other.execute("CREATE TABLE images (id INTEGER)")
    other.close()
    before = path.read_bytes()
    with pytest.raises(NotAnIndexError, match="is not the catalog of an index"):
        Index.open(tmp_path)
    assert path.read_bytes() == before


def test_another_models_index_is_refused_with_its_checkpoint_named(tmp_path: Path) -> None:
    small_index(tmp_path / "i").close()
    with pytest.raises(ModelMismatchError, match=r"'sample'.*name its checkpoint, models/sample"):
        Index.open(tmp_path / "i", "0" * 64)


@pytest.mark.parametrize(
    ("other", "made", "remedy"),
    [
        (FORMAT - 1, "a version before 0.3.0", "build the index again"),
        (FORMAT + 1, "a newer version of Hasse", "install that version"),
    ],
)
def test_index_of_an_earlier_or_later_format_is_refused_by_name_and_left_alone(
    other: int, made: str, remedy: str, tmp_path: Path
) -> None:
    small_index(tmp_path / "i").close()
    set_format(tmp_path / "i", other)
    before = (tmp_path / "i" / "catalog.db").read_bytes()
    said = f"has the format {other} of {made}, and this version reads {FORMAT}: {remedy}"
    with pytest.raises(FormatVersionError, match=said):
        Index.open(tmp_path / "i")
    assert (tmp_path / "i" / "catalog.db").read_bytes() == before


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


def test_catalog_that_lost_rows_is_refused(tmp_path: Path) -> None:
    small_index(tmp_path / "i").close()
    with sqlite3.connect(tmp_path / "i" / "catalog.db") as other:
        other.execute("DELETE FROM captions WHERE id = 103")
    other.close()
    with pytest.raises(DamagedIndexError, match=r"catalog\.db knows 23 captions.*hold 24"):
        Index.open(tmp_path / "i")


def test_index_that_is_refused_is_left_with_no_file_open(tmp_path: Path) -> None:
    descriptors = Path("/proc/self/fd")
    small_index(tmp_path / "i").close()
    gc.collect()
    before = len(list(descriptors.iterdir()))
    gc.disable()  # what waits for it was not let go of
    try:
        with pytest.raises(ModelMismatchError):
            Index.open(tmp_path / "i", "0" * 64)
        with pytest.raises(IndexExistsError):
            build(tmp_path / "i", model(), lambda _: [], source="sample", total=0)
        set_format(tmp_path / "i", FORMAT + 1)
        with pytest.raises(FormatVersionError):
            build(tmp_path / "i", model(), lambda _: [], source="s", total=0)
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
        assert len(list(descriptors.iterdir())) <= before
    finally:
        gc.enable()


def test_moved_index_is_the_same_index(tmp_path: Path) -> None:
    with small_index(tmp_path / "i") as index:
        before = index.search(Query("image", 5), np.ones(16)).ids.tolist()
    shutil.move(tmp_path / "i", tmp_path / "j")
    with Index.open(tmp_path / "j") as index:
        assert index.search(Query("image", 5), np.ones(16)).ids.tolist() == before


def test_index_in_a_folder_that_cannot_be_written_is_searched_and_not_changed(
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
        assert {path.name for path in index.folder.iterdir()} == {
            "catalog.db",
            "generation",
            "segments",
        }

        def refused(*_args: object) -> None:
            raise PermissionError(13, "Permission denied")

        monkeypatch.setattr(Path, "open", refused)
        with pytest.raises(ReadOnlyIndexError, match=r"cannot be written \(Permission denied\)"):
            index.remove([1])
