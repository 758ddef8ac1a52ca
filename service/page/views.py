"""What the templates show: answers of the engine, put into words, bars and links."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import islice
from typing import get_args
from urllib.parse import urlencode

from models.evaluation.calibration import Calibration
from service.core.stages import Stages
from service.errors import ServiceError
from service.lattice_schemas import JointCaptionHit, JointImageHit
from service.page.scale import Fit, Scale
from service.plural import count
from service.schemas import (
    THUMBNAIL_URL,
    CaptionAnswer,
    CaptionHit,
    ImageAnswer,
    Mode,
    SearchFacts,
    SearchOptions,
    image_id_of,
)
from service.settings import Settings

SIZES = (12, 24, 48, 96)
DEFAULT_SIZE = 24
DEFAULT_MODE: Mode = "certified"

# Captions are written for many pictures, so that a list without repeats needs more hits.
FOLDING = 8
# The first pictures of an answer, of which one can ask what they share.
COMPARED = 3
SHOWN_PER_CAPTION = 3


@dataclass(frozen=True, slots=True)
class Query:
    """What the address asks for; addresses leave out what is usual."""

    text: str = ""
    image_id: int | None = None
    k: int = DEFAULT_SIZE
    mode: Mode = DEFAULT_MODE

    @classmethod
    def read(cls, said: Mapping[str, str], settings: Settings) -> Query:
        """Read an address or a form kindly: options that make no sense are the usual ones."""
        k, mode = said.get("k", ""), said.get("mode", "")
        size = int(k) if k.isascii() and k.isdigit() and len(k) < 10 else DEFAULT_SIZE
        return cls(
            text=" ".join(said.get("q", "").split()),
            k=min(max(1, size), settings.k_maximum),
            mode=next((known for known in get_args(Mode) if known == mode), DEFAULT_MODE),
        )

    def about(self, image: str) -> Query:
        """Return this query about a stored image, unless there are words, which win.

        Raises:
            ServiceError: `not_found`, when `image` is not what an image's number looks like.
        """
        if self.text or not image.strip():
            return self
        image_id = image_id_of(image)
        if image_id is None:
            raise ServiceError("not_found", "there is no such image")
        return replace(self, image_id=image_id)

    def url(self) -> str:
        """Return the address of this query."""
        return self._address("/", {})

    def picture_url(self, brought: str = "", hypothesis: str = "") -> str:
        """Return the address of an answer about a visitor's picture.

        `brought` tells it from the visitor's other pictures, so that each has its own place in the
        history; `hypothesis` is the caption that a verdict is on.
        """
        parts = {"brought": brought, "hypothesis": hypothesis}
        return self._address(
            "/page/picture", {name: [said] for name, said in parts.items() if said}
        )

    def of_text(self, text: str) -> str:
        """Return the address of the pictures a caption is true of, with the same options."""
        return replace(self, text=text, image_id=None).url()

    def of_image(self, image_id: int) -> str:
        """Return the address of the captions true of a stored image, with the same options."""
        return replace(self, text="", image_id=image_id).url()

    def of_order(self, text: str = "", image_id: int | None = None) -> str:
        """Return the address of the diagram of some words or of a stored image."""
        return replace(self, text=text, image_id=image_id)._address("/page/order", {})

    def of_together(
        self,
        ask: str = "",
        words: Sequence[str] = (),
        without: Sequence[str] = (),
        image_ids: Sequence[int] = (),
        *,
        forgotten: bool = False,
    ) -> str:
        """Return the address that puts things together, with the same options; asked or only said.

        `forgotten` says that there were pictures which an address cannot hold.
        """
        parts = {
            "ask": [ask] if ask else [],
            "words": words,
            "without": without,
            "image": [str(image_id) for image_id in image_ids],
            "forgotten": ["yes"] if forgotten else [],
        }
        return replace(self, text="", image_id=None)._address("/page/together", parts)

    def of_claim(self, hypothesis: str) -> str:
        """Return the address of the verdict on a caption of this stored image."""
        return self._address("/page/claim", {"hypothesis": [hypothesis]})

    def _address(self, path: str, parts: Mapping[str, Sequence[str]]) -> str:
        fields = [(name, text) for name, texts in parts.items() for text in texts]
        if self.text:
            fields.append(("q", self.text))
        elif self.image_id is not None:
            fields.append(("image", str(self.image_id)))
        if self.k != DEFAULT_SIZE:
            fields.append(("k", str(self.k)))
        if self.mode != DEFAULT_MODE:
            fields.append(("mode", self.mode))
        return f"{path}?{urlencode(fields)}" if fields else path


@dataclass(frozen=True, slots=True)
class Link:
    """Words that lead to what they are true of."""

    text: str
    url: str


@dataclass(frozen=True, slots=True)
class Thumbnail:
    """A small picture that leads to what is true of it."""

    url: str
    thumbnail_url: str
    alt: str


@dataclass(frozen=True, slots=True)
class Card:
    """A picture that a caption is more or less true of."""

    url: str
    thumbnail_url: str
    alt: str
    fit: Fit
    captions: tuple[Link, ...]


@dataclass(frozen=True, slots=True)
class Line:
    """A caption more or less true of a picture, and pictures it was written for."""

    text: str
    url: str
    fit: Fit
    images: tuple[Thumbnail, ...]
    count: int

    @property
    def more(self) -> int:
        """Count the pictures that are not shown."""
        return self.count - len(self.images)


@dataclass(frozen=True, slots=True)
class Verdict:
    """How sure an answer is: `proof` is a class name, `sentence` is for people."""

    proof: str
    sentence: str


def folding(query: Query, settings: Settings) -> SearchOptions:
    """Return the options that find enough captions to show `query.k` without repeats."""
    k = min(query.k * FOLDING, settings.k_maximum)
    return SearchOptions(k=k, mode=query.mode)


def doubt(
    answer: ImageAnswer | CaptionAnswer,
    known: Sequence[Calibration | None],
    told: str,
    knows: Callable[[str], bool],
) -> str:
    """Say that nothing found is likely to be true, where even the best is beyond a threshold.

    `known` is for each part of the question. Nothing is said where a model was not calibrated:
    nobody measured how much is too much. Captions of which it `knows` no word are passed over.
    """
    told_of = (hit for hit in answer.hits if not isinstance(hit, CaptionHit) or knows(hit.caption))
    for best in islice(told_of, 1):
        violations = [best.violation]
        if isinstance(best, JointImageHit | JointCaptionHit):
            violations = best.parts
        for violation, one in zip(violations, known, strict=True):
            if one is not None and violation > one.threshold:
                return f"{told}. The nearest come first."
    return ""


def verdict(facts: SearchFacts, shown: int, thing: str, stages: Stages) -> Verdict:
    """Say how sure an answer is and how long it took."""
    if not facts.searched:
        return Verdict("proved", f"There are no {thing}s here to search")
    took = f"in {max(1, round(stages.seconds['total'] * 1000)):,} ms"
    best = f"The best {shown:,} of {count(facts.searched, thing)}"
    if facts.searched == 1:
        best = f"The only {thing}"
    elif facts.searched <= shown:
        best = f"All {count(facts.searched, thing)}, the best first"
    if facts.mode == "exact":
        return Verdict("proved", f"{best}, every one compared, {took}")
    if facts.certified:
        return Verdict("proved", f"{best}, proved exact, {took}")
    return Verdict("likely", f"{best}, found {took}, likely but not proved")


def cards(answer: ImageAnswer, query: Query, scale: Scale) -> list[Card]:
    """Return the pictures of an answer, the best first."""
    return [
        Card(
            url=query.of_image(hit.image_id),
            thumbnail_url=hit.thumbnail_url,
            alt=hit.captions[0] if hit.captions else hit.file_name,
            fit=scale.fit(hit.violation),
            captions=links(hit.captions, query),
        )
        for hit in answer.hits
    ]


def lines(
    answer: CaptionAnswer, query: Query, scale: Scale, knows: Callable[[str], bool]
) -> list[Line]:
    """Return the captions of an answer, the best first, those that say the same only once.

    Nothing is said of how one fits of which the model `knows` no word.
    """
    folded: dict[str, list[int]] = {}
    for at, hit in enumerate(answer.hits):
        folded.setdefault(_gist(hit.caption), []).append(at)
    result = []
    for places in list(folded.values())[: query.k]:
        best = answer.hits[places[0]]
        image_ids = list(dict.fromkeys(answer.hits[at].image_id for at in places))
        result.append(
            Line(
                text=best.caption,
                url=query.of_text(best.caption),
                fit=scale.fit(best.violation)
                if knows(best.caption)
                else Fit(best.violation, 0, is_told=False),
                images=tuple(
                    thumbnail(image_id, best.caption, query)
                    for image_id in image_ids[:SHOWN_PER_CAPTION]
                ),
                count=len(image_ids),
            )
        )
    return result


def links(captions: Sequence[str], query: Query) -> tuple[Link, ...]:
    """Return captions as links, each said once."""
    once: dict[str, str] = {}
    for text in captions:
        once.setdefault(_gist(text), text)
    return tuple(Link(text, query.of_text(text)) for text in once.values())


def thumbnail(image_id: int, alt: str, query: Query) -> Thumbnail:
    """Return a stored image as a small picture that can be clicked."""
    return Thumbnail(query.of_image(image_id), THUMBNAIL_URL % image_id, alt)


def _gist(caption: str) -> str:
    """Return what makes two captions the same to a reader: no case, spacing or full stop."""
    return " ".join(caption.casefold().split()).rstrip(" .!")
