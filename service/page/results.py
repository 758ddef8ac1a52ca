"""What pages show of the engine's answers: pictures, captions without repeats, and how sure."""

from __future__ import annotations

import base64
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Generic, Literal, Protocol, TypeVar

from hasse.index.search.distinct import one_text
from hasse.service.addresses import preview_url
from hasse.service.core.metadata import PictureDetails
from hasse.service.core.pictures import THUMBNAIL_MEDIA_TYPE
from hasse.service.core.stages import Stages
from hasse.service.page.query import PageQuery
from hasse.service.questions.answers import CaptionHit, ImageHit, SearchFacts
from hasse.service.schemas import ImageRecord
from hasse.service.verdict import NOTHING_SHOWS, Verdict, may_be_true, verdict


class Likely(Protocol):
    """What has a probability of being true, or none."""

    @property
    def probability(self) -> float | None:
        """How likely it is true; None if that is not known."""


Hit = TypeVar("Hit", bound=Likely)

# What stands above hits, by the verdict on the best of them; None if that is not known.
IMAGE_HEADINGS: Mapping[Verdict | None, str] = {
    "shows": "Pictures that show this",
    "may_show": "Pictures that may show this",
    "not": NOTHING_SHOWS,
    None: "Pictures nearest to this",
}
SAYING_HEADING = "Pictures of which this is said"
NEARLY_SAYING_HEADING = "Pictures of which something like this is said"
CAPTION_HEADINGS: Mapping[Verdict | None, str] = {
    "shows": "True of this picture",
    "may_show": "May be true of this picture",
    "not": "No caption here is true of this picture",
    None: "Captions nearest to this picture",
}
COMMON_HEADINGS: Mapping[Verdict | None, str] = {
    **CAPTION_HEADINGS,
    "shows": "What it all has in common",
    "may_show": "What it all may have in common",
    "not": "No caption here is true of it all",
}


@dataclass(frozen=True, slots=True)
class ShownPicture:
    """A picture beside an answer; an uploaded one has nothing that is stored with one."""

    url: str
    name: str
    alt: str
    captions: tuple[str, ...] = ()  # of people
    written: tuple[str, ...] = ()  # of a model, stored
    paths: tuple[str, ...] = ()
    file_url: str = ""
    link: str = ""
    image_id: int | None = None
    pixels: tuple[int | None, int | None] = (None, None)  # width and height
    known: PictureDetails = field(default_factory=PictureDetails)  # what its file says of it

    @classmethod
    def stored(
        cls, record: ImageRecord, query: PageQuery, known: PictureDetails | None = None
    ) -> ShownPicture:
        """Return a picture of the collection."""
        people = tuple(one.caption for one in record.captions if one.written_by is None)
        written = tuple(one.caption for one in record.captions if one.written_by is not None)
        return cls(
            url=preview_url(record.image_id, "medium"),
            name=record.file_name,
            alt=next(iter(people + written), record.file_name),
            captions=people,
            written=written,
            paths=tuple(record.paths),
            file_url=record.image_url,
            link=query.image_url(record.image_id),
            image_id=record.image_id,
            pixels=(record.width, record.height),
            known=known or PictureDetails(),
        )

    @classmethod
    def uploaded(cls, preview: bytes, name: str = "") -> ShownPicture:
        """Return an uploaded picture. It is part of the page, because it is not stored."""
        data = base64.b64encode(preview).decode("ascii")
        url = f"data:{THUMBNAIL_MEDIA_TYPE};base64,{data}"
        return cls(url, name or "your picture", f"Your picture {name}".strip())


@dataclass(frozen=True, slots=True)
class Proof:
    """How sure an answer is: a class name, and a sentence."""

    kind: Literal["proved", "likely"]
    sentence: str


@dataclass(frozen=True, slots=True)
class Ranked(Generic[Hit]):
    """Hits in their order: those that may be true, and the nearest of the others."""

    likely: Sequence[Hit] = ()
    nearest: Sequence[Hit] = ()

    @classmethod
    def of(cls, hits: Sequence[Hit]) -> Ranked[Hit]:
        """Divide hits by their verdicts. Without any probability, none is doubted."""
        if all(hit.probability is None for hit in hits):
            return cls(likely=hits)
        likely = [hit for hit in hits if _may_be(hit)]
        return cls(likely, [hit for hit in hits if not _may_be(hit)])

    @property
    def verdict(self) -> Verdict | None:
        """The verdict on the likeliest hit."""
        every = (hit.probability for hit in (*self.likely, *self.nearest))
        known = [one for one in every if one is not None]
        return verdict(max(known)) if known else None


def _may_be(hit: Likely) -> bool:
    says = isinstance(hit, ImageHit) and bool(hit.says)
    return says or may_be_true(hit.probability)


def images_of(hit: CaptionHit) -> list[int]:
    """Return the images of all captions that read like one, each once."""
    return list(dict.fromkeys([hit.image_id, *(same.image_id for same in hit.same)]))


def distinct(captions: Iterable[str]) -> list[str]:
    """Return captions without those that read the same as an earlier one."""
    first: dict[str, str] = {}
    for text in captions:
        first.setdefault(one_text(text), text)
    return list(first.values())


def proof_of(facts: SearchFacts, thing: str, stages: Stages) -> Proof:
    """Tell how thoroughly an answer was searched for and how long it took."""
    if not facts.searched:
        return Proof("proved", f"There are no {thing}s here to search")
    took = f"in {max(1, round(stages.seconds['total'] * 1000)):,} ms"
    things = f"the only {thing}" if facts.searched == 1 else f"all {facts.searched:,} {thing}s"
    if facts.plan == "text":
        return Proof("proved", f"Searched what is written about {things} {took}")
    if facts.mode == "exact":
        return Proof("proved", f"Compared {things} one by one {took}")
    if facts.certified:
        return Proof("proved", f"Checked {things} {took}")
    return Proof("likely", f"Searched {things} {took}; a good one may be missed")
