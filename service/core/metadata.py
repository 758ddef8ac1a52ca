"""What is known of a picture beside what it shows: date, camera, place, folder, size, keywords."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path

from hasse.index.text.sources import TextSource
from hasse.index.types import ImageRow, Metadata

_NEAR_KILOMETRES = 10  # around a picture, to find others taken there


@dataclass(frozen=True, slots=True)
class Fact:
    """One thing that is known, and the filters that select pictures of which the same holds."""

    label: str
    value: str
    filters: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Known:
    """What is known of a picture.

    Attributes:
        facts: in the order in which they are shown.
        keywords: those in its file, and in a sidecar.
        added_keywords: those that people added here.
    """

    facts: Sequence[Fact] = ()
    keywords: Sequence[str] = ()
    added_keywords: Sequence[str] = ()


def known_of(row: ImageRow, path: Path, shown: str, metadata: Metadata) -> Known:
    """Return what is known of a picture at `path`, which is shown as `shown`.

    `metadata` has all texts of the picture.
    """
    texts = dict[TextSource, list[str]]()
    for source, text in metadata.texts:
        texts.setdefault(source, []).append(text)
    return Known(
        list(_facts(row, path, shown, metadata, texts)),
        list(dict.fromkeys(texts.get("keyword", ()))),
        texts.get("added keyword", []),
    )


def _facts(
    row: ImageRow,
    path: Path,
    shown: str,
    metadata: Metadata,
    texts: Mapping[TextSource, Sequence[str]],
) -> Iterator[Fact]:
    labels: Mapping[str, TextSource] = {"Title": "title", "Description": "description"}
    for label, source in labels.items():
        if source in texts:
            yield Fact(label, "; ".join(dict.fromkeys(texts[source])))
    if moment := _moment(row.taken):
        day = moment.date()
        dates = {"taken_from": f"{day}", "taken_before": f"{day + timedelta(1)}"}
        yield Fact("Taken", f"{moment.day} {moment:%B} {moment.year}, {moment:%H:%M}", dates)
    if metadata.camera:
        yield Fact("Camera", metadata.camera, {"camera": metadata.camera})
    lens = [text for text in texts.get("camera", ()) if text != metadata.camera]
    if lens:
        yield Fact("Lens", lens[0])
    if metadata.latitude is not None and metadata.longitude is not None:
        named = texts.get("place") or [coordinates(metadata.latitude, metadata.longitude)]
        yield Fact("Place", named[-1], {"near": near(metadata.latitude, metadata.longitude)})
    elif "place" in texts:
        yield Fact("Place", "; ".join(dict.fromkeys(texts["place"])))
    if folder := shown.rpartition("/")[0]:
        yield Fact("Folder", folder, {"path_prefix": f"{folder}/"})
    pixels = f"{row.width:,} × {row.height:,} pixels" if row.width and row.height else ""
    if size := ", ".join(part for part in (pixels, _bytes(path)) if part):
        yield Fact("Size", size)
    if metadata.rating is not None and metadata.rating > 0:
        yield Fact("Rating", "★" * metadata.rating + "☆" * (5 - metadata.rating))


def near(latitude: float, longitude: float) -> str:
    """Return the filter that selects pictures around a place."""
    return f"{latitude:.4f},{longitude:.4f},{_NEAR_KILOMETRES}"


def coordinates(latitude: float, longitude: float) -> str:
    """Return a place in words: "52.5° N, 13.4° E"."""
    north, east = "N" if latitude >= 0 else "S", "E" if longitude >= 0 else "W"
    return f"{abs(latitude):.1f}° {north}, {abs(longitude):.1f}° {east}"


def _moment(taken: int | None) -> datetime | None:
    """Return the clock on the wall where a picture was taken."""
    if taken is not None:
        with suppress(OverflowError, ValueError, OSError):
            return datetime.fromtimestamp(taken / 1000, UTC)
    return None


def _bytes(path: Path) -> str:
    try:
        found = path.stat().st_size
    except OSError:
        return ""
    return f"{found / 1e6:.1f} MB" if found >= 1e6 else f"{max(1, round(found / 1e3))} kB"
