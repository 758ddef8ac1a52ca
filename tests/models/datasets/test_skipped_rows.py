"""SkippedRows are all counted, told in one line each, and never flood."""

from __future__ import annotations

from hasse.models.datasets.skipped_rows import LINES_PER_REASON, SkippedRows


def test_problem_is_one_line_that_says_what_why_and_what_follows() -> None:
    skipped = SkippedRows()
    skipped.add("image 17 (dog.jpg)", "file not found")
    skipped.add("image 18 (cat.jpg)", "damaged picture", detail="cut\nshort")
    assert skipped.lines == [
        "image 17 (dog.jpg): file not found: skipped",
        "image 18 (cat.jpg): damaged picture (cut\\nshort): skipped",
    ]


def test_flood_is_counted_and_does_not_hide_other_reasons() -> None:
    skipped = SkippedRows()
    for at in range(10_000):
        skipped.add(f"image {at}", "file not found")
    skipped.add("caption 3", "empty caption")
    assert skipped.total == 10_001
    assert skipped.by_reason == {"file not found": 10_000, "empty caption": 1}
    assert len(skipped.lines) == LINES_PER_REASON + 1
    assert skipped.unlisted == 10_001 - LINES_PER_REASON - 1
    assert skipped.summary() == "file not found: 10,000, empty caption: 1"


def test_names_from_strangers_stay_on_one_short_line() -> None:
    skipped = SkippedRows()
    skipped.add("image 1 (a\nb\x1b[31m\udc80" + "x" * 10_000 + ")", "file not found")
    (line,) = skipped.lines
    assert line.startswith("image 1 (a\\nb\\x1b[31m\\udc80xxx")
    assert line.isprintable()
    assert len(line) < 200
