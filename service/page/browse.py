"""Lists the pictures that filters select, without a search: by date, with a list of months."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import date, timedelta
from itertools import groupby

from hasse.service.core.engine import Engine
from hasse.service.page.query import PageQuery
from hasse.service.page.rendering import View
from hasse.service.plural import count
from hasse.service.questions import table
from hasse.service.questions.answers import ImageHit
from hasse.service.questions.handlers import ask
from hasse.service.questions.requests import ImageQuery, Sort
from hasse.service.questions.sorting import count_days
from hasse.service.telemetry.stages import Stages

# Pictures of a day, on average. With fewer, a heading for each day would take more room than they.
_MIN_PER_DAY = 4
_EPOCH = date(1970, 1, 1)


@dataclass(frozen=True, slots=True)
class Group:
    """Hits that follow each other and have a heading in common; "" for none."""

    heading: str
    hits: Sequence[ImageHit]


@dataclass(frozen=True, slots=True)
class Stop:
    """A month or a year, its number of pictures, and the address of the first of them."""

    name: str
    images: int
    url: str
    months: Sequence[Stop] = ()


async def browse(engine: Engine, query: PageQuery) -> View:
    """Return the view of the pictures that the filters of a query select."""
    stages, request = Stages(), ImageQuery(**query.image_options)
    answer = await ask(engine, table.SEARCH_IMAGES, request, stages)
    days: Mapping[int | None, int] = {}
    if query.is_dated:
        days = await engine.in_catalog(lambda: count_days(engine, request))
    total, end = answer.searched, query.offset + len(answer.hits)
    by_day = total >= _MIN_PER_DAY * len(days)
    sort: Sort = "newest" if query.sort == "best" else query.sort
    return View(
        "browse.html",
        title="Pictures · Hasse",
        announcement=f"{count(total, 'picture')}.",
        context={
            "total": total,
            "groups": groups_of(answer.hits, sort, by_day=by_day),
            "stops": list(_stops(days, query)),
            "more": query.page_url(end) if answer.hits and end < total else "",
        },
        stages=stages,
    )


def groups_of(hits: Iterable[ImageHit], sort: Sort, *, by_day: bool = False) -> list[Group]:
    """Return hits by day or month where they are sorted by date, and by folder."""

    def heading(hit: ImageHit) -> str:
        if sort == "folder":
            return hit.path.rpartition("/")[0]
        if sort not in ("newest", "oldest"):
            return ""
        if hit.taken is None:
            return "Without a date"
        day = date.fromisoformat(hit.taken[:10])
        return f"{day.day} {day:%B} {day.year}" if by_day else f"{day:%B} {day.year}"

    return [Group(name, list(each)) for name, each in groupby(hits, heading)]


def _stops(days: Mapping[int | None, int], query: PageQuery) -> Iterator[Stop]:
    """Yield the years of days, which are in descending order, in the order of a query."""
    dated = [(day, images) for day, images in days.items() if day is not None]
    if query.sort == "oldest":
        dated.reverse()
    offset, months = 0, dict[tuple[int, int], Stop]()
    for (year, month), each in groupby(dated, lambda pair: _month(pair[0])):
        images = sum(number for _, number in each)
        months[year, month] = Stop(f"{date(year, month, 1):%B}", images, query.page_url(offset))
        offset += images
    for year, keys in groupby(months, lambda key: key[0]):
        stops = [months[key] for key in keys]
        yield Stop(str(year), sum(stop.images for stop in stops), stops[0].url, stops)


def _month(day: int) -> tuple[int, int]:
    moment = _EPOCH + timedelta(day)
    return moment.year, moment.month
