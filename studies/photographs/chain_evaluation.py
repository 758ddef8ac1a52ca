"""Truth on chains: general texts before specific ones, true texts before false ones.

A chain (`photographs.chains`) is one picture and texts from general to specific, all true of
it. Each text is also paired with other pictures, unless it follows from their captions.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hasse.lab.evaluation.significance import draws
from hasse.models.datasets import Dataset, DatasetError
from hasse.service.verdict import SHOWS
from hasse.studies.bootstrap import interval
from hasse.studies.photographs.chains import Chain
from hasse.studies.wordnet.words import content_words

SHUFFLED = 5  # other pictures that each text is paired with
SHORT = 2
SAMPLES = 500
TOLERANCE = 0.05  # of a general text's probability below that of a specific one
LEAST_PROBABILITY = 1e-4  # that a log loss counts
RADII = 50  # steps in which the radius around the root grows, as in HierarCaps

Floats = NDArray[np.float64]
Rows = NDArray[np.int64]
Summary = dict[str, float]


@dataclass(frozen=True, slots=True)
class Pairs:
    """Pictures and texts, some true and some shuffled.

    Attributes:
        texts: the distinct texts.
        images, text_rows: (P,), rows of the dataset's images and of `texts`.
        levels: (P,), the place of the text in its chain, 0 the most general.
        chains: (P,), the chain that the text is of.
        true: (P,), whether the picture is that chain's.
    """

    texts: tuple[str, ...]
    images: Rows
    text_rows: Rows
    levels: Rows
    chains: Rows
    true: NDArray[np.bool_]


def pair(dataset: Dataset, chains: Sequence[Chain], seed: int = 0) -> tuple[Pairs, list[Chain]]:
    """Pair the chains of a dataset's images, and their texts with other images of chains.

    Returns:
        The pairs, and the chains that are of images of the dataset.

    Raises:
        DatasetError: there are fewer than two images with chains.
    """
    row_of = {image.id: row for row, image in enumerate(dataset.images)}
    kept = [chain for chain in chains if chain.image_id in row_of]
    known: dict[int, set[str]] = {}
    for chain in kept:
        row = row_of[chain.image_id]
        if row not in known:
            known[row] = {
                word
                for caption in dataset.images[row].captions
                for word in content_words(caption.text)
            }
        known[row].update(chain.implied, *(content_words(text) for text in chain.texts))
    if len(known) < 2:
        raise DatasetError(
            f"chains are compared with those of other images, and {len(known)} of this split of "
            f"'{dataset.name}' has one: give more chains, or another --split"
        )
    numbers: dict[str, int] = {}
    rows: list[tuple[int, int, int, int, bool]] = []
    draw = np.random.default_rng(seed)
    others = np.array(sorted(known))
    for at, chain in enumerate(kept):
        own = row_of[chain.image_id]
        for level, text in enumerate(chain.texts):
            number = numbers.setdefault(text, len(numbers))
            rows.append((own, number, level, at, True))
            words = set(content_words(text))
            rows += [
                (int(other), number, level, at, False)
                for other in draw.choice(others, SHUFFLED)
                if other != own and not words <= known[int(other)]
            ]
    images, texts, levels, of, true = (np.array(column) for column in zip(*rows, strict=True))
    return Pairs(tuple(numbers), images, texts, levels, of, true), kept


def measure(pairs: Pairs, truth: Floats) -> dict[str, Any]:
    """Measure how well a score of each pair (P,), higher for truer ones, separates true from false.

    Returns:
        With 95 % intervals over chains: AUC and average precision at each level and over all
        levels with one threshold; the AUC of true texts of the specific half of levels against
        false ones of the general half; and Kendall's tau of generality and `truth` within a
        chain, with the share of chains that are in perfect order.
    """
    middle = (pairs.levels.max() + 1) / 2
    specific = pairs.levels >= middle
    chosen = {str(level): pairs.levels == level for level in range(pairs.levels.max() + 1)}
    chosen["all"] = np.ones_like(pairs.true)
    chosen["specific_true_general_false"] = specific == pairs.true
    curves = {
        name: _Curve.of(truth[kept], pairs.true[kept], pairs.chains[kept])
        for name, kept in chosen.items()
        if pairs.true[kept].any() and not pairs.true[kept].all()
    }
    taus = _taus(pairs, truth)
    one = np.ones(len(taus))
    sampled = list(draws(len(taus), samples=SAMPLES))
    found: dict[str, Any] = {
        name: {
            "auc": _with_interval(curve.auc, one, sampled),
            "average_precision": _with_interval(curve.average_precision, one, sampled),
        }
        for name, curve in curves.items()
    }
    return found | {
        "tau": _with_interval(lambda w: w @ taus / w.sum(), one, sampled),
        "in_order": _with_interval(lambda w: w @ (taus == 1) / w.sum(), one, sampled),
    }


def reliability(pairs: Pairs, probability: Floats) -> dict[str, Any]:
    """Compare probabilities (P,) with how often pairs are true, of short and of long texts.

    Texts of at most `SHORT` content words are short.

    Returns:
        Of either kind a row for each tenth of the probability that has pairs, and with 95 %
        intervals over chains: `error`, the mean over pairs of how far both are apart in the
        tenths; `error_of_equal_masses`, the same in ten parts of as many pairs each; the Brier
        score and the log loss.
    """
    short = np.array([len(content_words(text)) <= SHORT for text in pairs.texts])[pairs.text_rows]
    found: dict[str, Any] = {}
    for name, kept in (("short", short), ("long", ~short)):
        predicted, true, chains = probability[kept], pairs.true[kept], pairs.chains[kept]
        tenth = np.minimum((10 * predicted).astype(np.int64), 9)
        rows = [
            {
                "from": at / 10,
                "pairs": int((tenth == at).sum()),
                "probability": float(predicted[tenth == at].mean()),
                "true": float(true[tenth == at].mean()),
            }
            for at in np.unique(tenth).tolist()
        ]
        found[name] = {"rows": rows, **_errors(predicted, true, tenth, chains)}
    return found


def _errors(
    predicted: Floats, true: NDArray[np.bool_], tenth: Rows, chains: Rows
) -> dict[str, Summary]:
    """Return how far probabilities (P,) are from what is true."""
    edges = np.quantile(predicted, np.arange(1, 10) / 10) if len(predicted) else predicted
    part = np.searchsorted(edges, predicted, "right")
    certain = np.clip(np.where(true, predicted, 1 - predicted), LEAST_PROBABILITY, 1)
    means = {"brier": np.square(predicted - true), "log_loss": -np.log(certain)}
    one = np.ones(int(chains.max(initial=0)) + 1)
    sampled = list(draws(len(one), samples=SAMPLES))

    def apart(parts: Rows, weights: Floats) -> float:
        each = weights[chains]
        sums = np.bincount(parts, each * (predicted - true), 10)
        return float(np.abs(sums).sum() / max(1e-12, each.sum()))

    def mean(values: Floats, weights: Floats) -> float:
        each = weights[chains]
        return float(each @ values / max(1e-12, each.sum()))

    statistics = {
        "error": partial(apart, tenth),
        "error_of_equal_masses": partial(apart, part),
        **{name: partial(mean, values) for name, values in means.items()},
    }
    return {name: _with_interval(of, one, sampled) for name, of in statistics.items()}


def coherence(pairs: Pairs, probability: Floats) -> dict[str, Summary]:
    """Return how far probabilities (P,) of true texts agree with the order of chains.

    `agreeing` is the share of texts next to each other in a chain of which the general one is at
    most `TOLERANCE` less probable than the specific one. `likely` is, of those whose specific text
    is called likely, the share whose general one is. Both have 95 % intervals over chains.
    """
    own = np.flatnonzero(pairs.true)
    own = own[np.lexsort((pairs.levels[own], pairs.chains[own]))]
    next_to = np.flatnonzero(np.diff(pairs.chains[own]) == 0)
    general, specific = probability[own[next_to]], probability[own[next_to + 1]]
    chains = pairs.chains[own[next_to]]
    one = np.ones(int(pairs.chains.max(initial=0)) + 1)
    sampled = list(draws(len(one), samples=SAMPLES))

    def share(holds: NDArray[np.bool_], kept: NDArray[np.bool_], weights: Floats) -> float:
        each = weights[chains] * kept
        return float(each @ holds / max(1e-12, each.sum()))

    agrees, every = general >= specific - TOLERANCE, np.ones_like(general, np.bool_)
    return {
        "agreeing": _with_interval(partial(share, agrees, every), one, sampled),
        "likely": _with_interval(partial(share, general >= SHOWS, specific >= SHOWS), one, sampled),
    }


def mean_tau(pairs: Pairs, truth: Floats) -> float:
    """Return the mean over chains of Kendall's tau of generality and `truth` (P,)."""
    return float(_taus(pairs, truth).mean())


