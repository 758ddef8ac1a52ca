"""Large segments are opened at once and compared with their checksums afterwards."""

from __future__ import annotations

import threading
from pathlib import Path

import numpy as np
import pytest

from hasse.index.errors import DamagedIndexError
from hasse.index.search.query import Query
from hasse.index.segments import file_checks, segment
from hasse.index.segments.file_checks import FileChecks
from hasse.index.segments.segment import POINTS
from hasse.index.store import Index
from tests.index.samples import embeddings, images, model

ROWS = 400
EMBEDDINGS = embeddings(np.random.default_rng(0), ROWS + 1, 16)


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An index of one segment, which counts as large."""
    for module in (segment, file_checks):
        monkeypatch.setattr(module, "LARGE_BYTES", 1)
    with Index.create(tmp_path / "i", model()) as index:
        index.add(images(range(ROWS)), EMBEDDINGS[:ROWS])
    return tmp_path / "i"


def flip(folder: Path, at: int, value: bytes = b"\x01") -> None:
    """Change a byte of the points of the one segment; `at` counts from the end."""
    (path,) = folder.glob(f"segments/*/{POINTS}")
    content = bytearray(path.read_bytes())
    content[-at : len(content) - at + len(value)] = value
    path.write_bytes(content)


def ended(index: Index) -> FileChecks:
    """Return checks that have compared everything, or found damage."""
    done = threading.Event()
    checks = FileChecks(lambda: index.snapshot, index.check_counts, lambda *_: done.set())
    checks.start()
    while checks.damage is None and not done.wait(0.01):
        pass
    return checks


def test_large_segment_answers_before_it_is_compared_and_counts_bytes_left(
    folder: Path,
) -> None:
    with Index.open(folder, verify="later") as index:
        checks = FileChecks(lambda: index.snapshot, index.check_counts)
        assert checks.bytes_left == index.info().bytes
        assert len(index.search(Query("image", 10), np.zeros(16)).ids) == 10
        assert ended(index).bytes_left == 0


def test_file_checks_byte_changed_outside_the_sample_names_the_file(
    folder: Path,
) -> None:
    flip(folder, 64 * 3)  # of a row that is not in the sample
    with Index.open(folder, verify="later") as index:
        checks = ended(index)
        assert isinstance(checks.damage, DamagedIndexError)
        assert f"{POINTS} was changed since it was written" in str(checks.damage)
        assert checks.bytes_left


def test_small_segment_is_compared_when_it_is_opened(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    flip(folder, 64 * 3)
    monkeypatch.setattr(segment, "LARGE_BYTES", 1 << 20)
    with pytest.raises(DamagedIndexError, match=f"{POINTS} was changed"):
        Index.open(folder, verify="later")


def test_row_of_the_sample_that_cannot_be_stored_refuses_a_large_segment(folder: Path) -> None:
    flip(folder, 4, np.float32(np.nan).tobytes())
    with pytest.raises(DamagedIndexError, match=r"was changed since it was written .*nan"):
        Index.open(folder, verify="later")


def test_segment_that_is_added_is_compared_after_the_next_look(
    folder: Path,
) -> None:
    with Index.open(folder, verify="later") as index:
        again = threading.Event()
        checks = FileChecks(lambda: index.snapshot, index.check_counts, lambda *_: again.set())
        checks.start()
        assert again.wait(60)
        again.clear()
        index.add(images([ROWS]), EMBEDDINGS[ROWS:])
        assert checks.bytes_left
        checks.notify()
        assert again.wait(60)
        assert not checks.bytes_left
        checks.close()
