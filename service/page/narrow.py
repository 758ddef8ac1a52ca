"""The page of filters: folders, months, cameras, places on a map, and human captions."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import date
from functools import cache
from math import cos, log1p, radians
from pathlib import Path

from fastapi import APIRouter, Request
from starlette.responses import Response

from hasse.index.catalog.overview import Overview, PlaceCount
from hasse.service.core.metadata import near
from hasse.service.http.services import ServicesHere
from hasse.service.page.errors import PageRoute
from hasse.service.page.query import PageQuery, place_words
from hasse.service.page.rendering import KEEP_URL, View, render

router = APIRouter(route_class=PageRoute)

_FOLDERS = 1000  # maximum to show, outermost first
_DOTS = 500  # maximum on the map
_SHADES = 4
_MINIMUM_DEGREES = 4.0  # height of the map, so that one city does not fill it
# A coast in each line: its name, then longitudes and latitudes along it, in degrees. They are drawn
# by hand, exact to a few hundred kilometres.
_COAST = Path(__file__).with_name("coast.txt")


@dataclass(frozen=True, slots=True)
class Folder:
    """A folder, the number of pictures in it and below, and its direct subfolders."""

    path: str
    name: str
    images: int
    below: Sequence[Folder]


@dataclass(frozen=True, slots=True)
class Month:
    """A month, its first day, the first day of the next month, and its shade from 0 to 4."""

    name: str
    start: str
    end: str
    images: int
    shade: int


@dataclass(frozen=True, slots=True)
class Place:
    """A dot on the map: its name, the filter that selects it, its position and its size."""

    name: str
    near: str
    images: int
    x: float
    y: float
    size: float


@dataclass(frozen=True, slots=True)
class WorldMap:
    """A map in degrees, north up. Longitudes are scaled to the mean latitude of the places."""

    box: str
    coast: Sequence[str]
    places: Sequence[Place]


@router.get("/page/narrow")
async def narrow(request: Request, services: ServicesHere, image: str = "") -> Response:
    """Show the filters that can narrow the query, each with its number of pictures."""
    query = PageQuery.read(request.query_params, services.settings).about(image)
    overview = (await services.samples.of(services.engine)).overview
    images = services.engine.info.images
    view = View(
        "narrow.html",
        title="Narrow the search · Hasse",
        context={
            "folders": folder_tree(overview, query.path_prefix),
            "months": calendar(overview.months),
            "cameras": overview.cameras,
            "map": draw_map(overview.places),
            "captioned": {"yes": overview.captioned, "no": images - overview.captioned},
        },
        url=KEEP_URL,
    )
    return await render(request, query, view)


def folder_tree(overview: Overview, current: str) -> list[Folder]:
    """Return the tree of the 1,000 outermost folders, and of those around the current one."""
    outermost = sorted(overview.folders, key=lambda folder: folder.count("/"))
    shown = {*outermost[:_FOLDERS], *(path for path in outermost if current.startswith(path))}

    def subtree(above: str) -> list[Folder]:
        return [
            Folder(path, path[len(above) : -1], images, subtree(path))
            for path, images in overview.subfolders(above)
            if path in shown
        ]

    return subtree("")


def calendar(months: Mapping[str, int]) -> dict[str, list[Month]]:
    """Return the twelve months of each year with pictures, the last year first."""
    most = max(months.values(), default=1)
    years = sorted({month[:4] for month in months}, reverse=True)
    return {year: list(_months(int(year), months, most)) for year in years}


def _months(year: int, months: Mapping[str, int], most: int) -> Iterator[Month]:
    for at in range(1, 13):
        first = date(year, at, 1)
        after = date(year + at // 12, at % 12 + 1, 1)
        images = months.get(f"{first:%Y-%m}", 0)
        shade = 1 + round((_SHADES - 1) * log1p(images) / log1p(most)) if images else 0
        yield Month(f"{first:%B} {year}", f"{first}", f"{after}", images, shade)


def draw_map(places: Sequence[PlaceCount]) -> WorldMap | None:
    """Draw places and the coasts around them; None if there are no places."""
    if not places:
        return None
    # Degrees of longitude shrink towards the poles.
    scale = max(0.2, cos(radians(sum(place.latitude for place in places) / len(places))))
    points = [(place.longitude * scale, -place.latitude) for place in places]
    left, top, width, height = _frame(points)
    unit = width / 100
    dots = [
        Place(
            place_words(place),
            near(place.latitude, place.longitude),
            place.images,
            round(x, 3),
            round(y, 3),
            round(unit * (1.2 + 0.5 * log1p(place.images)), 3),
        )
        for place, (x, y) in zip(places, points, strict=True)
    ]
    coast = [
        " ".join(f"{round(longitude * scale, 2)},{-latitude}" for longitude, latitude in line)
        for line in _coast()
    ]
    box = f"{left:.2f} {top:.2f} {width:.2f} {height:.2f}"
    return WorldMap(box, coast, dots[:_DOTS])


@cache
def _coast() -> list[list[tuple[float, float]]]:
    """Return the longitudes and latitudes along each coast of the world."""
    outlines = (line.partition(": ")[2].split(", ") for line in _COAST.read_text().splitlines())
    return [[(float(x), float(y)) for x, y in map(str.split, line)] for line in outlines]


def _frame(points: Sequence[tuple[float, float]]) -> tuple[float, float, float, float]:
    """Return left, top, width and height around points: twice as wide as high."""
    xs, ys = zip(*points, strict=True)
    height = max(_MINIMUM_DEGREES, 1.3 * (max(ys) - min(ys)), 0.65 * (max(xs) - min(xs)))
    middle = (max(xs) + min(xs)) / 2, (max(ys) + min(ys)) / 2
    return middle[0] - height, middle[1] - height / 2, 2 * height, height