def hierarchy(
    pairs: Pairs, chains: Sequence[Chain], violations: Floats, distances: Floats, images: Rows
) -> dict[str, Summary]:
    """Return the three measures of HierarCaps (Alper and Averbuch-Elor, 2024), with 95 % intervals.

    A picture's texts are met as the radius around the root, the empty text, grows in equal
    steps: at each radius the best text within it. Precision is the share of the texts met that
    are of a chain of the picture, recall the share of levels at which such a text is met. The
    depth correlation is the mean over chains of Kendall's tau of level and distance.

    Args:
        violations: (I, T), of the images of `images` and all texts.
        distances: (T,), of the texts from the root.
        images: (I,), rows of the dataset's images.
    """
    row_of_text = {text: row for row, text in enumerate(pairs.texts)}
    rows = [[row_of_text[text] for text in chain.texts] for chain in chains]
    shown = pairs.chains[pairs.true], pairs.images[pairs.true]
    of_image: dict[int, list[int]] = {}
    for chain, image in sorted(set(zip(*(column.tolist() for column in shown), strict=True))):
        of_image.setdefault(image, []).append(chain)
    order = np.argsort(distances, kind="stable")
    radii = np.linspace(distances.min(), distances.max(), RADII)
    reached = np.searchsorted(distances[order], radii, side="right")
    precision, recall = [], []
    for image, violated in zip(images.tolist(), violations[:, order], strict=True):
        met = {int(order[violated[:count].argmin()]) for count in reached}
        own = [(level, row) for at in of_image[image] for level, row in enumerate(rows[at])]
        precision.append(len(met & {row for _, row in own}) / len(met))
        found = {level for level, row in own if row in met}
        recall.append(len(found) / len({level for level, _ in own}))
    return {
        "precision": _mean(precision),
        "recall": _mean(recall),
        "depth_correlation": _mean([_tau(-distances[texts]) for texts in rows]),
    }


