"""Which composition of points answers questions about several things best?

Scenes know their meaning, so the truth of every answer over a split is known. Five tables of
`studies.tables.scenes`, with the service's own way marked:

    all of      two captions of one concept each, neither of which entails the other: mean average
                precision of ranking the pictures that both are true of
    common      two pictures: mean average precision of ranking the captions that are true of both,
                and how often one of those stands above one that is true of only one of the two
    exchange    a picture, plus something, minus something: how often the first picture found (never
                the one started from) shows what was put in and not what was taken out.
                Colours by words alone ("red"), by phrases ("a red ball"), and kinds of animals.
                Words alone are read in the captions of the split that were written for other
                pictures and that the model holds true of this one.
    diagram     captions that the model holds true of a picture, in pairs: which entails which, by
                the violation between them, or by the pictures that each is likely true of.
                Precision and recall of all that either says, with what follows by transitivity
    entailment  captions of the split, in ordered pairs: average precision of the entailed ones, of
                which one pair in eighty is, and precision and recall at the model's own threshold
"""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import TYPE_CHECKING

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from hasse.lab.evaluation.ground_truth import known_ground_truth
from hasse.lab.evaluation.ranking import average_precisions
from hasse.lab.kernels.violations import pairwise_violation
from hasse.models.analogy import is_single_word, reword_captions, substitute
from hasse.models.calibration import Calibration
from hasse.models.diagram import by_pictures, by_violation, transitive_closure
from hasse.scenes import Scene, SceneTable, Statement, entails, sample_statements
from hasse.scenes.concepts import THING_COLOURS, is_a, leaves
from hasse.studies.tables.report import Values

if TYPE_CHECKING:
    from hasse.studies.tables.scenes import Bench

SEED = 0
OURS = "*"
SOME = 250  # pictures of the collection, or all there are, through which captions are compared
TRUE = 1000  # the captions truest of a picture, in which the service reads a word

CAPTIONS = 2000  # or all there are, whose pairs are compared

Measured = dict[str, list[Values]]  # the columns of each way


