"""The page that combines words, stored pictures and uploaded pictures in one search."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from fastapi import APIRouter, Request
from starlette.responses import Response

from hasse.service.core import records
from hasse.service.core.engine import Engine
from hasse.service.errors import ServiceError, invalid
from hasse.service.http.multipart import FormField
from hasse.service.http.services import ServicesHere
from hasse.service.page.errors import PageRoute, message_for
from hasse.service.page.query import PageQuery
from hasse.service.page.rendering import KEEP_URL, View, render
from hasse.service.page.results import (
    COMMON_HEADINGS,
    IMAGE_HEADINGS,
    Ranked,
    ShownPicture,
    proof_of,
)
from hasse.service.questions import table
from hasse.service.questions.answers import CaptionHit, CommonAnswer, ImageAnswer, ImageHit
from hasse.service.questions.handlers import ask
from hasse.service.questions.requests import (
    PARTS_MAXIMUM,
    AllOfQuery,
    CommonQuery,
    ImageQuery,
    LikeQuery,
    Part,
)
from hasse.service.settings import Settings
from hasse.service.telemetry.stages import Stages

router = APIRouter(route_class=PageRoute)

OPERATIONS = {
    "all_of": "Pictures with all of it",
    "common": "What it all has in common",
    "like": "More like these, and less like those",
}
SUGGESTIONS = 12  # stored pictures to choose from
_LOST_UPLOADS = (
    "Choose your pictures once more: Hasse forgets uploaded pictures as soon as it has answered."
)


@dataclass(frozen=True, slots=True)
class CombineForm:
    """The fields of the form; `operation` is empty before the first search."""

    operation: str = ""
    words: tuple[str, ...] = ()
    without: tuple[str, ...] = ()
    image_ids: tuple[int, ...] = ()
    weights: Mapping[int, int] = field(default_factory=dict)  # negative: less like the image
    find: str = ""
    is_finding: bool = False
    lost_uploads: bool = False

    @classmethod
    def read(cls, fields: Iterable[tuple[str, str]]) -> CombineForm:
        """Read an address or a form.

        Raises:
            ServiceError: `not_found`, for a text that cannot be the id of an image; `invalid`,
                for too many images.
        """
        texts: dict[str, list[str]] = {}
        for name, text in fields:
            texts.setdefault(name, []).append(text)

        def first_text(name: str) -> str:
            return " ".join(texts.get(name, [""])[0].split())

        weights: Counter[int] = Counter()
        for name, sign in (("image", 1), ("less", -1)):
            for image in texts.get(name, []):
                if (image_id := PageQuery().about(image).image_id) is not None:
                    weights[image_id] += sign
        if sum(map(abs, weights.values())) > PARTS_MAXIMUM:
            raise _too_many()
        return cls(
            operation=first_text("operation") if first_text("operation") in OPERATIONS else "",
            words=_lines(texts.get("words", [])),
            without=_lines(texts.get("without", [])),
            image_ids=tuple(image_id for image_id, weight in weights.items() if weight),
            weights=weights,
            find=first_text("find"),
            is_finding=first_text("do") == "find",
            lost_uploads=bool(first_text("lost_uploads")),
        )

    def check(self, pictures: int) -> None:
        """Raise ServiceError `invalid` for too few or too many parts."""
        if not pictures and not self.words:
            raise invalid("words", "name something first: some words, or a picture")
        if pictures + max(len(self.words), len(self.without)) > PARTS_MAXIMUM:
            raise _too_many()
        negative = sum(weight < 0 for weight in self.weights.values())
        if self.operation == "like" and pictures == negative:
            raise invalid("pictures", "choose a picture that the others should be like")

    def repeated_ids(self, sign: int) -> list[int]:
        """Return the ids of the images whose weight has this sign, repeated by their weight."""
        return [id_ for id_, weight in self.weights.items() for _ in range(sign * weight)]

    def with_weight_changed(self, image_id: int, by: int) -> dict[str, Sequence[int]]:
        """Return the ids with the weight of one image changed by 1 or -1, without stopping at 0."""
        weight = self.weights[image_id] + by
        changed = CombineForm(weights={**self.weights, image_id: weight or by})
        return {"image_ids": changed.repeated_ids(1), "less_ids": changed.repeated_ids(-1)}

    def without_image(self, image_id: int) -> dict[str, Sequence[int]]:
        """Return the ids of all images except one."""
        rest = CombineForm(weights={**self.weights, image_id: 0})
        return {"image_ids": rest.repeated_ids(1), "less_ids": rest.repeated_ids(-1)}


@router.api_route("/page/combine", methods=["GET", "POST"])
async def combine(request: Request, services: ServicesHere) -> Response:
    """Search by words and pictures, or show the form; only a POST can upload pictures."""
    query, form, stages = PageQuery(), CombineForm(), Stages()
    pictures: list[ShownPicture] = []
    result, notice, error, url = None, "", None, KEEP_URL
    engine = services.engine
    try:
        uploads, fields = [], request.query_params.multi_items()
        if request.method == "POST":
            body = await services.bodies.form(request)
            # Browsers send a field without a file as an empty file.
            uploads, fields = [file for file in body.files if file.content], body.texts
        query = PageQuery.read(dict(fields), services.settings)
        form = CombineForm.read(fields)
        if not form.is_finding:
            url = query.combine_url(
                form.operation,
                form.words,
                form.without,
                form.repeated_ids(1) if form.operation == "like" else form.image_ids,
                form.repeated_ids(-1) if form.operation == "like" else (),
                lost_uploads=bool(uploads),
            )
        pictures = [
            ShownPicture.stored(await records.image(engine, image_id), query)
            for image_id in form.image_ids
        ]
        if form.lost_uploads:
            notice = _LOST_UPLOADS
        elif form.operation and not form.is_finding:
            result = await _search(engine, query, form, uploads, pictures, stages)
        elif form.is_finding and form.find:
            pictures += await _suggestions(engine, form)
    except ServiceError as raised:
        error = raised
        notice = _sentence(error, services.settings)
    announcement = notice
    if result is not None:
        announcement = f"{result['heading']}. {result['proof'].sentence}."
    view = View(
        "combine.html",
        title="Combine pictures and words · Hasse",
        announcement=announcement,
        context={
            "form": form,
            "operations": OPERATIONS,
            "pictures": pictures,
            "result": result,
            "notice": notice,
        },
        url=url,
        stages=stages if result else None,
        error=error,
    )
    return await render(request, query, view)


async def _suggestions(engine: Engine, form: CombineForm) -> list[ShownPicture]:
    """Return stored pictures to choose from, without those already chosen."""
    request = ImageQuery(caption=form.find, k=SUGGESTIONS + len(form.image_ids))
    answer = await ask(engine, table.SEARCH_IMAGES, request)
    hits = [hit for hit in answer.hits if hit.image_id not in form.image_ids]
    return [
        ShownPicture(
            hit.thumbnail_url,
            hit.file_name,
            next(iter(hit.captions + hit.written_captions), hit.file_name),
            image_id=hit.image_id,
        )
        for hit in hits[:SUGGESTIONS]
    ]


async def _search(
    engine: Engine,
    query: PageQuery,
    form: CombineForm,
    uploads: Sequence[FormField],
    chosen: Sequence[ShownPicture],
    stages: Stages,
) -> dict[str, Any]:
    """Answer the search, and return the variables of the template."""
    form.check(len(uploads) + len(chosen))
    shown = [*[await _preview(engine, file) for file in uploads], *chosen]
    images: list[Part] = [*[file.content for file in uploads], *form.image_ids]
    parts: list[Part] = [*images, *form.words]
    ranked: Ranked[ImageHit] = Ranked()
    captions: Ranked[CaptionHit] = Ranked()
    heading = OPERATIONS[form.operation]
    answer: ImageAnswer | CommonAnswer
    if form.operation == "common":
        common = CommonQuery(common=parts, **query.options)
        answer = await ask(engine, table.SEARCH_COMMON, common, stages)
        captions = Ranked.of(answer.hits)
        heading = COMMON_HEADINGS[captions.verdict]
    elif form.operation == "like":
        plus: list[Part] = [*form.words]
        minus: list[Part] = [*form.without]
        liked: list[Part] = [*[file.content for file in uploads], *form.repeated_ids(1)]
        less: list[Part] = [*form.repeated_ids(-1)]
        first, *also = liked
        like = LikeQuery(like=first, also=also, less=less, plus=plus, minus=minus, **query.options)
        answer = await ask(engine, table.SEARCH_LIKE, like, stages)
        ranked = Ranked.of(answer.hits)
        heading = "Pictures like these" if len(images) > 1 else "Pictures like this"
    else:
        all_of = AllOfQuery(all_of=parts, **query.options)
        answer = await ask(engine, table.SEARCH_ALL_OF, all_of, stages)
        ranked = Ranked.of(answer.hits)
        if ranked.verdict is not None:
            heading = IMAGE_HEADINGS[ranked.verdict]
    thing = "caption" if form.operation == "common" else "picture"
    return {
        "heading": heading,
        "pictures": shown,
        "ranked": ranked,
        "captions": captions,
        "proof": proof_of(answer, thing, stages),
        "unknown_words": answer.unknown_words,
    }


async def _preview(engine: Engine, file: FormField) -> ShownPicture:
    try:
        preview = await engine.pictures.thumbnail_of_upload(file.content)
    except ServiceError as error:
        # Name the file, because several pictures may be uploaded.
        errors = [("pictures", file.file_name)]
        raise ServiceError(error.reason, error.detail, errors=errors) from None
    return ShownPicture.uploaded(preview, file.file_name)


def _sentence(error: ServiceError, settings: Settings) -> str:
    message = message_for(error, settings)
    if error.reason == "invalid":
        return message.detail
    file = "".join(f"{name}: " for field, name in error.errors if field == "pictures" and name)
    return f"{file}{message.title}. {message.detail}"


def _too_many() -> ServiceError:
    return invalid("words", f"at most {PARTS_MAXIMUM} things can be combined")


def _lines(texts: Iterable[str]) -> tuple[str, ...]:
    lines = (" ".join(line.split()) for text in texts for line in text.splitlines())
    return tuple(dict.fromkeys(line for line in lines if line))
