"""The catalog's row of what is written about a picture, with the names of its place."""

from __future__ import annotations

from functools import cache
from math import dist
from types import ModuleType
from typing import Any

from hasse.index.catalog.selection import on_sphere
from hasse.index.text.sources import TextSource
from hasse.index.types import Metadata
from hasse.models.images.metadata import PictureMetadata

_EARTH_KILOMETRES = 6371.0088
_NEAR_KILOMETRES = 25.0  # a settlement farther away does not name a place
_CITY = 300_000  # people: somebody who was in a suburb says that they were in the city
_SOURCES: tuple[TextSource, ...] = ("title", "keyword", "description", "place")


def metadata_of(found: PictureMetadata, sidecars: str = "") -> Metadata:
    """Return the row of a picture; `sidecars` tells in which state they were read."""
    texts = [(source, text) for source in _SOURCES for text in found.texts.get(source, ())]
    cameras: list[tuple[TextSource, str]] = [
        ("camera", text) for text in (found.camera, found.lens) if text
    ]
    places: list[tuple[TextSource, str]] = []
    if found.position is not None and (name := place_name(*found.position)):
        places.append(("place", name))
    latitude, longitude = found.position or (None, None)
    return Metadata(
        (*texts, *cameras, *places), found.camera, found.rating, latitude, longitude, sidecars
    )


def place_name(latitude: float, longitude: float) -> str:
    """Return the settlement, region, city and country of a place; "" far from any.

    The names are those of the package `reverse-geocode`, an extra; without it all are "".
    """
    gazetteer = _gazetteer()
    if gazetteer is None:
        return ""
    here = on_sphere(latitude, longitude)
    names: list[str] = []
    for population in (0, _CITY):
        found: dict[str, Any] = gazetteer.get((latitude, longitude), population)
        there = on_sphere(found["latitude"], found["longitude"])
        if dist(here, there) * _EARTH_KILOMETRES <= _NEAR_KILOMETRES:
            names += [found.get(part, "") for part in ("city", "county", "state", "country")]
    return ", ".join(dict.fromkeys(filter(None, names)))


@cache
def _gazetteer() -> ModuleType | None:
    try:
        import reverse_geocode  # type: ignore[import-untyped]
    except ImportError:
        return None
    return reverse_geocode  # type: ignore[no-any-return]
