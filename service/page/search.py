"""The first page and its searches: pictures by words, and captions or pictures by a picture."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from fastapi import APIRouter, Request
from starlette.responses import Response

from hasse.models.vocabulary import words
from hasse.service.core import records
from hasse.service.core.engine import Engine
from hasse.service.errors import invalid
from hasse.service.http.services import ServicesHere
from hasse.service.page.add_image import EMPTY_FORM
from hasse.service.page.browse import browse, groups_of
from hasse.service.page.errors import PageRoute, is_draft
from hasse.service.page.query import PageQuery
from hasse.service.page.rendering import KEEP_URL, View, render
from hasse.service.page.results import (
    CAPTION_HEADINGS,
    IMAGE_HEADINGS,
    NEARLY_SAYING_HEADING,
    SAYING_HEADING,
    Ranked,
    ShownPicture,
    proof_of,
)
from hasse.service.page.searches import SIGN, find_saved
from hasse.service.plural import count
from hasse.service.questions import saved, table
from hasse.service.questions.answers import CaptionAnswer, ImageAnswer, ImageHit, WrittenCaption
from hasse.service.questions.handlers import ask
from hasse.service.questions.requests import (
    PARTS_MAXIMUM,
    AllOfQuery,
    CaptionQuery,
    DescribeQuery,
    ImageQuery,
    Likeness,
    SimilarQuery,
)
from hasse.service.telemetry.stages import Stages

router = APIRouter(route_class=PageRoute)

_SIMILAR = 12  # similar pictures on the page of a picture
KINDS: Mapping[Likeness, str] = {
    "alike": "Pictures like it",
    "more_specific": "Pictures that show more",
    "more_general": "Pictures that show less",
}


@router.get("/")
async def page(request: Request, services: ServicesHere, image: str = "") -> Response:
    """Show the pictures a caption is true of, a stored picture, or the first page."""
    query = PageQuery.read(request.query_params, services.settings).about(image)
    engine = services.engine
    if is_draft(request) and _is_unfinished(engine, request.query_params.get("q", "")):
        return Response(status_code=204)
    if query.text.startswith(SIGN):
        saved_search = await find_saved(engine, query.text[len(SIGN) :])
        view = await _images_view(engine, query, saved_search)
    elif query.text:
        view = await _images_view(engine, query)
    elif query.image_id is not None:
        shown = await _stored_picture(engine, query, query.image_id)
        view = await _picture_view(engine, query, query.image_id, shown)
    elif query.filters or query.is_sorted:
        view = await browse(engine, query)
    else:
        sample = await services.samples.of(engine)
        years = sample.overview.years
        # A folder with the name of a year would repeat the link to that year.
        dates = {year for year, _ in years}
        folders = [
            pair for pair in sample.overview.outermost if pair[0].split("/")[-2] not in dates
        ]
        numbers = {"outermost": folders, "years": years}
        names = {"search_names": services.samples.search_names}
        view = View("home.html", context={"sample": sample, **numbers, **names, **EMPTY_FORM})
    return await render(request, query, view)


@router.get("/page/facts")
async def facts(request: Request, services: ServicesHere, image: str = "") -> Response:
    """Show the details of a stored picture, beside it in the viewer."""
    query = PageQuery.read(request.query_params, services.settings).about(image)
    if query.image_id is None:
        raise invalid("image", "name a picture")
    shown = await _stored_picture(services.engine, query, query.image_id)
    return await render(
        request, query, View("facts.html", context={"picture": shown}, url=KEEP_URL)
    )


@router.get("/page/picture")
async def expired_upload(request: Request, services: ServicesHere) -> Response:
    """Explain that an uploaded picture is not stored, so its address cannot show it again."""
    view = View("expired_upload.html", announcement="That picture was not kept.", url=KEEP_URL)
    return await render(request, PageQuery.read(request.query_params, services.settings), view)


@router.post("/page/picture")
async def upload(request: Request, services: ServicesHere) -> Response:
    """Show an uploaded picture with the captions that are true of it, or pictures like it."""
    engine = services.engine
    form = await services.bodies.form(request)
    fields = request.state.fields = dict(form.texts)
    picture = form.picture().content
    query = PageQuery.read(fields, services.settings)
    shown = ShownPicture.uploaded(await engine.pictures.thumbnail_of_upload(picture))
    view = await _picture_view(engine, query, picture, shown)
    return await render(
        request, query, replace(view, url=query.upload_url(fields.get("upload", "")))
    )


def _is_unfinished(engine: Engine, typed: str) -> bool:
    """Return whether a text ends with an unknown word, or may be the beginning of a name."""
    if typed.lstrip().startswith(SIGN):
        return True
    if not typed[-1:].isalnum() or not (typed_words := words(typed)):
        return False
    return bool(engine.vocabulary.unknown_words(typed_words[-1]))


async def _stored_picture(engine: Engine, query: PageQuery, image_id: int) -> ShownPicture:
    """Return a stored picture with its details."""
    record = await records.image(engine, image_id)
    return ShownPicture.stored(record, query, await records.details(engine, record))


def _next_url(query: PageQuery, answer: ImageAnswer) -> str:
    """Return the address of the hits after those of an answer, or "" if there are none."""
    end = query.offset + len(answer.hits)
    if (
        not answer.hits
        or end >= answer.searched
        or (query.is_sorted and len(answer.hits) < query.k)
    ):
        return ""
    return query.page_url(end)


async def _images_view(
    engine: Engine, query: PageQuery, saved_search: saved.SavedSearchResult | None = None
) -> View:
    stages = Stages()
    parts = [part.strip() for part in query.text.split(" + ") if part.strip()]
    if len(parts) > PARTS_MAXIMUM:
        raise invalid("q", f"at most {PARTS_MAXIMUM} parts can be combined with +")
    answer: ImageAnswer
    if len(parts) > 1 and saved_search is None:
        all_of = AllOfQuery(all_of=[*parts], **query.image_options)
        answer = await ask(engine, table.SEARCH_ALL_OF, all_of, stages)
    else:
        if saved_search is None:
            options = {"evidence": query.evidence, **query.image_options}
            by_caption = ImageQuery(caption=query.text, **options)
        else:
            page = {name: getattr(query, name) for name in ("k", "offset", "mode", "sort")}
            by_caption = saved_search.request.model_copy(update=page)
        answer = await ask(engine, table.SEARCH_IMAGES, by_caption, stages)
    proof = proof_of(answer, "picture", stages)
    ranked = Ranked.of(answer.hits)
    heading = IMAGE_HEADINGS[ranked.verdict]
    if ranked.verdict in (None, "not") and any(hit.says for hit in ranked.likely):
        heading = NEARLY_SAYING_HEADING if answer.did_you_mean else SAYING_HEADING
    return View(
        "images.html",
        title=f"{query.text} · Hasse",
        announcement=f"{count(len(answer.hits), 'picture')}. {heading}. {proof.sentence}.",
        context={
            "ranked": ranked,
            "groups": groups_of(answer.hits, query.sort),
            "heading": heading,
            "more": _next_url(query, answer),
            "proof": proof,
            "parts": parts,
            "kept": saved_search,
            "searched": answer.searched,
            "by_text": answer.plan == "text",
            "unknown_words": answer.unknown_words,
            "suggestion": answer.did_you_mean,
        },
        stages=stages,
    )


async def _picture_view(
    engine: Engine, query: PageQuery, picture: bytes | int, shown: ShownPicture
) -> View:
    """Return the view of a picture with captions, or with pictures like it."""
    stages = Stages()
    written: Sequence[WrittenCaption] = ()
    if query.similar is None:
        if engine.captioner is not None and not shown.captions:
            # It has no human captions, which is always so for an upload.
            described = await ask(engine, table.DESCRIBE, DescribeQuery(image_id=picture))
            written = described.captions
        by_picture = CaptionQuery(image=picture, **query.options)
        captions = await ask(engine, table.SEARCH_CAPTIONS, by_picture, stages)
        alike = SimilarQuery(image=picture, **query.options | {"k": _SIMILAR})
        similar_pictures = await ask(engine, table.SEARCH_SIMILAR, alike)
        return _captions_view(shown, captions, written, similar_pictures.hits, stages)
    kind = query.similar
    similar = SimilarQuery(image=picture, similar=kind, **query.image_options)
    answer = await ask(engine, table.SEARCH_SIMILAR, similar, stages)
    proof = proof_of(answer, "picture", stages)
    return View(
        "similar.html",
        title=f"{KINDS[kind]} · {shown.name} · Hasse",
        announcement=f"{count(len(answer.hits), 'picture')}. {proof.sentence}.",
        context={
            "picture": shown,
            "kinds": KINDS,
            "kind": kind,
            "ranked": Ranked.of(answer.hits),
            "groups": groups_of(answer.hits, query.sort),
            "more": _next_url(query, answer) if picture is query.image_id else "",
            "proof": proof,
        },
        stages=stages,
    )


def _captions_view(
    shown: ShownPicture,
    answer: CaptionAnswer,
    written: Sequence[WrittenCaption],
    similar: Sequence[ImageHit],
    stages: Stages,
) -> View:
    proof = proof_of(answer, "caption", stages)
    ranked = Ranked.of(answer.hits)
    heading = CAPTION_HEADINGS[ranked.verdict]
    return View(
        "captions.html",
        title=f"True of {shown.name} · Hasse",
        announcement=f"{count(len(answer.hits), 'caption')}. {heading}. {proof.sentence}.",
        context={
            "picture": shown,
            "kinds": KINDS,
            "kind": None,
            "ranked": ranked,
            "heading": heading,
            "proof": proof,
            "similar": similar,
            "written": written,
        },
        stages=stages,
    )
