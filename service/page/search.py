"""The first page and its searches: pictures by words, and captions or pictures by a picture."""

from __future__ import annotations

from collections.abc import Mapping

from fastapi import APIRouter, Request
from starlette.responses import Response

from service.core import by_picture, lattice
from service.core.engine import Engine
from service.core.stages import Stages
from service.errors import invalid
from service.lattice_schemas import PARTS_MAXIMUM
from service.page.add_image import EMPTY_FORM
from service.page.errors import PageRoute
from service.page.query import PageQuery
from service.page.rendering import KEEP_URL, View, render
from service.page.results import ShownPicture, group_captions, no_match_notice, proof_of
from service.page.scale import Scale
from service.picture_schemas import Relation, SimilarOptions
from service.plural import count
from service.schemas import CaptionAnswer, ImageAnswer
from service.services import ServicesHere

router = APIRouter(route_class=PageRoute)

KINDS: Mapping[Relation, str] = {
    "alike": "Pictures like it",
    "more_specific": "Pictures that show more",
    "more_general": "Pictures that show less",
}
_WIDEST = 1600  # pixels; the page shows the thumbnail of a wider picture


@router.get("/")
async def page(request: Request, services: ServicesHere, image: str = "") -> Response:
    """Show the pictures a caption is true of, the captions of a picture, or the first page."""
    query = PageQuery.read(request.query_params, services.settings).about(image)
    engine = services.engine
    sample = await services.samples.of(engine)
    if query.text:
        view = await _images(engine, query, sample.scale)
    elif query.image_id is not None:
        stages = Stages()
        shown = ShownPicture.stored(await engine.image(query.image_id), query, _WIDEST)
        options = query.caption_options
        answer = await by_picture.captions(engine, query.image_id, options, stages)
        view = _captions(engine, query, shown, answer, sample.scale, stages, query.url())
    else:
        view = View("home.html", context={"sample": sample, **EMPTY_FORM})
    return render(request, query, view)


@router.get("/page/picture")
async def expired_upload(request: Request, services: ServicesHere) -> Response:
    """Explain why the address of an answer about an uploaded picture cannot show it again."""
    view = View("expired_upload.html", announcement="That picture was not kept.", url=KEEP_URL)
    return render(request, PageQuery.read(request.query_params, services.settings), view)


@router.post("/page/picture")
async def upload(request: Request, services: ServicesHere) -> Response:
    """Show the captions that are true of an uploaded picture."""
    engine, stages = services.engine, Stages()
    form = await services.bodies.form(request)
    fields = request.state.fields = dict(form.texts)
    picture = form.picture().content
    query = PageQuery.read(fields, services.settings)
    options = query.caption_options
    answer = await by_picture.captions(engine, picture, options, stages)
    shown = ShownPicture.uploaded(await engine.preview(picture))
    scale = (await services.samples.of(engine)).scale
    url = query.upload_url(fields.get("upload", ""))
    view = _captions(engine, query, shown, answer, scale, stages, url)
    return render(request, query, view)


@router.get("/page/similar")
async def similar(
    request: Request, *, services: ServicesHere, image: str = "", similar: str = ""
) -> Response:
    """Show the pictures that are like a stored one, more specific or more general."""
    engine, stages = services.engine, Stages()
    query = PageQuery.read(request.query_params, services.settings).about(image)
    if query.image_id is None:
        raise invalid("image", "name the picture that others should be like")
    kind: Relation = next((known for known in KINDS if known == similar), "alike")
    shown = ShownPicture.stored(await engine.image(query.image_id), query)
    options = SimilarOptions(**dict(query.options), similar=kind)
    answer = await by_picture.similar(engine, query.image_id, options, stages)
    proof = proof_of(answer, len(answer.hits), "picture", stages)
    view = View(
        "similar.html",
        title=f"{KINDS[kind]} · Hasse",
        announcement=f"{count(len(answer.hits), 'picture')}. {proof.sentence}.",
        context={
            "picture": shown,
            "kinds": KINDS,
            "similar": kind,
            "hits": answer.hits,
            "proof": proof,
        },
        url=query.similar_url(query.image_id, kind if kind != "alike" else ""),
        stages=stages,
    )
    return render(request, query, view)


async def _images(engine: Engine, query: PageQuery, scale: Scale) -> View:
    stages = Stages()
    parts = [part.strip() for part in query.text.split(" + ") if part.strip()]
    if len(parts) > PARTS_MAXIMUM:
        raise invalid("q", f"at most {PARTS_MAXIMUM} parts can be combined with +")
    answer: ImageAnswer
    if len(parts) > 1:
        answer = await lattice.all_of(engine, parts, query.options, stages)
    else:
        answer = await engine.images_by_caption(query.text, query.options, stages=stages)
    proof = proof_of(answer, len(answer.hits), "picture", stages)
    known = engine.calibration.image
    notice = no_match_notice(
        answer.hits[0] if answer.hits else None,
        [known and known.of(part) for part in parts],
        "This is not likely to be true of any picture here",
    )
    return View(
        "images.html",
        title=f"{query.text} · Hasse",
        announcement=f"{count(len(answer.hits), 'picture')}. {notice} {proof.sentence}.",
        context={
            "hits": answer.hits,
            "scale": scale,
            "proof": proof,
            "notice": notice,
            "parts": parts,
            "unknown_words": answer.unknown_words,
        },
        stages=stages,
    )


def _captions(
    engine: Engine,
    query: PageQuery,
    shown: ShownPicture,
    answer: CaptionAnswer,
    scale: Scale,
    stages: Stages,
    url: str,
) -> View:
    knows = engine.vocabulary.knows
    groups = group_captions(answer.hits, scale, knows)
    proof = proof_of(answer, len(groups), "caption", stages)
    known = engine.calibration.image
    best = next((hit for hit in answer.hits if knows(hit.caption)), None)
    notice = no_match_notice(
        best,
        [known.of(best.caption) if known and best else None],
        "No caption here is likely to be true of it",
    )
    return View(
        "captions.html",
        title=f"True of {shown.name} · Hasse",
        announcement=f"{count(len(groups), 'caption')}. {notice} {proof.sentence}.",
        context={"picture": shown, "groups": groups, "proof": proof, "notice": notice},
        url=url,
        stages=stages,
    )
