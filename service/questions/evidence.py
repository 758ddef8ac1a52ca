"""Which images is a caption true of, by their content and by their texts?

The steps are `read`, `find` (what is said: `TextMatches`; what is shown: `Shown`), `merge` and
`finish`. Each is a function from value to value.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import chain
from typing import NamedTuple, TypeAlias, TypeVar

from hasse.index.catalog.database import STATEMENTS
from hasse.index.catalog.selection import Selection
from hasse.index.catalog.text_search import TextMatches, match_texts
from hasse.index.search.query import RowCounts
from hasse.index.text.query import ResolvedTerm, Term, TextQuery, Texts, excerpts, fold, terms_in
from hasse.index.text.spelling import nearest
from hasse.index.types import ImageHitRow, Points
from hasse.service.core.encoding import check_query
from hasse.service.core.engine import Engine
from hasse.service.core.searching import SearchKey, image_hit_fields, violations_of
from hasse.service.errors import invalid
from hasse.service.questions.exclusions import excluded_points, without_excluded
from hasse.service.questions.pipeline import (
    AnswerBuilder,
    Fields,
    caption_probabilities,
    search_key,
)
from hasse.service.questions.requests import K_MAXIMUM, ImageQuery
from hasse.service.telemetry.stages import Stages
from hasse.service.verdict import is_hit, may_be_true

Result = TypeVar("Result")
Violations: TypeAlias = dict[int, float]  # by image id

_MIN_MATCHES = 40  # images to find by text, before the best of them by violation are chosen
_FUSION = 60  # constant of reciprocal rank fusion, as in the paper
_MOST_SUGGESTED = 4  # words: each is compared with all that the model knows


@dataclass(frozen=True, slots=True)
class Question:
    """A request as it was read.

    Attributes:
        key: the search by content, from the first hit on.
        by_content, by_text: what to search. By content only if the model knows the caption.
    """

    request: ImageQuery
    query: TextQuery
    key: SearchKey
    by_content: bool
    by_text: bool


@dataclass(frozen=True, slots=True)
class Shown:
    """What is shown: the images with the smallest violations of a caption.

    Attributes:
        best: their violations, the smallest first.
        others: violations of further images, whose texts match.
        points: points (N,) of the caption and of excluded texts that the model knows.
        may_show: excluded texts that images may show, by the id of the image.
        rows: catalog rows of the best, and of their other versions, by id.
        texts: texts of the best, if they were needed.
        facts: the fields of an answer besides its hits.
    """

    best: Violations
    others: Violations = field(default_factory=dict)
    points: Mapping[str, Points] = field(default_factory=dict)
    may_show: Mapping[int, list[str]] = field(default_factory=dict)
    rows: dict[int, ImageHitRow] = field(default_factory=dict)
    facts: Fields = field(default_factory=dict)
    texts: Texts = field(default_factory=dict)


class Hit(NamedTuple):
    """An image with its violation; `says` means that its texts match the query."""

    image_id: int
    violation: float | None
    says: bool


class Page(NamedTuple):
    """The hits of a page that still exist, with what an answer lists of them.

    Attributes:
        rows: catalog rows of hits and of their other versions, by id.
        versions: ids of other versions of each hit.
        texts: texts of all versions of each hit whose texts match.
        may_show: as in `Shown`.
    """

    hits: Sequence[Hit]
    rows: Mapping[int, ImageHitRow]
    versions: Mapping[int, Sequence[int]]
    texts: Texts
    may_show: Mapping[int, list[str]]


async def answer(engine: Engine, request: ImageQuery, stages: Stages) -> AnswerBuilder:
    """Return the images that show a caption or have its words in their texts, the best first."""
    question = read(engine, request)
    said, shown = await find(engine, question, stages)

    def load() -> Page:
        hits, judged = _merged(engine, question, said, shown)
        return _page(engine, question, hits[request.offset : question.key.query.k], judged)

    page = await _in_catalog(engine, question, load, stages)
    return lambda: finish(engine, question, said, shown, page)


async def answer_ids(engine: Engine, request: ImageQuery, stages: Stages) -> AnswerBuilder:
    """Return the ids of images that show a caption, may show it or have its words, best first.

    There are at most as many as in an answer. Without a calibration, the `k` best count.
    """
    longest = request.model_copy(update={"k": engine.settings.k_maximum, "offset": 0})
    question = read(engine, longest)
    said, shown = await find(engine, question, stages)
    merged = partial(_merged, engine, question, said, shown)
    hits, _ = await _in_catalog(engine, question, merged, stages)
    found = {hit.image_id: hit.violation for hit in hits}
    probabilities = await engine.in_catalog(
        partial(caption_probabilities, engine, question.query.caption, found)
    )
    best = request.k if engine.checkpoint.calibration.image is None else 0
    ids = [
        hit.image_id
        for at, (hit, probability) in enumerate(zip(hits, probabilities, strict=True))
        if is_hit(probability, says=hit.says) or at < best
    ]
    return lambda: {"image_ids": ids[: longest.k]}


def read(engine: Engine, request: ImageQuery) -> Question:
    """Read a request; raises ServiceError `invalid` if it has no words to search by."""
    words = engine.vocabulary
    query = TextQuery.read(request.caption, words.knows)
    caption, evidence = query.caption.strip(), request.evidence
    if not caption and (evidence == "shows" or not (query.phrases or query.excluded)):
        raise invalid("caption", "say what to look for, beside quoted texts and what to leave out")
    # "a girafe" is not searched by content: "a" alone is true of everything.
    content_words = [term.written for term in query.terms] if evidence == "any" else []
    known = bool(caption) and any(map(words.knows, content_words or [caption]))
    if caption and not known and (evidence == "shows" or not query.terms):
        check_query(query.caption, words, engine.settings)
    key = search_key(engine, "image", request, query=query)._replace(offset=0)
    return Question(request, query, key, known and evidence != "says", evidence != "shows")


async def find(
    engine: Engine, question: Question, stages: Stages
) -> tuple[TextMatches, Shown | None]:
    """Search by text and by content concurrently; if one fails, the other is cancelled."""
    if not question.by_text:
        return TextMatches(), await _find_shown(engine, question, stages)
    generation = engine.index.generation
    try:
        async with asyncio.TaskGroup() as group:
            shown_task = group.create_task(_find_shown(engine, question, stages))
            said_task = group.create_task(_find_said(engine, question, generation, stages))
    except ExceptionGroup as failed:
        raise failed.exceptions[0] from None
    said, shown = said_task.result(), shown_task.result()
    if shown is not None and (newer := shown.facts["generation"]) != generation:
        # Images changed meanwhile, but an answer is of one generation only.
        said = await _find_said(engine, question, newer, stages)
    return said, shown


def merge(
    said: TextMatches,
    shown: Shown | None,
    unlikely: Collection[int] = (),
    *,
    all_say: bool = False,
) -> list[Hit]:
    """Return the hits of both kinds, the best first.

    Images with all words come first, then images with all words that the model does not know, each
    by violation. The others are fused by rank (reciprocal rank fusion: Cormack, Clarke and
    Buettcher, SIGIR 2009): a hit at rank r of one kind of evidence gets 1 / (60 + r), and one of
    both kinds the sum. Texts that only resemble the words follow, before the images in `unlikely`,
    which do not show the caption. Images that may show what is left out are last. With a search by
    content, an image without a violation is no hit. `all_say` means that the search was restricted
    to images whose texts match.
    """
    best: Violations = {} if shown is None else shown.best
    violations: Violations = {} if shown is None else best | shown.others

    def by_violation(ids: Iterable[int]) -> list[int]:
        hits = [id_ for id_ in ids if shown is None or id_ in violations]
        return sorted(hits, key=lambda id_: violations.get(id_, 0.0))

    ahead = dict.fromkeys((*by_violation(said.all_words), *by_violation(said.unknown_words)))
    rest = _fused(*([id_ for id_ in ids if id_ not in ahead] for ids in (best, said.partial)))
    saying = {*said.all_words, *said.unknown_words, *said.partial, *said.resembling}
    last = {id_ for id_ in rest if id_ in unlikely and id_ not in said.partial}
    ids = (*ahead, *(id_ for id_ in rest if id_ not in last), *said.resembling, *rest)
    may_show: Collection[int] = () if shown is None else shown.may_show
    return [
        Hit(id_, violations.get(id_), all_say or id_ in saying)
        for id_ in sorted(dict.fromkeys(ids), key=may_show.__contains__)
        if shown is None or id_ in violations
    ]


def finish(
    engine: Engine, question: Question, said: TextMatches, shown: Shown | None, page: Page
) -> Fields:
    """Return the fields of the answer."""
    query, request = question.query, question.request
    violations = {hit.image_id: hit.violation for hit in page.hits}
    probabilities = caption_probabilities(engine, query.caption, violations)
    rows = [page.rows[hit.image_id] for hit in page.hits]
    judged = zip(rows, violations.values(), probabilities, strict=True)
    hits = image_hit_fields(judged, engine.paths, request.offset, page.versions, page.rows)
    phrases = [ResolvedTerm(Term(text, text), text, "word", known=False) for text in query.phrases]
    terms = [*said.terms, *phrases]
    found = terms_in(page.texts, terms)
    for hit in hits:
        hit["says"] = excerpts(found.get(hit["image_id"], ()), terms)
        hit["may_show"] = page.may_show.get(hit["image_id"], [])
    unknown = engine.vocabulary.unknown_words(query.caption)
    if unknown:
        said_words = f" {' '.join(term.text for term in said.terms if not term.only_resembles)} "
        unknown = [word for word in unknown if f" {fold(word)} " not in said_words]
    return {
        "hits": hits,
        **(_text_facts(engine, request) if shown is None else shown.facts),
        "unknown_words": unknown,
        "did_you_mean": _suggestion(engine, question, said, unknown),
    }


def _suggestion(
    engine: Engine, question: Question, said: TextMatches, unknown: Sequence[str]
) -> str | None:
    """Return the query with near words of texts or of the model for unknown ones, or None."""
    corrected = {term.term.folded: term.text for term in said.terms if term.is_corrected}
    for word in unknown[:_MOST_SUGGESTED]:
        if fold(word) not in corrected and (near := nearest(word, engine.vocabulary.words)):
            corrected[fold(word)] = near
    if not corrected:
        return None
    asked = question.request.caption
    written = asked
    for word in question.query.caption.split():
        if (new := corrected.get(fold(word))) is not None:
            whole_word = rf"(?<!\S){re.escape(word)}(?!\S)"
            written = re.sub(whole_word, re.sub(r"\w.*\w", new, word), written, count=1)
    return None if written == asked else written


async def _find_shown(engine: Engine, question: Question, stages: Stages) -> Shown | None:
    """Search by content, without hits that show excluded things."""
    if not question.by_content:
        return None
    query, key, depth = question.query, question.key, question.key.query.k
    points = {query.caption: await engine.encoder.encode(query.caption, stages)}
    if query.excluded:
        points |= await excluded_points(engine, query, stages)
    may_show: Mapping[int, list[str]] = {}
    while True:
        (result,) = await engine.searcher.search(key, points[query.caption][None], stages)
        if not query.excluded:
            break
        ids, k = result.ranking.ids.tolist(), key.query.k
        judge = partial(without_excluded, engine, query, points, ids)
        allowed, may_show = await engine.in_catalog(judge)
        if len(allowed) - len(may_show) >= depth or len(ids) < k or k >= K_MAXIMUM:
            first = sorted(allowed, key=may_show.__contains__)
            result = result.only(first[:depth])
            break
        key = key._replace(query=replace(key.query, k=min(2 * k, K_MAXIMUM)))
    facts = result.facts(engine.checkpoint.name)
    return Shown(result.violations, {}, points, may_show, result.images, facts)


async def _find_rest(engine: Engine, question: Question, stages: Stages) -> TextMatches:
    """Find all images but those that show or say what is left out, the newest first."""
    query, key, index = question.query, question.key.query, engine.index
    points = await excluded_points(engine, query, stages)

    def find_all() -> TextMatches:
        selected = key.selection or Selection()
        with index.catalog.searching() as connection:
            ids = selected.newest(connection, index.folder, K_MAXIMUM)
        allowed, may_show = without_excluded(engine, query, points, ids)
        rest = TextMatches(partial=tuple(sorted(allowed, key=may_show.__contains__)))
        return rest.merge_versions(partial(index.versions, key))

    return await _in_catalog(engine, question, find_all, stages)


async def _find_said(
    engine: Engine, question: Question, generation: int, stages: Stages
) -> TextMatches:
    """Search by text."""
    if not question.query.terms:
        return await _find_rest(engine, question, stages)
    key, index = question.key.query, engine.index
    limit = max(key.k, _MIN_MATCHES)
    counts = engine.text_counts.of(generation, engine.info.images)
    knows = engine.vocabulary.knows

    def match() -> TextMatches:
        with index.catalog.searching() as connection:
            selection = key.selection
            conditions = selection.conditions(connection, index.folder) if selection else ()
            matches = match_texts(connection, question.query, knows, limit, counts, conditions)
        return matches.merge_versions(partial(index.versions, key))

    return await _in_catalog(engine, question, match, stages)


async def _in_catalog(
    engine: Engine, question: Question, look_up: Callable[[], Result], stages: Stages
) -> Result:
    """Call `look_up`, in a thread of the catalog if it reads texts."""

    def counted() -> Result:
        sent = STATEMENTS.sent
        try:
            return look_up()
        finally:
            stages.statements += STATEMENTS.sent - sent

    if not question.by_text:
        return counted()
    with stages.measure("text"):
        return await engine.in_catalog(counted)


def _merged(
    engine: Engine, question: Question, said: TextMatches, shown: Shown | None
) -> tuple[list[Hit], Shown | None]:
    """Merge both kinds, after adding to each what only the other has found."""
    if not question.query.terms and shown is None:
        return [Hit(id_, None, says=False) for id_ in said.partial], None
    unlikely: Collection[int] = ()
    if shown is not None and question.by_text:
        if len(said.all_words) >= max(question.key.query.k, _MIN_MATCHES):  # there may be more
            best = {id_: shown.rows[id_] for id_ in shown.best if id_ in shown.rows}
            shown = replace(shown, texts=engine.index.catalog.hit_texts(best))
            further = _with_all_words(shown.texts, said.terms)
            said = replace(said, all_words=(*said.all_words, *further))
        others, may_show = _violations_of_matches(engine, question, said, shown)
        shown = replace(shown, others=others, may_show={**shown.may_show, **may_show})
        if said.resembling:
            judged = caption_probabilities(engine, question.query.caption, shown.best)
            unlikely = {
                id_
                for id_, probability in zip(shown.best, judged, strict=True)
                if not may_be_true(probability)
            }
    return merge(said, shown, unlikely, all_say=bool(question.query.phrases)), shown


def _with_all_words(texts: Texts, terms: Sequence[ResolvedTerm]) -> list[int]:
    """Return the images whose human texts have all terms."""
    human = {
        id_: [text for text in of_image if text.source != "written caption"]
        for id_, of_image in texts.items()
    }
    return [
        id_
        for id_, pairs in terms_in(human, terms).items()
        if len({at for _, found in pairs for at in found}) == len(terms)
    ]


def _violations_of_matches(
    engine: Engine, question: Question, said: TextMatches, shown: Shown
) -> tuple[Violations, dict[int, list[str]]]:
    """Return the violations of images that only the text search found and that may be hits.

    The second value has the excluded texts that they may show.
    """
    ids = (*said.all_words, *said.unknown_words, *said.partial, *said.resembling)
    others = [id_ for id_ in ids if id_ not in shown.best]
    allowed: Sequence[int] = others
    may_show: dict[int, list[str]] = {}
    if question.query.excluded:
        allowed, may_show = without_excluded(engine, question.query, shown.points, others)
    violations = violations_of(engine.index, allowed, shown.points[question.query.caption])
    limit = question.key.query.limit
    return {id_: one for id_, one in violations.items() if one <= limit}, may_show


def _page(engine: Engine, question: Question, hits: Sequence[Hit], shown: Shown | None) -> Page:
    """Load the rows of hits, and the texts of those whose texts match."""
    ids, catalog = [hit.image_id for hit in hits], engine.index.catalog
    all_versions = engine.index.versions(question.key.query, ids)
    versions = {hit: others for hit, (_, *others) in all_versions.items()}
    rows = {} if shown is None else shown.rows
    may_show = {} if shown is None else shown.may_show
    if not question.by_text:
        hits = [hit for hit in hits if hit.image_id in rows]
        return Page(hits, rows, versions, {}, may_show)
    missing = [id_ for id_ in chain(ids, *versions.values()) if id_ not in rows]
    if missing:
        rows = rows | catalog.image_hits(missing)[0]
    hits = [hit for hit in hits if hit.image_id in rows]
    saying = [hit.image_id for hit in hits if hit.says]
    files = {hit: (hit, *versions.get(hit, ())) for hit in saying}
    texts = {} if shown is None else dict(shown.texts)
    unread = {id_: rows[id_] for id_ in chain(*files.values()) if id_ in rows and id_ not in texts}
    if unread:
        texts |= catalog.hit_texts(unread)
    of_hits = {hit: [*chain(*(texts.get(id_, ()) for id_ in ids))] for hit, ids in files.items()}
    return Page(hits, rows, versions, of_hits, may_show)


def _text_facts(engine: Engine, request: ImageQuery) -> Fields:
    """Return the facts of an answer by text alone, which needs no proof."""
    return {
        "mode": request.mode,
        "certified": True,
        "searched": engine.info.images,
        "rescored": 0,
        "plan": "text",
        "work": dict.fromkeys(RowCounts._fields, 0),
        "model": engine.checkpoint.name,
        "generation": engine.index.generation,
    }


def _fused(*rankings: Sequence[int]) -> list[int]:
    """Fuse rankings by reciprocal rank; ties in order of the rankings."""
    scores: dict[int, float] = {}
    for ranking in rankings:
        for rank, id_ in enumerate(ranking, 1):
            scores[id_] = scores.get(id_, 0.0) + 1 / (_FUSION + rank)
    return sorted(scores, key=lambda id_: -scores[id_])
