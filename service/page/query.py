"""The query in the address of a page, and the addresses of related pages."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import date
from typing import Any, get_args
from urllib.parse import urlencode

from hasse.index.catalog.overview import PlaceCount
from hasse.service.addresses import address
from hasse.service.core.metadata import coordinates
from hasse.service.errors import ServiceError
from hasse.service.questions.requests import (
    OFFSET_MAXIMUM,
    REACH_MAXIMUM,
    Evidence,
    Likeness,
    Mode,
    Sort,
)
from hasse.service.schemas import image_id_of, place_of
from hasse.service.settings import Settings

DEFAULT_SIZE = 48  # hits of a page; further ones follow while one scrolls
DEFAULT_MODE: Mode = "certified"
DEFAULT_EVIDENCE: Evidence = "any"
DEFAULT_SORT: Sort = "best"  # without a question: the newest first
# The fields of filters, and the text that shows a filter.
FILTERS: Mapping[str, str] = {
    "path_prefix": "in {}",
    "taken_from": "taken from {}",
    "taken_before": "taken before {}",
    "camera": "by {}",
    "near": "near {}",
    "rating": "{} or more",
    "has_captions": "{} captions of people",
}
_STARS = ("1", "2", "3", "4", "5")
_CAPTIONED = {"yes": True, "no": False}
_PATH_CHARACTERS = 1000
_CAMERA_CHARACTERS = 200


@dataclass(frozen=True, slots=True)
class PageQuery:
    """The fields of an address. Addresses leave out defaults and keep all other options."""

    text: str = ""
    image_id: int | None = None
    similar: Likeness | None = None  # to the picture; None asks for its captions
    k: int = DEFAULT_SIZE
    offset: int = 0  # of the first hit that is shown
    mode: Mode = DEFAULT_MODE
    evidence: Evidence = DEFAULT_EVIDENCE
    path_prefix: str = ""
    taken_from: str = ""  # dates, as in 2026-11-20
    taken_before: str = ""
    camera: str = ""
    near: str = ""  # latitude, longitude and kilometres
    rating: str = ""  # the fewest stars
    has_captions: str = ""  # "yes", "no" or ""
    sort: Sort = DEFAULT_SORT

    @classmethod
    def read(cls, fields: Mapping[str, str], settings: Settings) -> PageQuery:
        """Read an address or a form; an invalid option becomes the default."""
        names = "mode", "similar", "evidence", "sort"
        mode, similar, evidence, sort = (fields.get(name, "") for name in names)
        captioned = fields.get("has_captions", "")
        size = _number(fields.get("k", ""), DEFAULT_SIZE)
        return cls(
            text=" ".join(fields.get("q", "").split()),
            similar=next((value for value in get_args(Likeness) if value == similar), None),
            k=min(max(1, size), settings.k_maximum),
            offset=min(_number(fields.get("offset", ""), 0), OFFSET_MAXIMUM),
            mode=next((value for value in get_args(Mode) if value == mode), DEFAULT_MODE),
            evidence=next((value for value in get_args(Evidence) if value == evidence), "any"),
            path_prefix=_plain(fields.get("path_prefix", ""), _PATH_CHARACTERS),
            taken_from=_date(fields.get("taken_from", "")),
            taken_before=_date(fields.get("taken_before", "")),
            camera=_plain(fields.get("camera", ""), _CAMERA_CHARACTERS),
            near=_place(fields.get("near", "")),
            rating=fields["rating"] if fields.get("rating", "") in _STARS else "",
            has_captions=captioned if captioned in _CAPTIONED else "",
            sort=next((value for value in get_args(Sort) if value == sort), DEFAULT_SORT),
        )

    def about(self, image: str) -> PageQuery:
        """Return this query about a stored image; a query with a text is returned unchanged.

        Raises:
            ServiceError: `not_found`, if `image` cannot be an id.
        """
        if self.text or not image.strip():
            return self
        image_id = image_id_of(image)
        if image_id is None:
            raise ServiceError("not_found", "there is no such image")
        return replace(self, image_id=image_id)

    @property
    def options(self) -> dict[str, Any]:
        """The fields that requests for images and for captions have in common."""
        since, until = (
            f"{day}T00:00:00Z" if day else None for day in (self.taken_from, self.taken_before)
        )
        return {
            "k": self.k,
            "offset": self.offset,
            "mode": self.mode,
            "path_prefix": self.path_prefix or None,
            "taken_from": since,
            "taken_before": until,
            "camera": self.camera or None,
            "near": self.near or None,
            "rating": int(self.rating) if self.rating else None,
            "has_captions": _CAPTIONED.get(self.has_captions),
        }

    @property
    def image_options(self) -> dict[str, Any]:
        """The fields that all requests for images have in common."""
        return {**self.options, "sort": self.sort}

    @property
    def is_sorted(self) -> bool:
        """Whether the hits of a question have another order than that of the answer."""
        return self.sort != DEFAULT_SORT

    @property
    def is_dated(self) -> bool:
        """Whether the hits of this query are in the order of their dates."""
        return self.sort in ("newest", "oldest") or (self.lists and not self.is_sorted)

    @property
    def lists(self) -> bool:
        """Whether this query has no question: all pictures of its filters are listed."""
        return not self.text and self.image_id is None

    @property
    def filters(self) -> dict[str, str]:
        """The filters that are set, by the names of their fields."""
        values = {name: getattr(self, name) for name in FILTERS}
        return {name: value for name, value in values.items() if value}

    def chips(self, places: Iterable[PlaceCount] = ()) -> list[tuple[str, PageQuery]]:
        """Return the filters that are set, each in words and with the query without it.

        `places` are those with a name; a place that is near none of them has coordinates.
        """
        chips = []
        filters = dict(self.filters)
        if period := period_name(self.taken_from, self.taken_before):
            del filters["taken_from"], filters["taken_before"]
            chips.append((f"taken in {period}", self.narrowed(taken_from="", taken_before="")))
        for name, value in filters.items():
            shown = _near_words(value, places) if name == "near" else _WORDS.get(name, str)(value)
            words = FILTERS[name].format(shown)
            chips.append((words, self.narrowed(**{name: ""})))
        return chips

    def anywhere(self) -> PageQuery:
        """Return this query without its text and picture: only its filters are left."""
        return replace(self, text="", image_id=None, similar=None, offset=0)

    def narrowed(self, **filters: str) -> PageQuery:
        """Return this query with other filters, by the names of their fields."""
        return replace(self, **filters, offset=0)  # type: ignore[arg-type]

    def url(self) -> str:
        """Return the address of this query."""
        return self._url("/", [("offset", str(self.offset) if self.offset else "")])

    def page_url(self, offset: int) -> str:
        """Return the address of the same hits from `offset` on; "" beyond what can be reached."""
        reach = OFFSET_MAXIMUM if self.lists else REACH_MAXIMUM
        return replace(self, offset=offset).url() if offset < reach else ""

    def sort_url(self, sort: Sort) -> str:
        """Return the address of the same pictures in another order."""
        return replace(self, sort=sort, offset=0).url()

    def text_url(self, text: str) -> str:
        """Return the address of the pictures that a caption is true of."""
        return replace(self, text=text, image_id=None, offset=0, sort=DEFAULT_SORT).url()

    def evidence_url(self, evidence: Evidence) -> str:
        """Return the address of this query by another kind of evidence."""
        return replace(self, evidence=evidence, offset=0).url()

    def image_url(self, image_id: int) -> str:
        """Return the address of the captions that are true of a stored image."""
        query = replace(self, text="", image_id=image_id, similar=None, offset=0)
        return replace(query, sort=DEFAULT_SORT).url()

    def diagram_url(self, text: str = "", image_id: int | None = None) -> str:
        """Return the address of the diagram of a caption or a stored image."""
        query = replace(self, text=text, image_id=image_id, similar=None)
        return query._url("/page/diagram")

    def similar_url(self, similar: Likeness) -> str:
        """Return the address of the pictures that are similar to this stored image."""
        return replace(self, similar=similar, offset=0).url()

    def claim_url(self, hypothesis: str) -> str:
        """Return the address of the page on whether a caption is true of this stored image."""
        return self._url("/page/claim", [("hypothesis", hypothesis)])

    def upload_url(self, upload: str = "", hypothesis: str = "") -> str:
        """Return the address of an answer about an uploaded picture.

        `upload` distinguishes uploads, so that each has its own entry in the browser's history.
        """
        fields = [("upload", upload), ("hypothesis", hypothesis), ("similar", self.similar or "")]
        return self._url("/page/picture", fields)

    def combine_url(
        self,
        operation: str = "",
        words: Sequence[str] = (),
        without: Sequence[str] = (),
        image_ids: Sequence[int] = (),
        less_ids: Sequence[int] = (),
        *,
        lost_uploads: bool = False,
    ) -> str:
        """Return the address that combines these parts; without `operation`, that of the form.

        `lost_uploads`: there were uploaded pictures, which an address cannot contain.
        """
        fields = [
            ("operation", operation),
            *(("words", text) for text in words),
            *(("without", text) for text in without),
            *(("image", str(image_id)) for image_id in image_ids),
            *(("less", str(image_id)) for image_id in less_ids),
            ("lost_uploads", "yes" if lost_uploads else ""),
        ]
        return replace(self, text="", image_id=None)._url("/page/combine", fields)

    def _url(self, path: str, fields: Iterable[tuple[str, str]] = ()) -> str:
        fields = [(name, text) for name, text in fields if text]
        if self.text:
            fields.append(("q", self.text))
        elif self.image_id is not None:
            fields.append(("image", str(self.image_id)))
            fields += [("similar", self.similar)] if self.similar else []
        if self.k != DEFAULT_SIZE:
            fields.append(("k", str(self.k)))
        if self.mode != DEFAULT_MODE:
            fields.append(("mode", self.mode))
        if self.text and self.evidence != DEFAULT_EVIDENCE:
            fields.append(("evidence", self.evidence))
        if self.sort != DEFAULT_SORT:
            fields.append(("sort", self.sort))
        fields += self.filters.items()
        return address(f"{path}?{urlencode(fields)}" if fields else path)


def _number(text: str, default: int) -> int:
    return int(text) if text.isascii() and text.isdigit() and len(text) < 10 else default


def _date(text: str) -> str:
    """Return a date as `<input type="date">` sends it, or "" for anything else."""
    try:
        return date.fromisoformat(text).isoformat()
    except ValueError:
        return ""


def _plain(text: str, maximum: int) -> str:
    return text.replace("\0", "").strip()[:maximum]


def _place(text: str) -> str:
    """Return a `Near`, or "" for anything else."""
    try:
        place_of(text)
    except ValueError:
        return ""
    return text


def period_name(start: str, end: str) -> str:
    """Return "2026", "July 2026" or "3 July 2026" for dates from `start` to before `end`, or ""."""
    try:
        first, after = date.fromisoformat(start), date.fromisoformat(end)
    except ValueError:
        return ""
    if (after - first).days == 1:
        return f"{first.day} {first:%B} {first.year}"
    if first.day != 1 or after.day != 1:
        return ""
    months = 12 * (after.year - first.year) + after.month - first.month
    if months == 12 and first.month == 1:
        return str(first.year)
    return f"{first:%B} {first.year}" if months == 1 else ""


def _near_words(near: str, places: Iterable[PlaceCount]) -> str:
    latitude, longitude, kilometres = place_of(near)
    for place in places:
        if place.name and abs(place.latitude - latitude) + abs(place.longitude - longitude) < 0.01:
            return f"{place_words(place)} ({kilometres:g} km)"
    return f"{coordinates(latitude, longitude)} ({kilometres:g} km)"


def place_words(place: PlaceCount) -> str:
    """Return the settlement and the country of a place, or its coordinates."""
    names = place.name.split(", ")
    if not place.name:
        return coordinates(place.latitude, place.longitude)
    return f"{names[0]}, {names[-1]}" if len(names) > 1 else names[0]


_WORDS: Mapping[str, Callable[[str], str]] = {
    "rating": lambda stars: "★" * int(stars),
    "has_captions": {"yes": "with", "no": "without"}.__getitem__,
}
