"""Images that a query is true of, by two kinds of evidence: what they show and what they say.

The order tells what a picture shows, the text index what is said about it. Hits that say all words
come first, then those that say all words that the model does not know, each by violation. The
others are fused by rank (reciprocal rank fusion: Cormack, Clarke and Buettcher, SIGIR 2009): a hit
at rank r of one kind of evidence gets 1 / (60 + r), and one of both kinds the sum.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import chain
from typing import TypeAlias, TypeVar

from hasse.index.catalog.text_search import Resolved, Said, said
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
from hasse.service.core.stages import Stages
from hasse.service.errors import invalid
from hasse.service.questions.pipeline import (
    AnswerBuilder,
    Fields,
    caption_probabilities,
    search_key,
)
from hasse.service.questions.requests import K_MAXIMUM, ImageQuery
from hasse.service.verdict import is_true, may_be_true

Finished = TypeVar("Finished")
Texts: TypeAlias = dict[int, list[SourcedText]]  # of images

_SAID_AT_LEAST = 40  # images looked for by text: the best of them by violation come first
_FUSION = 60  # of reciprocal rank fusion, as in the paper
_SNIPPET = 160  # characters
_NAMED = 3  # texts that a hit names


async def answer(engine: Engine, request: ImageQuery, stages: Stages) -> AnswerBuilder:
    """Return the images that show a caption or say it, the best first."""
    search = _Search.of(engine, request, stages)
    found, said_by = await search.both()
    page, texts = await search.finish(
        lambda: search.described(search.merged(found, said_by)[request.offset : search.key.query.k])
    )
    return lambda: search.fields(page, found, said_by, texts)


async def matching(engine: Engine, request: ImageQuery, stages: Stages) -> AnswerBuilder:
    """Return the ids of the images that say a caption, show it or may show it, the best first.

    They are as many as an answer may have. Where the model is not calibrated, the `k` best count.
    """
    most = request.model_copy(update={"k": engine.settings.k_maximum, "offset": 0})
    search = _Search.of(engine, most, stages)
    found, said_by = await search.both()
    hits = await search.finish(lambda: search.merged(found, said_by))
    violations = [hit.violation for hit in hits]
    likely = caption_probabilities(engine, search.query.caption, violations)
    best = request.k if engine.checkpoint.calibration.image is None else 0
    ids = [
        hit.image_id
        for at, (hit, probability) in enumerate(zip(hits, likely, strict=True))
        if hit.says or may_be_true(probability) or at < best
    ]
    return lambda: {"image_ids": ids[: most.k]}


@dataclass(frozen=True, slots=True)
class _Hit:
    """An image with its violation; `says` if it counts as one that says the query."""

    image_id: int
    violation: float | None
    says: bool


@dataclass(frozen=True, slots=True)
class _Search:
    """One search for a query by both kinds of evidence.

    Attributes:
        key: the search by the picture, from the first hit on.
        by_picture: whether the model knows the caption, and it is searched by the picture too.
        rows: the catalog's rows of hits and of their other versions, by id.
        versions: the ids of other versions of the hits that are described.
        points: of texts that are encoded.
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
        """Read the query of a request; raises ServiceError `invalid` if it says nothing."""
        query = TextQuery.read(request.caption)
        if not query.caption.strip():
            raise invalid("caption", "say what to look for, beside what to leave out")
        # "a girafe" is not searched by the picture: "a" alone is true of everything.
        telling = [one.written for one in query.terms] if request.evidence == "any" else []
        known = any(map(engine.vocabulary.knows, telling or [query.caption]))
        if not known and (request.evidence == "shows" or not query.terms):
            check_query(query.caption, engine.vocabulary, engine.settings)
        key = search_key(engine, "image", request, query=query)._replace(offset=0)
        return cls(engine, request, stages, query, key, known and request.evidence != "says")

    async def both(self) -> tuple[SearchResult | None, Said]:
        """Search by the picture and by the text at once; where one fails, the other ends too."""
        if self.request.evidence == "shows":
            return await self.shown(), Said()
        generation = self.engine.index.generation
        try:
            async with asyncio.TaskGroup() as group:
                shown = group.create_task(self.shown())
                said_by = group.create_task(self.said())
        except ExceptionGroup as failed:
            raise failed.exceptions[0] from None
        found = shown.result()
        if found is not None and found.ranking.generation != generation:
            # Images changed meanwhile: an answer is of one generation and not of two.
            return found, await self.said()
        return found, said_by.result()

    async def shown(self) -> SearchResult | None:
        """Search by the picture; leave out hits that show what is excluded."""
        if not self.by_picture:
            return None
        key, depth = self.key, self.key.query.k
        point = await self._encode()
        while True:
            (found,) = await self.engine.searcher.search(key, point[None], self.stages)
            self.rows.update(found.images)
            if not self.query.excluded:
                return found
            ids = found.ranking.ids.tolist()
            kept = await self.engine.in_catalog(partial(self._without_excluded, ids))
            k = key.query.k
            if len(kept) >= depth or len(found.ranking.ids) < k or k >= K_MAXIMUM:
                return found.only(kept[:depth])
            key = key._replace(query=replace(key.query, k=min(2 * k, K_MAXIMUM)))

    async def said(self) -> Said:
        """Search by the text."""
        engine, selection = self.engine, self.key.query.selection
        limit = max(self.key.query.k, _SAID_AT_LEAST)
        counts = engine.text_counts.of(engine.index.generation, engine.info.images)

        def look() -> Said:
            with engine.index.catalog.reading() as connection:
                chosen = selection.conditions(connection, engine.index.folder) if selection else ()
                knows = engine.vocabulary.knows
                each = said(connection, self.query, knows, limit, counts, chosen)
            return each.by(partial(engine.index.versions, self.key.query))

        with self.stages.measure("text"):
            return await engine.in_catalog(look)

    async def finish(self, make: Callable[[], Finished]) -> Finished:
        """Return what is made of what was found; where texts are read, beside the event loop."""
        if self.request.evidence == "shows":
            return make()
        with self.stages.measure("text"):
            return await self.engine.in_catalog(make)

    def merged(self, found: SearchResult | None, said_by: Said) -> list[_Hit]:
        """Return the hits of both kinds, the best first."""
        violations = {} if found is None else _violations(found)
        by_order = list(violations)
        ids = [*said_by.everything, *said_by.names, *said_by.something]
        violations |= self._beside([id_ for id_ in ids if id_ not in violations])
        everything = self._said_by_order(by_order, said_by)
        first = self._sorted(dict.fromkeys((*said_by.everything, *everything)), violations)
        names = self._sorted(dict.fromkeys(said_by.names), violations)
        ahead = dict.fromkeys((*first, *names))
        rest = _fused(
            [id_ for id_ in by_order if id_ not in ahead],
            [id_ for id_ in said_by.something if id_ not in ahead],
        )
        says = {*ids, *everything}
        return [
            _Hit(id_, violations.get(id_), id_ in says or bool(self.query.phrases))
            for id_ in (*ahead, *rest)
            if id_ in violations or not self.by_picture
        ]

    def described(self, page: Sequence[_Hit]) -> tuple[list[_Hit], Texts]:
        """Return the hits that are still there, and their texts with those of other versions."""
        hits, index = [hit.image_id for hit in page], self.engine.index
        known = index.versions(self.key.query, hits)
        self.versions.update({hit: others for hit, (_, *others) in known.items()})
        every = (*hits, *chain.from_iterable(self.versions.values()))
        texts: Texts = {}
        if self.request.evidence != "shows" and hits:
            texts = self.texts(every)
        found = {
            hit: [text for id_ in (hit, *self.versions.get(hit, ())) for text in texts.get(id_, ())]
            for hit in hits
        }
        return [hit for hit in page if hit.image_id in self.rows], found

    def texts(self, image_ids: Iterable[int]) -> Texts:
        """Return all texts of images, and read the rows of those that only texts found."""
        catalog, ids = self.engine.index.catalog, list(image_ids)
        missing = [id_ for id_ in ids if id_ not in self.rows]
        if missing:
            self.rows.update(catalog.image_hits(missing)[0])
        return catalog.hit_texts({id_: self.rows[id_] for id_ in ids if id_ in self.rows})

    def fields(
        self,
        page: Sequence[_Hit],
        found: SearchResult | None,
        said_by: Said,
        texts: Texts,
    ) -> Fields:
        """Return the fields of the answer."""
        engine, query = self.engine, self.query
        unknown = engine.vocabulary.unknown_words(query.caption)
        violations = [hit.violation for hit in page]
        probabilities = caption_probabilities(engine, query.caption, violations)
        rows = [self.rows[hit.image_id] for hit in page]
        made = image_hit_fields(
            zip(rows, violations, probabilities, strict=True),
            engine.paths,
            self.request.offset,
            version_fields(self.versions, self.rows, engine.paths),
        )
        facts = self._facts() if found is None else found.facts(engine.checkpoint.name)
        phrases = [Resolved(Term(one, one), one, "word", known=False) for one in query.phrases]
        wanted = [*said_by.resolved, *phrases]
        for hit, fields in zip(page, made, strict=True):
            fields["says"] = _says(texts.get(hit.image_id, []), wanted) if hit.says else []
        spoken = {one.term.folded for one in said_by.resolved if not one.is_corrected}
        return {
            "hits": made,
            **facts,
            "unknown_words": [word for word in unknown if fold(word) not in spoken],
            "did_you_mean": _corrected(query.caption, said_by.resolved),
        }

    def _facts(self) -> Fields:
        """Return the facts of an answer by text alone, of which nothing has to be proved."""
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
        """Encode the caption, and what is excluded; return the point of the caption (N,)."""
        excluded = filter(self.engine.vocabulary.knows, self.query.excluded)
        for text in (self.query.caption, *excluded):
            self.points[text] = await self.engine.encoder.encode(text, self.stages)
        return self.points[self.query.caption]

    def _violations_of(self, image_ids: Sequence[int], text: str) -> dict[int, float]:
        """Return the violations of images with a text that was encoded."""
        found = self.engine.index.violations(image_ids, self.points[text])
        return {id_: shortest_decimal(violation) for id_, violation in found.items()}

    def _beside(self, image_ids: Sequence[int]) -> dict[int, float]:
        """Return the violations of images that were found by text, of those that may be hits."""
        if not image_ids or not self.by_picture:
            return {}
        kept = self._without_excluded(image_ids)
        found = self._violations_of(kept, self.query.caption)
        limit = self.key.query.max_violation
        return {id_: one for id_, one in found.items() if limit is None or one <= limit}

    def _without_excluded(self, image_ids: Sequence[int]) -> list[int]:
        """Return the images that do not surely show what is excluded, in their order."""
        showing: set[int] = set()
        for text in self.query.excluded:
            if image_ids and text in self.points:
                found = self._violations_of(image_ids, text)
                each = caption_probabilities(self.engine, text, list(found.values()))
                showing |= {id_ for id_, one in zip(found, each, strict=True) if is_true(one)}
        return [id_ for id_ in image_ids if id_ not in showing]

    def _said_by_order(self, by_order: Sequence[int], said_by: Said) -> list[int]:
        """Return the best by the picture that say all words, where more images say them."""
        if len(said_by.everything) < max(self.key.query.k, _SAID_AT_LEAST):
            return []
        return [
            id_
            for id_, each in self.texts(by_order).items()
            if all(
                any(term.is_said(_padded(one)) for one in each if one.source != "written caption")
                for term in said_by.resolved
            )
        ]

    def _sorted(self, ids: Collection[int], violations: dict[int, float]) -> list[int]:
        """Return images by violation; where there is none, as they are."""
        if not self.by_picture:
            return list(ids)
        return sorted((id_ for id_ in ids if id_ in violations), key=lambda id_: violations[id_])


