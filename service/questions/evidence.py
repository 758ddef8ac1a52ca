"""Which images is a caption true of, by their content and by their texts?

The steps are `read`, `find` (what is said: `TextMatches`; what is shown: `Shown`), `merge` and
`finish`. Each is a function from value to value.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import chain
from typing import NamedTuple, TypeAlias, TypeVar

from hasse.index.catalog.text_search import ResolvedTerm, TextMatches, find_terms, match_texts
from hasse.index.search.query import RowCounts
from hasse.index.text.query import Term, TextQuery, fold
from hasse.index.types import ImageHitRow, Points, SourcedText
from hasse.service.core.encoding import check_query
from hasse.service.core.engine import Engine
from hasse.service.core.searching import SearchKey, image_hit_fields, shortest_decimal
from hasse.service.errors import invalid
from hasse.service.questions.pipeline import (
    AnswerBuilder,
    Fields,
    caption_probabilities,
    search_key,
)
from hasse.service.questions.requests import K_MAXIMUM, ImageQuery
from hasse.service.telemetry.stages import Stages
from hasse.service.verdict import is_hit, is_true

Result = TypeVar("Result")
Texts: TypeAlias = Mapping[int, Sequence[SourcedText]]  # by image id
Violations: TypeAlias = dict[int, float]  # by image id
# Texts of an image, each with the positions of the terms that it contains.
Matched: TypeAlias = Sequence[tuple[SourcedText, set[int]]]

_MIN_MATCHES = 40  # images to find by text, before the best of them by violation are chosen
_FUSION = 60  # constant of reciprocal rank fusion, as in the paper
_SNIPPET = 160  # characters
_MAX_TEXTS = 3  # texts that a hit lists


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
        rows: catalog rows of the best, and of their other versions, by id.
        texts: texts of the best, if they were needed.
        facts: the fields of an answer besides its hits.
    """

    best: Violations
    others: Violations = field(default_factory=dict)
    points: Mapping[str, Points] = field(default_factory=dict)
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
    """

    hits: Sequence[Hit]
    rows: Mapping[int, ImageHitRow]
    versions: Mapping[int, Sequence[int]]
    texts: Texts


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
    violations = [hit.violation for hit in hits]
    probabilities = caption_probabilities(engine, question.query.caption, violations)
    best = request.k if engine.checkpoint.calibration.image is None else 0
    ids = [
        hit.image_id
        for at, (hit, probability) in enumerate(zip(hits, probabilities, strict=True))
        if is_hit(probability, says=hit.says) or at < best
    ]
    return lambda: {"image_ids": ids[: longest.k]}


def read(engine: Engine, request: ImageQuery) -> Question:
    """Read a request; raises ServiceError `invalid` if it has no words to search by."""
    query = TextQuery.read(request.caption)
    if not query.caption.strip():
        raise invalid("caption", "say what to look for, beside what to leave out")
    # "a girafe" is not searched by content: "a" alone is true of everything.
    content_words = [term.written for term in query.terms] if request.evidence == "any" else []
    known = any(map(engine.vocabulary.knows, content_words or [query.caption]))
    if not known and (request.evidence == "shows" or not query.terms):
        check_query(query.caption, engine.vocabulary, engine.settings)
    key = search_key(engine, "image", request, query=query)._replace(offset=0)
    evidence = request.evidence
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
    both kinds the sum. Texts that only resemble the words come before the images in `unlikely`,
    which do not show the caption, and after all others. With a search by content, an image without
    a violation is no hit. `all_say` means that the search was restricted to images whose texts
    match.
    """
    best: Violations = {} if shown is None else shown.best
    violations: Violations = {} if shown is None else best | shown.others

    def by_violation(ids: Iterable[int]) -> list[int]:
        hits = [id_ for id_ in ids if shown is None or id_ in violations]
        return sorted(hits, key=lambda id_: violations.get(id_, 0.0))

    ahead = dict.fromkeys((*by_violation(said.all_words), *by_violation(said.unknown_words)))
    rest = _fused(*([id_ for id_ in ids if id_ not in ahead] for ids in (best, said.partial)))
    saying = {*said.all_words, *said.unknown_words, *said.partial, *said.resembling}
    last = [id_ for id_ in rest if id_ in unlikely and id_ not in saying]
    others = [id_ for id_ in rest if id_ not in last and id_ not in said.resembling]
    return [
        Hit(id_, violations.get(id_), all_say or id_ in saying)
        for id_ in dict.fromkeys((*ahead, *others, *said.resembling, *last))
        if shown is None or id_ in violations
    ]


