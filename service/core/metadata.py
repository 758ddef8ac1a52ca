"""What is known of a picture beside what it shows: when it was taken, and how large it is."""

from __future__ import annotations

from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path

from hasse.index.types import ImageRow

Facts = list[tuple[str, str]]  # labels and values, in the order in which they are shown


def facts_of(row: ImageRow, path: Path) -> Facts:
    """Return what is known of a picture, whose file is at `path`; the rest is left out."""
    pixels = f"{row.width:,} × {row.height:,} pixels" if row.width and row.height else ""
    facts = [
        ("Taken", _day(row.taken)),
        ("Size", ", ".join(part for part in (pixels, _bytes(path)) if part)),
    ]
    return [(label, value) for label, value in facts if value]


def _day(taken: int | None) -> str:
    """Return the clock on the wall where a picture was taken."""
    if taken is None:
        return ""
    with suppress(OverflowError, ValueError, OSError):
        moment = datetime.fromtimestamp(taken / 1000, UTC)
        return f"{moment.day} {moment:%B} {moment.year}, {moment:%H:%M}"
    return ""


def _bytes(path: Path) -> str:
    try:
        found = path.stat().st_size
    except OSError:
        return ""
    return f"{found / 1e6:.1f} MB" if found >= 1e6 else f"{max(1, round(found / 1e3))} kB"
