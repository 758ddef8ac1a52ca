"""Which images is a caption true of, by their content and by their texts?

The order judges the content, the text index finds words in the texts. Hits with all words come
first, then hits with all words that the model does not know, each by violation. The others are
fused by rank (reciprocal rank fusion: Cormack, Clarke and Buettcher, SIGIR 2009): a hit
at rank r of one kind of evidence gets 1 / (60 + r), and one of both kinds the sum.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import chain
from typing import TypeAlias, TypeVar

from hasse.index.catalog.text_search import ResolvedTerm, TextMatches, match_texts
from hasse.index.search.query import RowCounts
from hasse.index.text.query import Term, TextQuery, fold
from hasse.index.types import ImageHitRow, Points, SourcedText
from hasse.service.core.encoding import check_query
from hasse.service.core.engine import Engine
from hasse.service.core.searching import (
    SearchKey,
    SearchResult,
    image_hit_fields,
    shortest_decimal,
    version_fields,
)
from hasse.service.errors import invalid
from hasse.service.questions.pipeline import (
    AnswerBuilder,
    Fields,
    caption_probabilities,
    search_key,
)
from hasse.service.questions.requests import K_MAXIMUM, ImageQuery
from hasse.service.telemetry.stages import Stages
from hasse.service.verdict import is_true, may_be_true

Result = TypeVar("Result")
Texts: TypeAlias = dict[int, list[SourcedText]]  # by image id

_MIN_MATCHES = 40  # images to find by text, before the best of them by violation are chosen
_FUSION = 60  # constant of reciprocal rank fusion, as in the paper
_SNIPPET = 160  # characters
_MAX_TEXTS = 3  # texts that a hit lists


async def answer(engine: Engine, request: ImageQuery, stages: Stages) -> AnswerBuilder:
    """Return the images that show a caption or have its words in their texts, the best first."""
    search = _Search.of(engine, request, stages)
    result, matches = await search.run()
    page, texts = await search.finish(
        lambda: search.load_page(search.merge(result, matches)[request.offset : search.key.query.k])
    )
    return lambda: search.fields(page, result, matches, texts)


async def answer_ids(engine: Engine, request: ImageQuery, stages: Stages) -> AnswerBuilder:
    """Return the ids of images that show a caption, may show it or have its words, best first.

    There are at most as many as in an answer. Without a calibration, the `k` best count.
    """
    longest = request.model_copy(update={"k": engine.settings.k_maximum, "offset": 0})
    search = _Search.of(engine, longest, stages)
    result, matches = await search.run()
    hits = await search.finish(lambda: search.merge(result, matches))
    violations = [hit.violation for hit in hits]
    probabilities = caption_probabilities(engine, search.query.caption, violations)
    best = request.k if engine.checkpoint.calibration.image is None else 0
    ids = [
        hit.image_id
        for at, (hit, probability) in enumerate(zip(hits, probabilities, strict=True))
        if hit.says or may_be_true(probability) or at < best
    ]
    return lambda: {"image_ids": ids[: longest.k]}


@dataclass(frozen=True, slots=True)
class _Hit:
    """An image with its violation; `says` means that its texts match the query."""

    image_id: int
    violation: float | None
    says: bool


@dataclass(frozen=True, slots=True)
class _Search:
    """One search for a query by both kinds of evidence.

    Attributes:
        key: the search by content, from the first hit on.
        by_picture: whether to search by content: the model knows the caption.
        rows: catalog rows of hits and of their other versions, by id.
        versions: ids of other versions of the hits of the page.
        points: points of encoded texts.
    """

    engine: Engine
    request: ImageQuery
    stages: Stages
    query: TextQuery
    key: SearchKey
    by_picture: bool
    rows: dict[int, ImageHitRow] = field(default_factory=dict)
    versions: dict[int, list[int]] = field(default_factory=dict)
    points: dict[str, Points] = field(default_factory=dict)

    @classmethod
    def of(cls, engine: Engine, request: ImageQuery, stages: Stages) -> _Search:
        """Parse the query of a request; raises ServiceError `invalid` if it has no words."""
        query = TextQuery.read(request.caption)
        if not query.caption.strip():
            raise invalid("caption", "say what to look for, beside what to leave out")
        # "a girafe" is not searched by content: "a" alone is true of everything.
        content_words = [term.written for term in query.terms] if request.evidence == "any" else []
        known = any(map(engine.vocabulary.knows, content_words or [query.caption]))
        if not known and (request.evidence == "shows" or not query.terms):
            check_query(query.caption, engine.vocabulary, engine.settings)
        key = search_key(engine, "image", request, query=query)._replace(offset=0)
        return cls(engine, request, stages, query, key, known and request.evidence != "says")

    async def run(self) -> tuple[SearchResult | None, TextMatches]:
        """Search by content and by text concurrently; if one fails, the other is cancelled."""
        if self.request.evidence == "shows":
            return await self.search_pictures(), TextMatches()
        generation = self.engine.index.generation
        try:
            async with asyncio.TaskGroup() as group:
                picture_task = group.create_task(self.search_pictures())
                text_task = group.create_task(self.search_texts())
        except ExceptionGroup as failed:
            raise failed.exceptions[0] from None
        result = picture_task.result()
        if result is not None and result.ranking.generation != generation:
            # Images changed meanwhile, but an answer is of one generation only.
            return result, await self.search_texts()
        return result, text_task.result()

    async def search_pictures(self) -> SearchResult | None:
        """Search by content, without hits that show excluded things."""
        if not self.by_picture:
            return None
        key, depth = self.key, self.key.query.k
        point = await self._encode()
        while True:
            (result,) = await self.engine.searcher.search(key, point[None], self.stages)
            self.rows.update(result.images)
            if not self.query.excluded:
                return result
            ids = result.ranking.ids.tolist()
            allowed = await self.engine.in_catalog(partial(self._without_excluded, ids))
            k = key.query.k
            if len(allowed) >= depth or len(result.ranking.ids) < k or k >= K_MAXIMUM:
                return result.only(allowed[:depth])
            key = key._replace(query=replace(key.query, k=min(2 * k, K_MAXIMUM)))

    async def search_texts(self) -> TextMatches:
        """Search by text."""
        engine, selection = self.engine, self.key.query.selection
        limit = max(self.key.query.k, _MIN_MATCHES)
        counts = engine.text_counts.of(engine.index.generation, engine.info.images)

        def match() -> TextMatches:
            with engine.index.catalog.reading() as connection:
                folder = engine.index.folder
                conditions = selection.conditions(connection, folder) if selection else ()
                knows = engine.vocabulary.knows
                matches = match_texts(connection, self.query, knows, limit, counts, conditions)
            return matches.merge_versions(partial(engine.index.versions, self.key.query))

        with self.stages.measure("text"):
            return await engine.in_catalog(match)

    async def finish(self, build: Callable[[], Result]) -> Result:
        """Call `build`, in a thread of the catalog if it reads texts."""
        if self.request.evidence == "shows":
            return build()
        with self.stages.measure("text"):
            return await self.engine.in_catalog(build)

    def merge(self, result: SearchResult | None, matches: TextMatches) -> list[_Hit]:
        """Return the hits of both kinds, the best first."""
        violations = {} if result is None else _violations(result)
        by_order = list(violations)
        ids = [*matches.all_words, *matches.unknown_words, *matches.partial]
        violations |= self._text_violations([id_ for id_ in ids if id_ not in violations])
        by_content = self._with_all_words(by_order, matches)
        first = self._sorted(dict.fromkeys((*matches.all_words, *by_content)), violations)
        second = self._sorted(dict.fromkeys(matches.unknown_words), violations)
        ahead = dict.fromkeys((*first, *second))
        rest = _fused(
            [id_ for id_ in by_order if id_ not in ahead],
            [id_ for id_ in matches.partial if id_ not in ahead],
        )
        says = {*ids, *by_content}
        return [
            _Hit(id_, violations.get(id_), id_ in says or bool(self.query.phrases))
            for id_ in (*ahead, *rest)
            if id_ in violations or not self.by_picture
        ]

    def load_page(self, page: Sequence[_Hit]) -> tuple[list[_Hit], Texts]:
        """Return the hits that still exist, with the texts of all their versions."""
        hits, index = [hit.image_id for hit in page], self.engine.index
        versions = index.versions(self.key.query, hits)
        self.versions.update({hit: others for hit, (_, *others) in versions.items()})
        image_ids = (*hits, *chain.from_iterable(self.versions.values()))
        texts: Texts = {}
        if self.request.evidence != "shows" and hits:
            texts = self.texts(image_ids)
        texts_of_hits = {
            hit: [text for id_ in (hit, *self.versions.get(hit, ())) for text in texts.get(id_, ())]
            for hit in hits
        }
        return [hit for hit in page if hit.image_id in self.rows], texts_of_hits

    def texts(self, image_ids: Iterable[int]) -> Texts:
        """Return all texts of images, and load their rows if the content search did not."""
        catalog, ids = self.engine.index.catalog, list(image_ids)
        missing = [id_ for id_ in ids if id_ not in self.rows]
        if missing:
            self.rows.update(catalog.image_hits(missing)[0])
        return catalog.hit_texts({id_: self.rows[id_] for id_ in ids if id_ in self.rows})

    def fields(
        self,
        page: Sequence[_Hit],
        result: SearchResult | None,
        matches: TextMatches,
        texts: Texts,
    ) -> Fields:
        """Return the fields of the answer."""
        engine, query = self.engine, self.query
        unknown = engine.vocabulary.unknown_words(query.caption)
        violations = [hit.violation for hit in page]
        probabilities = caption_probabilities(engine, query.caption, violations)
        rows = [self.rows[hit.image_id] for hit in page]
        hits = image_hit_fields(
            zip(rows, violations, probabilities, strict=True),
            engine.paths,
            self.request.offset,
            version_fields(self.versions, self.rows, engine.paths),
        )
        facts = self._facts() if result is None else result.facts(engine.checkpoint.name)
        phrases = [
            ResolvedTerm(Term(phrase, phrase), phrase, "word", known=False)
            for phrase in query.phrases
        ]
        terms = [*matches.terms, *phrases]
        for hit, fields in zip(page, hits, strict=True):
            fields["says"] = _says(texts.get(hit.image_id, []), terms) if hit.says else []
        in_texts = {term.term.folded for term in matches.terms if not term.is_corrected}
        return {
            "hits": hits,
            **facts,
            "unknown_words": [word for word in unknown if fold(word) not in in_texts],
            "did_you_mean": _corrected(query.caption, matches.terms),
        }

    def _facts(self) -> Fields:
        """Return the facts of an answer by text alone, which needs no proof."""
        engine = self.engine
        return {
            "mode": self.request.mode,
            "certified": True,
            "searched": engine.info.images,
            "rescored": 0,
            "plan": "text",
            "work": dict.fromkeys(RowCounts._fields, 0),
            "model": engine.checkpoint.name,
            "generation": engine.index.generation,
        }

    async def _encode(self) -> Points:
        """Encode the caption and the excluded texts; return the point of the caption (N,)."""
        excluded = filter(self.engine.vocabulary.knows, self.query.excluded)
        for text in (self.query.caption, *excluded):
            self.points[text] = await self.engine.encoder.encode(text, self.stages)
        return self.points[self.query.caption]

    def _violations_of(self, image_ids: Sequence[int], text: str) -> dict[int, float]:
        """Return the violations of images with an encoded text."""
        violations = self.engine.index.violations(image_ids, self.points[text])
        return {id_: shortest_decimal(violation) for id_, violation in violations.items()}

    def _text_violations(self, image_ids: Sequence[int]) -> dict[int, float]:
        """Return the violations of text matches, without those that cannot be hits."""
        if not image_ids or not self.by_picture:
            return {}
        allowed = self._without_excluded(image_ids)
        limit = self.key.query.max_violation
        return {
            id_: violation
            for id_, violation in self._violations_of(allowed, self.query.caption).items()
            if limit is None or violation <= limit
        }

    def _without_excluded(self, image_ids: Sequence[int]) -> list[int]:
        """Return the images that do not show excluded things, in their order."""
        showing: set[int] = set()
        for text in self.query.excluded:
            if image_ids and text in self.points:
                violations = self._violations_of(image_ids, text)
                probabilities = caption_probabilities(self.engine, text, list(violations.values()))
                by_id = zip(violations, probabilities, strict=True)
                showing |= {id_ for id_, probability in by_id if is_true(probability)}
        return [id_ for id_ in image_ids if id_ not in showing]

    def _with_all_words(self, by_order: Sequence[int], matches: TextMatches) -> list[int]:
        """Return the hits by content with all words, if the text search found only a part."""
        if len(matches.all_words) < max(self.key.query.k, _MIN_MATCHES):
            return []
        return [
            id_
            for id_, texts in self.texts(by_order).items()
            if all(
                any(term.is_in(_padded(text)) for text in texts if text.source != "written caption")
                for term in matches.terms
            )
        ]

    def _sorted(self, ids: Collection[int], violations: dict[int, float]) -> list[int]:
        """Return images by violation, or in the same order without a search by content."""
        if not self.by_picture:
            return list(ids)
        return sorted((id_ for id_ in ids if id_ in violations), key=lambda id_: violations[id_])


def _violations(result: SearchResult) -> dict[int, float]:
    ranking = result.ranking
    return dict(zip(ranking.ids.tolist(), map(shortest_decimal, ranking.violations), strict=True))


def _fused(*rankings: Sequence[int]) -> list[int]:
    """Fuse rankings by reciprocal rank; ties in order of the rankings."""
    scores: dict[int, float] = {}
    for ranking in rankings:
        for rank, id_ in enumerate(ranking, 1):
            scores[id_] = scores.get(id_, 0.0) + 1 / (_FUSION + rank)
    return sorted(scores, key=lambda id_: -scores[id_])


def _says(texts: Sequence[SourcedText], terms: Sequence[ResolvedTerm]) -> list[Fields]:
    """Return the texts with the terms: repeatedly the one with most of the missing terms."""
    padded = [(text, _padded(text)) for text in texts]
    missing, chosen = list(terms), list[Fields]()
    while missing and len(chosen) < _MAX_TEXTS:
        text, folded = max(padded, key=lambda pair: _count(missing, pair[1]), default=(None, ""))
        if text is None or not _count(missing, folded):
            break
        chosen.append({"where": text.source, "text": _snippet(text.text, missing)})
        missing = [term for term in missing if not term.is_in(folded)]
    return chosen


def _count(terms: Sequence[ResolvedTerm], padded: str) -> int:
    return sum(term.is_in(padded) for term in terms)


def _padded(text: SourcedText) -> str:
    return f" {fold(text.text)} "


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


def _corrected(caption: str, terms: Sequence[ResolvedTerm]) -> str | None:
    """Return the caption with corrected words, or None without corrections."""
    corrections = {term.term.written: term.text for term in terms if term.is_corrected}
    if not corrections:
        return None
    return " ".join(corrections.get(word, word) for word in caption.split())