def finish(
    engine: Engine, question: Question, said: TextMatches, shown: Shown | None, page: Page
) -> Fields:
    """Return the fields of the answer."""
    query, request = question.query, question.request
    violations = [hit.violation for hit in page.hits]
    probabilities = caption_probabilities(engine, query.caption, violations)
    rows = [page.rows[hit.image_id] for hit in page.hits]
    judged = zip(rows, violations, probabilities, strict=True)
    hits = image_hit_fields(judged, engine.paths, request.offset, page.versions, page.rows)
    phrases = [ResolvedTerm(Term(text, text), text, "word", known=False) for text in query.phrases]
    terms = [*said.terms, *phrases]
    found = _terms_in(page.texts, terms)
    for hit in hits:
        hit["says"] = _says(found.get(hit["image_id"], ()), terms)
    corrections = [term for term in said.terms if term.is_corrected]
    corrected = {term.term.written: term.text for term in corrections}
    suggestion = " ".join(corrected.get(word, word) for word in query.caption.split())
    in_texts = {term.term.folded for term in said.terms if term not in corrections}
    unknown = engine.vocabulary.unknown_words(query.caption)
    return {
        "hits": hits,
        **(_text_facts(engine, request) if shown is None else shown.facts),
        "unknown_words": [word for word in unknown if fold(word) not in in_texts],
        "did_you_mean": suggestion if corrected else None,
    }


async def _find_shown(engine: Engine, question: Question, stages: Stages) -> Shown | None:
    """Search by content, without hits that show excluded things."""
    if not question.by_content:
        return None
    query, key, depth = question.query, question.key, question.key.query.k
    texts = (query.caption, *filter(engine.vocabulary.knows, query.excluded))
    points = {text: await engine.encoder.encode(text, stages) for text in texts}
    while True:
        (result,) = await engine.searcher.search(key, points[query.caption][None], stages)
        if not query.excluded:
            break
        ids, k = result.ranking.ids.tolist(), key.query.k
        allowed = await engine.in_catalog(partial(_without_excluded, engine, query, points, ids))
        if len(allowed) >= depth or len(ids) < k or k >= K_MAXIMUM:
            result = result.only(allowed[:depth])
            break
        key = key._replace(query=replace(key.query, k=min(2 * k, K_MAXIMUM)))
    facts = result.facts(engine.checkpoint.name)
    return Shown(result.violations, {}, points, result.images, facts)


async def _find_said(
    engine: Engine, question: Question, generation: int, stages: Stages
) -> TextMatches:
    """Search by text."""
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
    if not question.by_text:
        return look_up()
    with stages.measure("text"):
        return await engine.in_catalog(look_up)


def _merged(
    engine: Engine, question: Question, said: TextMatches, shown: Shown | None
) -> tuple[list[Hit], Shown | None]:
    """Merge both kinds, after adding to each what only the other has found."""
    if shown is not None and question.by_text:
        if len(said.all_words) >= max(question.key.query.k, _MIN_MATCHES):  # there may be more
            best = {id_: shown.rows[id_] for id_ in shown.best if id_ in shown.rows}
            shown = replace(shown, texts=engine.index.catalog.hit_texts(best))
            further = _with_all_words(shown.texts, said.terms)
            said = replace(said, all_words=(*said.all_words, *further))
        shown = replace(shown, others=_violations_of_matches(engine, question, said, shown))
    return merge(said, shown, all_say=bool(question.query.phrases)), shown