def _mean(values: Sequence[float]) -> Summary:
    low, high = interval(values)
    return {"value": float(np.mean(values)), "low": low, "high": high}


@dataclass(frozen=True, slots=True)
class _Curve:
    """Pairs by falling truth, to count true and false ones under any weights of chains."""

    true: NDArray[np.bool_]
    chains: Rows
    starts: Rows  # where each group of equal truth begins

    @classmethod
    def of(cls, truth: Floats, true: NDArray[np.bool_], chains: Rows) -> _Curve:
        order = np.argsort(-truth, kind="stable")
        starts = np.flatnonzero(np.diff(truth[order], prepend=np.inf))
        return cls(true[order], chains[order], starts)

    def _counts(self, weights: Floats) -> tuple[Floats, Floats]:
        each = weights[self.chains]
        true = np.add.reduceat(each * self.true, self.starts)
        return true, np.add.reduceat(each * ~self.true, self.starts)

    def auc(self, weights: Floats) -> float:
        """Return how often a true pair comes before a false one; equal ones count half."""
        true, false = self._counts(weights)
        beaten = false.sum() - false.cumsum() + false / 2
        return float(true @ beaten / max(true.sum() * false.sum(), 1e-12))

    def average_precision(self, weights: Floats) -> float:
        """Return the mean precision at the places of true pairs."""
        true, false = self._counts(weights)
        precision = true.cumsum() / np.maximum((true + false).cumsum(), 1e-12)
        return float(true @ precision / max(true.sum(), 1e-12))


def _with_interval(
    statistic: Callable[[Floats], float], one: Floats, sampled: Sequence[Rows]
) -> Summary:
    found = [statistic(weights.astype(np.float64)) for weights in sampled]
    low, high = np.percentile(found, [2.5, 97.5])
    return {"value": float(statistic(one)), "low": float(low), "high": float(high)}


def _taus(pairs: Pairs, truth: Floats) -> Floats:
    """Return Kendall's tau-b of each chain; 1 if the more general is always truer."""
    own = np.flatnonzero(pairs.true)
    own = own[np.lexsort((pairs.levels[own], pairs.chains[own]))]
    starts = np.flatnonzero(np.diff(pairs.chains[own])) + 1
    return np.array([_tau(truth[rows]) for rows in np.split(own, starts)])


def _tau(values: Floats) -> float:
    """Return tau-b of falling generality and these values."""
    signs = np.sign(np.subtract.outer(values, values))[np.triu_indices(len(values), 1)]
    untied = np.count_nonzero(signs)
    return float(signs.sum() / np.sqrt(untied * len(signs))) if untied else 0.0
