"""Prepares answers for pages: pictures, hits by verdict, and how sure an answer is."""

from __future__ import annotations

import base64
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Generic, Literal, Protocol, TypeVar

from hasse.index.search.distinct import one_text
from hasse.service.addresses import preview_url
from hasse.service.core.metadata import PictureDetails
from hasse.service.core.previews import MEDIA_TYPES
from hasse.service.page.query import PageQuery
from hasse.service.questions.answers import CaptionHit, ImageHit, SearchFacts
from hasse.service.schemas import ImageRecord
from hasse.service.telemetry.stages import Stages
from hasse.service.verdict import NOTHING_SHOWS, Verdict, is_hit, verdict


class HasProbability(Protocol):
    """A hit with a probability."""

    @property
    def probability(self) -> float | None:
        """The probability that the hit is true; None from a model without calibration."""


Hit = TypeVar("Hit", bound=HasProbability)

# Headings of hits, by the verdict on the best of them; None without probabilities.
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
    """A picture beside an answer. Only a stored one has captions, paths and an id."""

    url: str
    name: str
    alt: str
    captions: tuple[str, ...] = ()  # human
    written_captions: tuple[str, ...] = ()  # by a model, stored
    paths: tuple[str, ...] = ()
    file_url: str = ""
    link: str = ""
    image_id: int | None = None
    pixels: tuple[int | None, int | None] = (None, None)  # width and height
    details: PictureDetails = field(default_factory=PictureDetails)  # from the file

    @classmethod
    def stored(
        cls, record: ImageRecord, query: PageQuery, details: PictureDetails | None = None
    ) -> ShownPicture:
        """Return a picture of the collection."""
        rows = record.captions
        human = tuple(row.caption for row in rows if row.written_by is None)
        written = tuple(row.caption for row in rows if row.written_by is not None)
        return cls(
            url=preview_url(record.image_id, "medium"),
            name=record.file_name,
            alt=next(iter(human + written), record.file_name),
            captions=human,
            written_captions=written,
            paths=tuple(record.paths),
            file_url=record.image_url,
            link=query.image_url(record.image_id),
            image_id=record.image_id,
            pixels=(record.width, record.height),
            details=details or PictureDetails(),
        )

    @classmethod
    def uploaded(cls, preview: bytes, name: str = "") -> ShownPicture:
        """Return an uploaded picture. It is inlined in the page, because it is not stored."""
        data = base64.b64encode(preview).decode("ascii")
        url = f"data:{MEDIA_TYPES['thumbnail']};base64,{data}"
        return cls(url, name or "your picture", f"Your picture {name}".strip())


@dataclass(frozen=True, slots=True)
class Proof:
    """How sure an answer is: a CSS class and a sentence."""

    kind: Literal["proved", "likely"]
    sentence: str


@dataclass(frozen=True, slots=True)
class Ranked(Generic[Hit]):
    """Hits in two groups: those that may be true, and the nearest others."""

    likely: Sequence[Hit] = ()
    nearest: Sequence[Hit] = ()

    @classmethod
    def of(cls, hits: Sequence[Hit]) -> Ranked[Hit]:
        """Divide hits by their verdicts. Without probabilities, all count as likely."""
        if all(hit.probability is None for hit in hits):
            return cls(likely=hits)
        likely = [hit for hit in hits if _is_hit(hit)]
        return cls(likely, [hit for hit in hits if not _is_hit(hit)])

    @property
    def verdict(self) -> Verdict | None:
        """The verdict on the likeliest hit."""
        hits = (*self.likely, *self.nearest)
        probabilities = [hit.probability for hit in hits if hit.probability is not None]
        return verdict(max(probabilities)) if probabilities else None


def _is_hit(hit: HasProbability) -> bool:
    return is_hit(hit.probability, says=isinstance(hit, ImageHit) and bool(hit.says))


def images_of(hit: CaptionHit) -> list[int]:
    """Return the images of all captions with the same text as the hit, each once."""
    return list(dict.fromkeys([hit.image_id, *(same.image_id for same in hit.same)]))


def distinct(captions: Iterable[str]) -> list[str]:
    """Return captions without repetitions of an earlier one."""
    first: dict[str, str] = {}
    for text in captions:
        first.setdefault(one_text(text), text)
    return list(first.values())


def proof_of(facts: SearchFacts, thing: str, stages: Stages) -> Proof:
    """Return how thorough the search was, and how long it took."""
    if not facts.searched:
        return Proof("proved", f"There are no {thing}s here to search")
    duration = f"in {max(1, round(stages.seconds['total'] * 1000)):,} ms"
    things = f"the only {thing}" if facts.searched == 1 else f"all {facts.searched:,} {thing}s"
    if facts.plan == "text":
        return Proof("proved", f"Searched what is written about {things} {duration}")
    if facts.mode == "exact":
        return Proof("proved", f"Compared {things} one by one {duration}")
    if facts.certified:
        return Proof("proved", f"Checked {things} {duration}")
    return Proof("likely", f"Searched {things} {duration}; a good one may be missed")
