"""Details of a picture for display: date, camera, place, folder, size and keywords."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path

from hasse.index.text.sources import TextSource
from hasse.index.types import ImageRow, Metadata
from hasse.service.core.searching import dated_by

_NEAR_KILOMETRES = 10  # radius of the filter for pictures taken nearby


@dataclass(frozen=True, slots=True)
class Fact:
    """A labelled detail, and the filters that select other pictures with the same value."""

    label: str
    value: str
    filters: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class PictureDetails:
    """The details of a picture.

    Attributes:
        facts: in display order.
        keywords: from its file and its sidecar.
        added_keywords: from users of this library.
    """

    facts: Sequence[Fact] = ()
    keywords: Sequence[str] = ()
    added_keywords: Sequence[str] = ()


def picture_details(row: ImageRow, path: Path, shown: str, metadata: Metadata) -> PictureDetails:
    """Return the details of the picture at `path`; `shown` is its path in answers.

    `metadata` has all texts of the picture.
    """
    texts = dict[TextSource, list[str]]()
    for source, text in metadata.texts:
        texts.setdefault(source, []).append(text)
    return PictureDetails(
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
        label = "Taken" if dated_by(row.taken) == "picture" else "Date of the file"
        yield Fact(label, f"{moment.day} {moment:%B} {moment.year}, {moment:%H:%M}", dates)
    if metadata.camera:
        yield Fact("Camera", metadata.camera, {"camera": metadata.camera})
    lens = [text for text in texts.get("camera", ()) if text != metadata.camera]
    if lens:
        yield Fact("Lens", lens[0])
    if metadata.latitude is not None and metadata.longitude is not None:
        place_names = texts.get("place") or [coordinates(metadata.latitude, metadata.longitude)]
        yield Fact("Place", place_names[-1], {"near": near(metadata.latitude, metadata.longitude)})
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
    """Return coordinates for display: "52.5° N, 13.4° E"."""
    north, east = "N" if latitude >= 0 else "S", "E" if longitude >= 0 else "W"
    return f"{abs(latitude):.1f}° {north}, {abs(longitude):.1f}° {east}"


def _moment(taken: int | None) -> datetime | None:
    """Return the local time at the place where the picture was taken."""
    if taken is not None:
        with suppress(OverflowError, ValueError, OSError):
            return datetime.fromtimestamp(taken / 1000, UTC)
    return None


def _bytes(path: Path) -> str:
    try:
        size = path.stat().st_size
    except OSError:
        return ""
    return f"{size / 1e6:.1f} MB" if size >= 1e6 else f"{max(1, round(size / 1e3))} kB"