def tables(bench: Bench, count: int) -> Iterator[tuple[str, list[str], Measured]]:
    """Yield titles, heads and rows: so many questions of each kind; one diagram to ten of them."""
    yield "all of", ["mAP"], all_of(bench, count)
    yield "common", ["mAP", "above unshared"], common(bench, count)
    yield "exchange: first hit is right", ["word", "phrase", "animal"], exchange(bench, count)
    yield "diagram", ["precision", "recall"], diagram(bench, count // 10)
    yield "entailment", ["average precision", "precision", "recall"], entailment(bench)


def all_of(bench: Bench, questions: int) -> Measured:
    """Measure ways to ask for pictures that two captions are true of."""
    draw = random.Random(SEED)
    statements = sample_statements(draw, 1000, concepts=1)
    table = SceneTable(bench.scenes)
    true = np.stack([table.holds(statement) for statement in statements])
    pairs = [
        (i, j)
        for i, j in combinations(range(len(statements)), 2)
        if (true[i] & true[j]).any()
        and not entails(statements[i], statements[j])
        and not entails(statements[j], statements[i])
    ]
    draw.shuffle(pairs)
    rows = np.array(pairs[:questions])
    both = true[rows[:, 0]] & true[rows[:, 1]]
    points = bench.captions([statement.text for statement in statements])
    first, second = points[rows[:, 0]], points[rows[:, 1]]
    each = pairwise_violation(bench.images, points).T.numpy()
    one, other = each[rows[:, 0]], each[rows[:, 1]]

    def by(point: Tensor) -> Values:
        return average_precisions(pairwise_violation(bench.images, point).T.numpy(), both)

    return {
        f"worst part {OURS}": [average_precisions(np.maximum(one, other), both)],
        "mean": [by((first + second) / 2)],
        "first caption alone": [average_precisions(one, both)],
    }


def common(bench: Bench, questions: int) -> Measured:
    """Measure ways to ask for captions that are true of two pictures."""
    texts = [caption.text for caption in bench.dataset.captions]
    rows = np.unique(np.unique(texts, return_index=True)[1])
    truth = known_ground_truth(bench.dataset).holds(np.arange(len(bench.scenes)), rows)
    points = bench.captions([texts[row] for row in rows])
    draw = np.random.default_rng(SEED)
    pairs = np.array([draw.choice(len(bench.scenes), 2, replace=False) for _ in range(questions)])
    shared = truth[pairs[:, 0]] & truth[pairs[:, 1]]
    pairs, shared = pairs[shared.any(1)], shared[shared.any(1)]
    lone = truth[pairs[:, 0]] ^ truth[pairs[:, 1]]
    first, second = bench.images[pairs[:, 0]], bench.images[pairs[:, 1]]
    each = pairwise_violation(bench.images, points).numpy()
    one, other = each[pairs[:, 0]], each[pairs[:, 1]]

    def measured(scores: NDArray[np.float32]) -> list[Values]:
        above = [
            np.searchsorted(np.sort(-row[wrong]), -row[right], side="left").mean() / wrong.sum()
            for row, right, wrong in zip(scores, shared, lone, strict=True)
            if wrong.any()
        ]
        return [average_precisions(scores, shared), np.array(above)]

    return {
        f"worst part {OURS}": measured(np.maximum(one, other)),
        "meet": measured(pairwise_violation(torch.minimum(first, second), points).numpy()),
        "mean": measured(pairwise_violation((first + second) / 2, points).numpy()),
        "first picture alone": measured(one),
    }


@dataclass(frozen=True, slots=True)
class Exchange:
    """A picture, a part to add, a part to remove, and the right answers."""

    row: int
    plus: str
    minus: str
    right: frozenset[int]


def exchanges(scenes: Sequence[Scene], questions: int) -> dict[str, list[Exchange]]:
    """Draw questions: colours of things by word and by phrase, and kinds of animals."""
    kinds: dict[str, set[int]] = {}
    coloured: dict[tuple[str, str | None], set[int]] = {}
    for row, scene in enumerate(scenes):
        for entity in scene.situation.entities:
            kinds.setdefault(entity.kind, set()).add(row)
            coloured.setdefault((entity.kind, entity.colour), set()).add(row)

    words, phrases, animals = [], [], []
    for row, scene in enumerate(scenes):
        entities = scene.situation.entities
        for entity in entities:
            if sum(other.kind == entity.kind for other in entities) > 1:
                continue
            alone = sum(other.colour == entity.colour for other in entities) == 1
            for colour in THING_COLOURS.get(entity.kind, ()) if entity.colour and alone else ():
                right = coloured.get((entity.kind, colour), set())
                right = right - coloured[entity.kind, entity.colour]
                if colour != entity.colour and right:
                    old, new = (_a(f"{c} {entity.kind}") for c in (entity.colour, colour))
                    words.append(Exchange(row, colour, str(entity.colour), frozenset(right)))
                    phrases.append(Exchange(row, new, old, frozenset(right)))
            for kind in leaves("animal") if is_a(entity.kind, "animal") else ():
                right = kinds.get(kind, set()) - kinds[entity.kind]
                if right and all(other.kind != kind for other in entities):
                    animals.append(Exchange(row, _a(kind), _a(entity.kind), frozenset(right)))
    draw = random.Random(SEED)
    return {
        name: draw.sample(found, min(questions, len(found)))
        for name, found in (
            ("colour, by word", words),
            ("colour, by phrase", phrases),
            ("kind of animal", animals),
        )
    }


def pairs_in_captions(bench: Bench, asked: Sequence[Exchange]) -> list[dict[str, str]]:
    """Return, for each exchange, the removed texts and their replacements, as the service does."""
    texts = [caption.text for caption in bench.dataset.captions]
    image_ids = np.array([caption.image_id for caption in bench.dataset.captions])
    points = bench.captions(texts)
    known = bench.checkpoint.calibration.image
    found = []
    for question in asked:
        pairs = {question.minus: question.plus}
        if is_single_word(question.minus) and isinstance(known, Calibration):
            like = bench.images[question.row]
            violations = pairwise_violation(like[None], points)[0].numpy()
            violations[image_ids == bench.dataset.images[question.row].id] = np.inf
            nearest = np.argsort(violations, kind="stable")[:TRUE]
            true = [texts[row] for row in nearest if violations[row] <= known.threshold]
            pairs = reword_captions(true, question.minus, question.plus) or pairs
        found.append(pairs)
    return found


def exchanged(like: Tensor, plus: Tensor, minus: Tensor) -> Tensor:
    """Return `like` with `plus` in the place of `minus`, as the service composes it."""
    return torch.from_numpy(substitute("order", like.numpy(), plus.numpy(), minus.numpy()))


def exchanged_in_captions(bench: Bench, asked: Sequence[Exchange]) -> Tensor:
    """Compose the points of exchanges as the service does: (Q, N)."""
    return torch.stack(
        [
            exchanged(
                bench.images[question.row],
                bench.captions([*pairs.values()]),
                bench.captions([*pairs]),
            )
            for question, pairs in zip(asked, pairs_in_captions(bench, asked), strict=True)
        ]
    )


def exchange(bench: Bench, questions: int) -> Measured:
    """Measure ways to put one thing in the place of another."""
    measured: Measured = {}
    for asked in exchanges(bench.scenes, questions).values():
        like = bench.images[[question.row for question in asked]]
        plus = bench.captions([question.plus for question in asked])
        minus = bench.captions([question.minus for question in asked])
        rows = zip(like, plus, minus, strict=True)
        ways = {
            f"in captions {OURS}": exchanged_in_captions(bench, asked),
            "words alone left as they are": torch.stack(
                [exchanged(x, p[None], m[None]) for x, p, m in rows]
            ),
        }
        for name, points in ways.items():
            violations = pairwise_violation(bench.images, points)  # (I, Q)
            violations[[question.row for question in asked], torch.arange(len(asked))] = torch.inf
            first = violations.argmin(0).tolist()
            right = [row in question.right for question, row in zip(asked, first, strict=True)]
            measured.setdefault(name, []).append(np.array(right, np.float64))
    return measured


def diagram(bench: Bench, pictures: int) -> Measured:
    """Measure ways to put the captions that are true of a picture in order: (P,) each."""
    known = bench.checkpoint.calibration
    if not isinstance(known.image, Calibration) or not isinstance(known.caption, Calibration):
        return {}
    statements = {c.text: Statement.from_json(c.meaning or {}) for c in bench.dataset.captions}
    texts = list(statements)
    points = bench.captions(texts)
    there = len(bench.images)
    pictures = min(pictures, there)
    some = random.Random(SEED).sample(range(there), min(pictures + SOME, there))
    likely = known.image.probability(pairwise_violation(bench.images[some], points).numpy())
    measured: Measured = {}
    for row in range(pictures):
        shown = np.flatnonzero(likely[row] >= 0.5)
        claims = [statements[texts[at]] for at in shown]
        table = SceneTable(claims)
        true = np.stack([table.holds(claim) for claim in claims], axis=1)
        violations = pairwise_violation(points[shown], points[shown]).numpy()
        others = ~np.eye(len(shown), dtype=np.bool_)
        for name, relation in (
            (f"violation {OURS}", by_violation(violations, known.caption.threshold)),
            (
                "through pictures",
                by_pictures(likely[np.r_[row, pictures : len(some)]][:, shown]),
            ),
        ):
            predicted = transitive_closure(relation)[others]
            right = (predicted & true[others]).sum()
            columns = measured.setdefault(name, [np.zeros(pictures), np.zeros(pictures)])
            columns[0][row] = right / max(1, predicted.sum())
            columns[1][row] = right / max(1, true[others].sum())
    return measured


def entailment(bench: Bench) -> Measured:
    """Measure which of two distinct captions follows from the other, over all ordered pairs.

    Precision and recall are left out where the model has no threshold for captions.
    """
    own = {c.text: Statement.from_json(c.meaning or {}) for c in bench.dataset.captions}
    every = list(own)
    texts = [every[row] for row in np.unique(np.linspace(0, len(every) - 1, CAPTIONS).astype(int))]
    statements = [own[text] for text in texts]
    points = bench.captions(texts)
    violations = pairwise_violation(points, points).numpy()
    premises = SceneTable(statements)
    true = np.stack([premises.holds(hypothesis) for hypothesis in statements], axis=1)
    others = ~np.eye(len(texts), dtype=np.bool_)
    scores, labels = violations[others], true[others]
    columns = [average_precisions(scores[None], labels[None])]
    if isinstance(known := bench.checkpoint.calibration.caption, Calibration):
        called = scores < known.threshold
        columns += [np.array([both.mean()]) for both in (labels[called], called[labels])]
    return {f"violation {OURS}": columns}


def _a(noun: str) -> str:
    return f"{'an' if noun[0] in 'aeiou' else 'a'} {noun}"
