from __future__ import annotations

import os
from datetime import UTC, datetime
from pathlib import Path

import pytest
from PIL import Image

from models.images.taken import taken_at

DIGITIZED, ORIGINAL, OFFSET = 36868, 36867, 36881


def photograph(path: Path, facts: dict[int, object]) -> Path:
    exif = Image.Exif()
    exif.get_ifd(0x8769).update(facts)
    Image.new("RGB", (8, 8)).save(path, exif=exif)
    os.utime(path, (1_000_000, 1_000_000))
    return path


@pytest.mark.parametrize(
    ("facts", "expected"),
    [
        ({ORIGINAL: "2023:07:04 12:30:00"}, datetime(2023, 7, 4, 12, 30, tzinfo=UTC)),
        ({DIGITIZED: "2023:07:04 12:30:00"}, datetime(2023, 7, 4, 12, 30, tzinfo=UTC)),
        (
            {ORIGINAL: "2023:07:04 12:30:00", OFFSET: "+02:00"},
            datetime(2023, 7, 4, 10, 30, tzinfo=UTC),
        ),
        ({ORIGINAL: "0000:00:00 00:00:00"}, datetime.fromtimestamp(1_000_000, UTC)),
        (
            {ORIGINAL: "2023:07:04 12:30:00", OFFSET: "+99:00"},
            datetime(2023, 7, 4, 12, 30, tzinfo=UTC),
        ),
        ({}, datetime.fromtimestamp(1_000_000, UTC)),
    ],
)
def test_date_is_that_of_the_camera_or_else_of_the_file(
    facts: dict[int, object], expected: datetime, tmp_path: Path
) -> None:
    assert taken_at(photograph(tmp_path / "a.jpg", facts)) == expected.timestamp() * 1000


def test_date_of_a_broken_file_is_the_files_and_of_none_is_unknown(tmp_path: Path) -> None:
    (tmp_path / "a.jpg").write_bytes(b"\xff\xd8\xff\xe1\xff\xff broken")
    os.utime(tmp_path / "a.jpg", (5, 5))
    assert taken_at(tmp_path / "a.jpg") == 5000
    assert taken_at(tmp_path / "none.jpg") is None
