"""What pages show of the engine's answers: pictures, captions without repeats, and how sure."""

from __future__ import annotations

import base64
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Literal

from hasse.index.search.distinct import one_text
from hasse.models.evaluation.calibration import Calibration
from hasse.service.core.pictures import THUMBNAIL_MEDIA_TYPE
from hasse.service.core.stages import Stages
from hasse.service.page.query import PageQuery
from hasse.service.page.scale import Fit, Scale
from hasse.service.plural import count
from hasse.service.questions.answers import (
    CaptionHit,
    ImageHit,
    JointCaptionHit,
    JointImageHit,
    SearchFacts,
)
from hasse.service.schemas import ImageRecord


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

    @classmethod
    def stored(cls, record: ImageRecord, query: PageQuery, widest: int = 0) -> ShownPicture:
        """Return a picture of the collection: the file up to `widest` pixels, or its thumbnail."""
        people = tuple(one.caption for one in record.captions if one.written_by is None)
        written = tuple(one.caption for one in record.captions if one.written_by is not None)
        whole = record.width is not None and record.width <= widest
        return cls(
            url=record.image_url if whole else record.thumbnail_url,
            name=record.file_name,
            alt=next(iter(people + written), record.file_name),
            captions=people,
            written=written,
            paths=tuple(record.paths),
            file_url=record.image_url,
            link=query.image_url(record.image_id),
            image_id=record.image_id,
        )

    @classmethod
    def uploaded(cls, preview: bytes, name: str = "") -> ShownPicture:
        """Return an uploaded picture. It is part of the page, because it is not stored."""
        data = base64.b64encode(preview).decode("ascii")
        url = f"data:{THUMBNAIL_MEDIA_TYPE};base64,{data}"
        return cls(url, name or "your picture", f"Your picture {name}".strip())


@dataclass(frozen=True, slots=True)
class CaptionGroup:
    """Captions that read the same, and the images they were written for."""

    text: str
    fit: Fit
    image_ids: tuple[int, ...]
    by_model: bool


@dataclass(frozen=True, slots=True)
class Proof:
    """How sure an answer is: a class name, and a sentence."""

    kind: Literal["proved", "likely"]
    sentence: str


def group_captions(
    hits: Sequence[CaptionHit], scale: Scale, knows: Callable[[str], bool]
) -> list[CaptionGroup]:
    """Return hits with the images of all captions that read the same.

    `knows` tells whether the model knows any word of a caption: only then has it a fit.
    """
    groups = []
    for hit in hits:
        fit = scale.fit(hit.violation) if knows(hit.caption) else Fit.unknown(hit.violation)
        image_ids = dict.fromkeys([hit.image_id, *(same.image_id for same in hit.same)])
        by_model = hit.written_by is not None
        groups.append(CaptionGroup(hit.caption, fit, tuple(image_ids), by_model))
    return groups


def distinct(captions: Iterable[str]) -> list[str]:
    """Return captions without those that read the same as an earlier one."""
    first: dict[str, str] = {}
    for text in captions:
        first.setdefault(one_text(text), text)
    return list(first.values())


def no_match_notice(
    best: ImageHit | CaptionHit | None, calibrations: Sequence[Calibration | None], sentence: str
) -> str:
    """Return a notice if even the best hit is unlikely to be true, else "".

    There is a calibration for each part of the query; a part without one raises no doubt.
    """
    if best is None:
        return ""
    violations = [best.violation]
    if isinstance(best, JointImageHit | JointCaptionHit):
        violations = best.parts
    for violation, calibration in zip(violations, calibrations, strict=True):
        if calibration is not None and violation > calibration.threshold:
            return f"{sentence}. The nearest come first."
    return ""


def proof_of(facts: SearchFacts, shown: int, thing: str, stages: Stages) -> Proof:
    """Tell how sure an answer is and how long it took."""
    if not facts.searched:
        return Proof("proved", f"There are no {thing}s here to search")
    took = f"in {max(1, round(stages.seconds['total'] * 1000)):,} ms"
    best = f"The best {shown:,} of {count(facts.searched, thing)}"
    if facts.searched == 1:
        best = f"The only {thing}"
    elif facts.searched <= shown:
        best = f"All {count(facts.searched, thing)}, the best first"
    if facts.mode == "exact":
        return Proof("proved", f"{best}, every one compared, {took}")
    if facts.certified:
        return Proof("proved", f"{best}, proved exact, {took}")
    return Proof("likely", f"{best}, found {took}, likely but not proved")
