"""Turns the metadata of a picture into a row of the catalog, and its position into a place name."""

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
_CITY_POPULATION = 300_000  # the name of such a city is added to that of its suburb
_SOURCES: tuple[TextSource, ...] = ("title", "keyword", "description", "place")


def metadata_of(metadata: PictureMetadata, sidecars: str = "") -> Metadata:
    """Return the row of a picture; `sidecars` is their state when they were read."""
    texts = [(source, text) for source in _SOURCES for text in metadata.texts.get(source, ())]
    cameras: list[tuple[TextSource, str]] = [
        ("camera", text) for text in (metadata.camera, metadata.lens) if text
    ]
    places: list[tuple[TextSource, str]] = []
    if metadata.position is not None and (name := place_name(*metadata.position)):
        places.append(("place", name))
    latitude, longitude = metadata.position or (None, None)
    return Metadata(
        (*texts, *cameras, *places), metadata.camera, metadata.rating, latitude, longitude, sidecars
    )


def place_name(latitude: float, longitude: float) -> str:
    """Return the settlement, region, city and country of a place; "" far from any settlement.

    The names come from the extra package `reverse-geocode`. Without it, the result is "".
    """
    gazetteer = _gazetteer()
    if gazetteer is None:
        return ""
    position = on_sphere(latitude, longitude)
    names: list[str] = []
    for population in (0, _CITY_POPULATION):
        settlement: dict[str, Any] = gazetteer.get((latitude, longitude), population)
        centre = on_sphere(settlement["latitude"], settlement["longitude"])
        if dist(position, centre) * _EARTH_KILOMETRES <= _NEAR_KILOMETRES:
            names += [settlement.get(part, "") for part in ("city", "county", "state", "country")]
    return ", ".join(dict.fromkeys(filter(None, names)))


@cache
def _gazetteer() -> ModuleType | None:
    try:
        import reverse_geocode  # type: ignore[import-untyped]
    except ImportError:
        return None
    return reverse_geocode  # type: ignore[no-any-return]
