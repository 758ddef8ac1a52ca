from __future__ import annotations

import mmap
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from hasse.index.errors import (
    BadPointsError,
    BadRowsError,
    ChecksumError,
    DamagedIndexError,
    TruncatedFileError,
)
from hasse.index.kernels import arrays
from hasse.index.search.query import Query
from hasse.index.segments.cost_model import Thresholds
from hasse.index.segments.segment import (
    MANIFEST,
    Segment,
    SegmentWriter,
    file_record,
    write_segment,
)
from hasse.index.store import Index
from hasse.index.types import Orientation
from hasse.index.verify import verify
from hasse.models.score import Score
from tests.index.samples import BOUNDED, embeddings, images, model

EVERY_FILE = {
    "points.npy",
    "ids.npy",
    "codes.npy",
    "columns.npy",
    "levels.npy",
    "candidates.faiss",
    "manifest.json",
}


@pytest.fixture
def rng() -> np.random.Generator:
    return np.random.default_rng(0)


def test_segment_holds_what_was_written_and_cannot_be_changed(
    tmp_path: Path, rng: np.random.Generator
) -> None:
    ids, points = rng.permutation(40), embeddings(rng, 40, 7)
    segment = Segment.open(
        tmp_path / "s", write_segment(tmp_path / "s", "image", "order", ids, points)
    )
    assert np.array_equal(segment.ids, ids)
    assert np.array_equal(segment.points, points)
    assert segment.orientation is Orientation.QUERY_GENERAL
    with pytest.raises(ValueError, match="read-only"):
        segment.points[0, 0] = 1


def test_blocks_make_the_same_segment_as_one_array(
    tmp_path: Path, rng: np.random.Generator
) -> None:
    ids, points = np.arange(50), embeddings(rng, 50, 9)
    whole = write_segment(tmp_path / "whole", "caption", "order", ids, points)
    writer = SegmentWriter(tmp_path / "blocks", "caption", 9, "order")
    for at in range(0, 50, 7):
        writer.append(ids[at : at + 7], points[at : at + 7])
    assert writer.seal().files == whole.files


def test_segments_carry_bounds_and_a_prefilter_where_these_are_worth_it(
    tmp_path: Path, rng: np.random.Generator
) -> None:
    points = embeddings(rng, 70, 8)
    large = write_segment(tmp_path / "large", "caption", "order", np.arange(70), points, BOUNDED)
    assert set(large.files) == EVERY_FILE
    below = write_segment(tmp_path / "below", "image", "order", np.arange(70), points, BOUNDED)
    assert set(below.files) == EVERY_FILE - {"candidates.faiss"}
    cosine = write_segment(tmp_path / "cosine", "image", "cosine", np.arange(70), points, BOUNDED)
    assert set(cosine.files) == EVERY_FILE - {"codes.npy"} | {"basis.npy", "residuals.npy"}
    small = write_segment(tmp_path / "small", "image", "order", np.arange(70), points)
    assert set(small.files) == {"points.npy", "ids.npy", "manifest.json"}


def test_segment_of_0_3_0_opens_without_its_faiss_index(
    tmp_path: Path, rng: np.random.Generator
) -> None:
    points = embeddings(rng, 70, 8)
    folder = tmp_path / "s"
    record = write_segment(folder, "caption", "order", np.arange(70), points, BOUNDED)
    (folder / "candidates.faiss").rename(folder / "prefilter.faiss")
    manifest = folder / "manifest.json"
    text = manifest.read_text(encoding="utf-8").replace("candidates.faiss", "prefilter.faiss")
    manifest.write_text(text, encoding="utf-8")
    files = {name.replace("candidates", "prefilter"): file for name, file in record.files.items()}
    files["manifest.json"] = file_record(manifest)
    segment = Segment.open(folder, replace(record, files=files))
    assert segment.bounds is not None
    assert segment.prefilter is None
    assert np.array_equal(segment.points, points)


