"""Files of chains are read as they were written, and what is no chain is named."""

from __future__ import annotations

from pathlib import Path

import pytest

from hasse.models.datasets import DatasetError
from hasse.studies.photographs.chains import Chain, read_chains, write_chains


def test_read_returns_what_was_written(tmp_path: Path) -> None:
    chains = [Chain(1, ("bird", "blue bird"), ("animal",)), Chain(2, ("a café", "a red café"))]
    write_chains(tmp_path / "new" / "chains.jsonl", chains)
    assert read_chains(tmp_path / "new" / "chains.jsonl") == chains


def test_read_takes_a_csv_of_hierarcaps(tmp_path: Path) -> None:
    file = tmp_path / "chains.csv"
    file.write_text(
        "id,captions,image_url\n"
        "0,bird => blue bird => blue bird on a branch,"
        "http://images.example/val2014/COCO_val2014_000000000042.jpg\n"
    )
    assert read_chains(file) == [Chain(42, ("bird", "blue bird", "blue bird on a branch"))]


@pytest.mark.parametrize(
    "row",
    [
        "{",
        '{"image_id": 1}',
        '{"image_id": 1, "chain": ["bird"]}',
        '{"image_id": "x", "chain": ["a", "b"]}',
        "7",
    ],
)
def test_read_names_the_row_that_is_no_chain(tmp_path: Path, row: str) -> None:
    file = tmp_path / "chains.jsonl"
    file.write_text('{"image_id": 1, "chain": ["a", "b"]}\n' + row + "\n")
    with pytest.raises(DatasetError, match="row 2 is no chain"):
        read_chains(file)


def test_read_names_the_column_that_is_missing(tmp_path: Path) -> None:
    (tmp_path / "chains.csv").write_text("number,captions\n1,bird => blue bird\n")
    with pytest.raises(DatasetError, match=r"row 1 is no chain \(there is no id\)"):
        read_chains(tmp_path / "chains.csv")


def test_read_of_a_missing_or_empty_file_says_so(tmp_path: Path) -> None:
    with pytest.raises(DatasetError, match="hasse study photographs abstract"):
        read_chains(tmp_path / "none.jsonl")
    (tmp_path / "header.csv").write_text("id,captions\n")
    with pytest.raises(DatasetError, match="holds no chain"):
        read_chains(tmp_path / "header.csv")