def _violations(found: SearchResult) -> dict[int, float]:
    ranking = found.ranking
    return dict(zip(ranking.ids.tolist(), map(shortest_decimal, ranking.violations), strict=True))


def _fused(*rankings: Sequence[int]) -> list[int]:
    """Fuse rankings by reciprocal rank; ties in order of the rankings."""
    scores: dict[int, float] = {}
    for ranking in rankings:
        for rank, id_ in enumerate(ranking, 1):
            scores[id_] = scores.get(id_, 0.0) + 1 / (_FUSION + rank)
    return sorted(scores, key=lambda id_: -scores[id_])


def _says(texts: Sequence[SourcedText], terms: Sequence[Resolved]) -> list[Fields]:
    """Return the texts that say the terms: one that says them all, or else the first of each."""
    padded = [(text, _padded(text)) for text in texts]
    missing, found = list(terms), list[Fields]()
    while missing and len(found) < _NAMED:
        text, folded = max(padded, key=lambda pair: _count(missing, pair[1]), default=(None, ""))
        if text is None or not _count(missing, folded):
            break
        found.append({"where": text.source, "text": _snippet(text.text, missing)})
        missing = [term for term in missing if not term.is_said(folded)]
    return found


def _count(terms: Sequence[Resolved], padded: str) -> int:
    return sum(term.is_said(padded) for term in terms)


def _padded(text: SourcedText) -> str:
    return f" {fold(text.text)} "


def _snippet(text: str, terms: Sequence[Resolved]) -> str:
    """Return the part of a text around the first word that says one of the terms."""
    if len(text) <= _SNIPPET:
        return text
    at = next(_places(text, terms), 0)
    start = max(0, at - _SNIPPET // 3)
    end = start + _SNIPPET
    return f"{'…' if start else ''}{text[start:end].strip()}{'…' if end < len(text) else ''}"


def _places(text: str, terms: Sequence[Resolved]) -> Iterator[int]:
    """Yield where words of a text stand that say the first word of a term."""
    at = 0
    for word in text.split(" "):
        folded = fold(word)
        if folded and any(term.text.split()[0] in folded for term in terms):
            yield at
        at += len(word) + 1


def _corrected(caption: str, resolved: Sequence[Resolved]) -> str | None:
    """Return the caption with the words that are said in place of those that nobody says."""
    others = {one.term.written: one.text for one in resolved if one.is_corrected}
    return " ".join(others.get(word, word) for word in caption.split()) if others else None
