"""The page that puts things together: words, pictures of the collection, and brought ones."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from typing import TypeAlias

from fastapi import APIRouter, Request
from starlette.responses import Response

from models.evaluation.calibration import Calibration
from service.core import lattice
from service.core.engine import Engine
from service.core.stages import Stages
from service.errors import ServiceError, invalid
from service.http.multipart import FormField
from service.lattice_schemas import PARTS_MAXIMUM, CommonAnswer, Part
from service.page import views
from service.page.picture import Picture, brought, stored
from service.page.problems import Visit, require_known, trouble
from service.page.responses import STAY, Screen, respond
from service.page.scale import Scale
from service.page.views import Query, folding
from service.schemas import ImageAnswer, SearchOptions
from service.services import Services, ServicesHere
from service.settings import Settings

router = APIRouter(route_class=Visit)

Sent: TypeAlias = tuple[Sequence[FormField], list[tuple[str, str]]]

WAYS = {
    "all_of": "Pictures with all of it",
    "common": "What it all has in common",
    "like": "Pictures like one, with and without something",
}
_OFFERED = 12  # pictures of the collection to choose from
_FORGOTTEN = "Choose your pictures once more: Hasse reads the pictures that visitors bring and \
forgets them at once."


@dataclass(frozen=True, slots=True)
class Question:
    """What stands in the form; `ask` is empty before anything was asked."""

    ask: str = ""
    words: tuple[str, ...] = ()
    without: tuple[str, ...] = ()
    image_ids: tuple[int, ...] = ()
    find: str = ""
    is_finding: bool = False
    is_forgotten: bool = False

    @classmethod
    def read(cls, fields: Iterable[tuple[str, str]]) -> Question:
        """Read an address or a form.

        Raises:
            ServiceError: `not_found`, for what is no number of a picture; `invalid`, for more
                pictures than can be put together.
        """
        texts: dict[str, list[str]] = {}
        for name, text in fields:
            texts.setdefault(name, []).append(text)

        def one(name: str) -> str:
            return " ".join(texts.get(name, [""])[0].split())

        numbers = dict.fromkeys(texts.get("image", []))
        if len(numbers) > PARTS_MAXIMUM:
            raise _too_many()
        image_ids = [Query().about(number).image_id for number in numbers]
        return cls(
            ask=one("ask") if one("ask") in WAYS else "",
            words=_lines(texts.get("words", [])),
            without=_lines(texts.get("without", [])),
            image_ids=tuple(dict.fromkeys(found for found in image_ids if found is not None)),
            find=one("find"),
            is_finding=one("do") == "find",
            is_forgotten=bool(one("forgotten")),
        )

    def url(self, query: Query, brought_ones: int) -> str:
        """Return the address that asks this again, as far as an address can."""
        return query.of_together(
            self.ask, self.words, self.without, self.image_ids, forgotten=brought_ones > 0
        )

    def check(self, pictures: int) -> None:
        """Raise ServiceError `invalid` where something is missing, or too much."""
        if not pictures and not self.words:
            raise invalid("words", "name something first: some words, or a picture")
        if pictures + max(len(self.words), len(self.without)) > PARTS_MAXIMUM:
            raise _too_many()
        if self.ask == "like" and pictures != 1:
            raise invalid("pictures", "choose one picture, the one that the others shall be like")
        if self.ask == "like" and not self.words:
            taken = "what takes the place of what you take out" if self.without else "what to add"
            raise invalid("words", f"say {taken}, in words")


@dataclass(frozen=True, slots=True)
class Offer:
    """A picture of the collection that can be ticked."""

    picture: Picture
    is_ticked: bool


@dataclass(frozen=True, slots=True)
class Found:
    """An answer: the pictures it is about, and what was found."""

    about: list[Picture]
    cards: list[views.Card]
    lines: list[views.Line]
    verdict: views.Verdict
    doubt: str
    unknown_words: list[str]
    timing: str


@router.get("/page/together")
async def together(request: Request, services: ServicesHere) -> Response:
    """Answer a question about words and pictures of the collection, or show the form for one."""

    async def sent() -> Sent:
        return [], request.query_params.multi_items()

    return await _shown(request, services, sent)


@router.post("/page/together")
async def together_with_pictures(request: Request, services: ServicesHere) -> Response:
    """Answer a question about words, pictures of the collection and pictures that are brought."""

    async def sent() -> Sent:
        form = await services.bodies.form(request)
        # Browsers send a field without a file as an empty file.
        return [file for file in form.files if file.content], form.texts

    return await _shown(request, services, sent)


async def _shown(
    request: Request,
    services: Services,
    sent: Callable[[], Awaitable[Sent]],
) -> Response:
    query, question = Query(), Question()
    offers: list[Offer] = []
    found, fault, error = None, "", None
    url = STAY
    try:
        engine = services.engine
        brought_ones, texts = await sent()
        query = Query.read(dict(texts), services.settings)
        question = Question.read(texts)
        url = question.url(query, len(brought_ones))
        offers = await _offers(engine, question, query)
        if question.is_forgotten:
            fault = _FORGOTTEN
        elif question.ask and not question.is_finding:
            scale = (await services.samples.of(engine)).scale
            ticked = [offer.picture for offer in offers]
            found = await _found(engine, query, question, brought_ones, ticked, scale)
    except ServiceError as raised:
        error = raised
        request.scope["hasse.reason"] = error.reason
        fault = _sentence(error, query, services.settings)
    screen = Screen(
        "together.html",
        title="Put things together · Hasse",
        spoken=fault or (f"{found.verdict.sentence}. {found.doubt}" if found else ""),
        context={
            "question": question,
            "ways": WAYS,
            "offers": offers,
            "found": found,
            "fault": fault,
        },
        url=STAY if question.is_finding else url,
        status=error.kind.status if error else 200,
        timing=found.timing if found else None,
        retry_after=error.retry_after if error else None,
    )
    return respond(request, query, screen)


async def _offers(engine: Engine, question: Question, query: Query) -> list[Offer]:
    """Return the pictures that are ticked and, where some are looked for, more to tick."""
    ticked = []
    for image_id in question.image_ids:
        record = await engine.image(image_id)
        ticked.append(Offer(stored(record, replace(query, image_id=image_id)), is_ticked=True))
    if not (question.find and question.is_finding):
        return ticked
    options = SearchOptions(k=_OFFERED + len(ticked))
    answer = await engine.images_by_caption(question.find, options, stages=Stages())
    require_known(engine, [question.find])
    more = [
        Offer(
            Picture(
                url=hit.thumbnail_url,
                name=hit.file_name,
                alt=hit.captions[0] if hit.captions else hit.file_name,
                image_id=hit.image_id,
            ),
            is_ticked=False,
        )
        for hit in answer.hits
        if hit.image_id not in question.image_ids
    ]
    return [*ticked, *more[:_OFFERED]]


async def _found(
    engine: Engine,
    query: Query,
    question: Question,
    brought_ones: Sequence[FormField],
    ticked: Sequence[Picture],
    scale: Scale,
) -> Found:
    stages = Stages()
    question.check(len(brought_ones) + len(ticked))
    about = [*[await _preview(engine, one) for one in brought_ones], *ticked]
    pictures: list[Part] = [*[one.content for one in brought_ones], *question.image_ids]
    options = SearchOptions(k=query.k, mode=query.mode)
    known, vocabulary = engine.calibration, engine.vocabulary
    cards: list[views.Card] = []
    lines: list[views.Line] = []
    each: list[Calibration | None]
    doubt, thing = "", "picture"
    answer: ImageAnswer | CommonAnswer
    if question.ask == "like":
        answer = await lattice.like(
            engine, pictures[0], question.words, question.without, options, stages
        )
        cards = views.cards(answer, query, scale)
    elif question.ask == "common":
        thing = "caption"
        options = folding(query, engine.settings)
        answer = await lattice.common(engine, [*pictures, *question.words], options, stages)
        lines = views.lines(answer, query, scale, vocabulary.knows)
        each = [*[known.image] * len(pictures), *[known.caption] * len(question.words)]
        doubt = views.doubt(
            answer, each, "No caption here is likely to be true of it all", vocabulary.knows
        )
    else:
        answer = await lattice.all_of(engine, [*pictures, *question.words], options, stages)
        cards = views.cards(answer, query, scale)
        each = [*[None] * len(pictures), *[known.image] * len(question.words)]
        doubt = views.doubt(
            answer, each, "It is not likely that any picture here has it all", vocabulary.knows
        )
    require_known(engine, [*question.words, *question.without])
    return Found(
        about=about,
        cards=cards,
        lines=lines,
        verdict=views.verdict(answer, len(cards) + len(lines), thing, stages),
        doubt=doubt,
        unknown_words=answer.unknown_words,
        timing=stages.header(),
    )


async def _preview(engine: Engine, one: FormField) -> Picture:
    try:
        shown = brought(await engine.preview(one.content))
    except ServiceError as error:
        # Of several pictures, the visitor must hear which.
        errors = [("pictures", one.file_name)]
        raise ServiceError(error.reason, error.detail, errors=errors) from None
    return replace(shown, name=one.file_name, alt=f"Your picture {one.file_name}".strip())


def _sentence(error: ServiceError, query: Query, settings: Settings) -> str:
    found = trouble(error, query, settings)
    named = "".join(f"{name}: " for field, name in error.errors if field == "pictures" and name)
    if error.reason == "invalid":
        return found.detail
    return f"{named}{found.title}. {found.detail}"


def _too_many() -> ServiceError:
    return invalid("words", f"at most {PARTS_MAXIMUM} things can be put together")


def _lines(texts: Iterable[str]) -> tuple[str, ...]:
    found = (" ".join(line.split()) for text in texts for line in text.splitlines())
    return tuple(dict.fromkeys(line for line in found if line))