@pytest.mark.parametrize("name", sorted(EVERY_FILE))
def test_flipped_bit_anywhere_in_a_file_is_found_and_the_file_named(
    name: str, tmp_path: Path, rng: np.random.Generator
) -> None:
    points = embeddings(rng, 64, 4)
    record = write_segment(tmp_path / "s", "caption", "order", np.arange(64), points, BOUNDED)
    path = tmp_path / "s" / name
    whole = path.read_bytes()
    every = max(1, len(whole) // 60)
    for at in {*range(0, len(whole), every), len(whole) - 1}:
        damaged = bytearray(whole)
        damaged[at] ^= 1 << rng.integers(8)
        path.write_bytes(damaged)
        with pytest.raises(ChecksumError, match=f"{name} was changed.*build the index again"):
            Segment.open(tmp_path / "s", record)
    path.write_bytes(whole)
    Segment.open(tmp_path / "s", record)


@pytest.mark.parametrize("name", sorted(EVERY_FILE))
@pytest.mark.parametrize("verify", ["checksums", "sizes"])
def test_truncated_grown_or_missing_file_is_found_and_named_without_reading_it(
    name: str, verify: str, tmp_path: Path, rng: np.random.Generator
) -> None:
    points = embeddings(rng, 64, 4)
    record = write_segment(tmp_path / "s", "caption", "order", np.arange(64), points, BOUNDED)
    path = tmp_path / "s" / name
    whole = path.read_bytes()
    for changed in (b"", whole[: len(whole) // 2], whole[:-1], whole + b"\0"):
        path.write_bytes(changed)
        with pytest.raises(TruncatedFileError, match=f"{name} has .* and should have"):
            Segment.open(tmp_path / "s", record, verify)  # type: ignore[arg-type]
    path.unlink()
    with pytest.raises(TruncatedFileError, match=f"{name} is missing"):
        Segment.open(tmp_path / "s", record, verify)  # type: ignore[arg-type]


def test_faiss_never_reads_a_file_that_was_changed(
    tmp_path: Path, rng: np.random.Generator
) -> None:
    points = embeddings(rng, 64, 4)
    record = write_segment(tmp_path / "s", "caption", "order", np.arange(64), points, BOUNDED)
    path = tmp_path / "s" / "candidates.faiss"
    whole = bytearray(path.read_bytes())
    whole[len(whole) // 2] ^= 1
    path.write_bytes(whole)
    with pytest.raises(ChecksumError, match=r"candidates\.faiss was changed"):
        Segment.open(tmp_path / "s", record, "sizes")


def test_manifest_of_another_segment_is_refused(tmp_path: Path, rng: np.random.Generator) -> None:
    points = embeddings(rng, 5, 4)
    record = write_segment(tmp_path / "one", "image", "order", np.arange(5), points)
    other = write_segment(tmp_path / "two", "caption", "order", np.arange(5), points)
    (tmp_path / "two" / MANIFEST).rename(tmp_path / "one" / MANIFEST)
    record.files[MANIFEST] = other.files[MANIFEST]  # type: ignore[index]
    with pytest.raises(DamagedIndexError, match=r"manifest\.json disagrees with the catalog"):
        Segment.open(tmp_path / "one", record)


@pytest.mark.parametrize(
    ("value", "said"), [(np.nan, "nan"), (np.inf, "inf"), (-0.25, "-0.25"), (1e300, "1e[+]300")]
)
def test_impossible_coordinate_is_refused_with_its_row_named(
    value: float, said: str, tmp_path: Path
) -> None:
    points = np.full((3, 4), 0.5)
    points[1, 2] = value
    with pytest.raises(BadPointsError, match=f"image 17 .row 1. has {said} at coordinate 2"):
        write_segment(tmp_path / "s", "image", "order", [16, 17, 18], points)


@pytest.mark.parametrize("score", ["order", "cosine"])
def test_point_too_long_to_be_compared_is_refused_and_named(tmp_path: Path, score: Score) -> None:
    points = np.full((3, 4), 0.5)
    points[1] = 3e38
    with pytest.raises(BadPointsError, match=r"caption 17 .row 1. has the length 6e\+38"):
        write_segment(tmp_path / "s", "caption", score, [16, 17, 18], points)
    points[1] = 5e17  # of 1e18 together
    write_segment(tmp_path / "t", "caption", score, [16, 17, 18], points)


def test_cosine_point_may_be_negative_and_not_infinite(tmp_path: Path) -> None:
    write_segment(tmp_path / "s", "image", "cosine", [1], [[-0.5, 0.5]])
    with pytest.raises(BadPointsError, match=r"image 1 .row 0. has -inf"):
        write_segment(tmp_path / "t", "image", "cosine", [1], [[-np.inf, 0.5]])


def test_points_of_another_dimension_are_refused_with_both(tmp_path: Path) -> None:
    writer = SegmentWriter(tmp_path / "s", "image", 4, "order")
    with pytest.raises(BadPointsError, match=r"\(2, 3\).* 4 coordinates"):
        writer.append([1, 2], np.zeros((2, 3)))
    with pytest.raises(BadPointsError, match="3 image ids came with 2 points"):
        writer.append([1, 2, 3], np.zeros((2, 4)))
    writer.abandon()


def test_id_that_occurs_twice_is_refused_and_named(tmp_path: Path) -> None:
    with pytest.raises(BadRowsError, match="image 5 occurs twice"):
        write_segment(tmp_path / "s", "image", "order", [5, 6, 5], np.zeros((3, 2)))
    writer = SegmentWriter(tmp_path / "t", "image", 2, "order")
    writer.append([5, 6], np.zeros((2, 2)))
    writer.append([7, 6], np.zeros((2, 2)))
    with pytest.raises(BadRowsError, match="image 6 occurs twice"):
        writer.seal()


@pytest.mark.parametrize("wrong", [2**63, "seven", None])
def test_id_that_is_no_number_of_64_bits_is_refused(wrong: Any, tmp_path: Path) -> None:
    writer = SegmentWriter(tmp_path / "s", "image", 2, "order")
    with pytest.raises(BadRowsError, match="not a whole number of 64 bits"):
        writer.append([wrong], np.zeros((1, 2)))
    writer.abandon()


def test_large_segment_is_read_at_random_except_by_full_scans(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    thresholds = Thresholds(bounds_from_bytes=40 * 16 * 4)
    monkeypatch.setattr("hasse.index.kernels.arrays._READ_BYTES", 0)
    advised: list[tuple[str, int]] = []
    advise = arrays._advise

    def spy(array: NDArray[Any], advice: int) -> None:
        advised.append((str(array.dtype), advice))
        advise(array, advice)

    monkeypatch.setattr(arrays, "_advise", spy)
    rows = np.random.default_rng(0).random((40, 16), dtype=np.float32)
    apart, ahead = mmap.MADV_RANDOM, mmap.MADV_NORMAL
    with Index.create(tmp_path / "large", model(), threads=1, thresholds=thresholds) as index:
        index.add(images(range(40)), rows)
        assert sorted(advised) == [("float32", apart), ("uint8", apart)]
        advised.clear()
        index.search(Query("image", 3, "exact"), rows[0])
        assert advised == [("float32", ahead), ("float32", apart)]
        advised.clear()
        assert verify(tmp_path / "large").findings == ()
        assert advised[-2:] == [("float32", ahead), ("float32", apart)]
    advised.clear()
    with Index.create(tmp_path / "small", model(), threads=1, thresholds=thresholds) as index:
        index.add(images(range(39)), rows[:39])
        index.search(Query("image", 3, "exact"), rows[0])
    assert advised == []