def _with_all_words(texts: Texts, terms: Sequence[ResolvedTerm]) -> list[int]:
    """Return the images whose human texts have all terms."""
    human = {
        id_: [text for text in of_image if text.source != "written caption"]
        for id_, of_image in texts.items()
    }
    return [
        id_
        for id_, pairs in _terms_in(human, terms).items()
        if len({at for _, found in pairs for at in found}) == len(terms)
    ]


def _violations_of_matches(
    engine: Engine, question: Question, said: TextMatches, shown: Shown
) -> Violations:
    """Return the violations of images that only the text search found and that may be hits."""
    ids = (*said.all_words, *said.unknown_words, *said.partial)
    others = [id_ for id_ in ids if id_ not in shown.best]
    allowed = _without_excluded(engine, question.query, shown.points, others)
    violations = _violations(engine, allowed, shown.points[question.query.caption])
    limit = question.key.query.limit
    return {id_: violation for id_, violation in violations.items() if violation <= limit}


def _without_excluded(
    engine: Engine, query: TextQuery, points: Mapping[str, Points], image_ids: Sequence[int]
) -> Sequence[int]:
    """Return the images that do not show excluded things, in their order."""
    showing: set[int] = set()
    for text in query.excluded:
        if text in points:
            violations = _violations(engine, image_ids, points[text])
            probabilities = caption_probabilities(engine, text, list(violations.values()))
            by_id = zip(violations, probabilities, strict=True)
            showing |= {id_ for id_, probability in by_id if is_true(probability)}
    return [id_ for id_ in image_ids if id_ not in showing] if showing else image_ids


def _violations(engine: Engine, image_ids: Sequence[int], point: Points) -> Violations:
    """Return the violations of stored images with the point of a text (N,)."""
    if not image_ids:
        return {}
    violations = engine.index.violations(image_ids, point)
    return {id_: shortest_decimal(violation) for id_, violation in violations.items()}


def _page(engine: Engine, question: Question, hits: Sequence[Hit], shown: Shown | None) -> Page:
    """Load the rows of hits, and the texts of those whose texts match."""
    ids, catalog = [hit.image_id for hit in hits], engine.index.catalog
    all_versions = engine.index.versions(question.key.query, ids)
    versions = {hit: others for hit, (_, *others) in all_versions.items()}
    rows = {} if shown is None else shown.rows
    if not question.by_text:
        return Page([hit for hit in hits if hit.image_id in rows], rows, versions, {})
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
    return Page(hits, rows, versions, of_hits)


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


def _terms_in(texts: Texts, terms: Sequence[ResolvedTerm]) -> dict[int, Matched]:
    """Return the texts of each image, each with the positions of the terms that it contains."""
    positions = iter(find_terms([text.text for of in texts.values() for text in of], terms))
    return {id_: [(text, next(positions)) for text in of_image] for id_, of_image in texts.items()}


def _says(matched: Matched, terms: Sequence[ResolvedTerm]) -> list[Fields]:
    """Return the texts with the terms: repeatedly the one with most of the missing terms."""
    missing, chosen = set(range(len(terms))), list[Fields]()
    while matched and missing and len(chosen) < _MAX_TEXTS:
        text, found = max(matched, key=lambda pair: len(missing & pair[1]))
        if not missing & found:
            break
        excerpt = _snippet(text.text, [terms[at] for at in sorted(missing)])
        chosen.append({"where": text.source, "text": excerpt})
        missing -= found
    return chosen


def _snippet(text: str, terms: Sequence[ResolvedTerm]) -> str:
    """Return the part of a text around the first word of one of the terms."""
    if len(text) <= _SNIPPET:
        return text
    at = next(_positions(text, terms), 0)
    start = max(0, at - _SNIPPET // 3)
    end = start + _SNIPPET
    return f"{'…' if start else ''}{text[start:end].strip()}{'…' if end < len(text) else ''}"


def _positions(text: str, terms: Sequence[ResolvedTerm]) -> Iterator[int]:
    """Yield the positions of words that contain the first word of a term."""
    at = 0
    for word in text.split(" "):
        folded = fold(word)
        if folded and any(term.text.split()[0] in folded for term in terms):
            yield at
        at += len(word) + 1
