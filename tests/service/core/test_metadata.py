"""What is known of a picture beside what it shows."""

from __future__ import annotations

from pathlib import Path

from hasse.index.types import ImageRow
from hasse.service.core.metadata import facts_of


def test_facts_name_the_date_and_the_size(tmp_path: Path) -> None:
    row = ImageRow(1, "a.jpg", "a.jpg", 4000, 3000, taken=1_780_000_000_000)
    (tmp_path / "a.jpg").write_bytes(bytes(2_340_000))
    assert facts_of(row, tmp_path / "a.jpg") == [
        ("Taken", "28 May 2026, 20:26"),
        ("Size", "4,000 × 3,000 pixels, 2.3 MB"),
    ]


def test_facts_leave_out_what_is_not_known(tmp_path: Path) -> None:
    plain = ImageRow(1, "a.jpg", "a.jpg")
    assert facts_of(plain, tmp_path / "gone.jpg") == []
    (tmp_path / "a.jpg").write_bytes(b"1")
    assert facts_of(plain, tmp_path / "a.jpg") == [("Size", "1 kB")]
    odd = plain._replace(taken=2**62, width=3, height=4)
    assert facts_of(odd, tmp_path / "gone.jpg") == [("Size", "3 × 4 pixels")]
