"""From a trained model of photographs to one that is grounded in a classifier's classes."""

from __future__ import annotations

import json
import shutil
from collections import Counter, defaultdict
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Self

import numpy as np
from numpy.typing import NDArray

from hasse.lab.checkpoints import learned_model
from hasse.lab.checkpoints.learned_model import order_embedding_of
from hasse.lab.encoders.order_embedding import OrderEmbedding
from hasse.lab.evaluation.calibrating import Block, calibrate
from hasse.models.calibration import Calibration, Calibrations, mass_added
from hasse.models.checkpoints.checkpoint import BASE, GROUNDED_KIND, Checkpoint
from hasse.models.checkpoints.model_folder import CALIBRATION, METRICS, VOCABULARY
from hasse.models.datasets import Dataset, DatasetError
from hasse.models.embedding_model import Points
from hasse.models.grounding.evidence import Evidence
from hasse.models.grounding.grounded_model import GroundedModel
from hasse.models.grounding.grounded_texts import GroundedTexts
from hasse.models.score import penalties_between
from hasse.models.vocabulary import words
from hasse.service.verdict import SHOWS
from hasse.studies.new_model import new_model
from hasse.studies.photographs.chain_calibration import WORD_WEIGHTS, ChainedImages
from hasse.studies.photographs.chain_evaluation import Pairs, mean_tau
from hasse.studies.photographs.classes import EMPTY, article
from hasse.studies.photographs.things import SKIPPED, Things

KEPT = 640  # coordinates of the trained model, of which a few hundred say next to nothing
_SHOWN = 30  # fewest pictures that tell how captions use a word
_LEAST_AUC = 0.65  # of evidence for pictures whose captions have a word, against others
_NEAREST = 5  # classes to a phrase beside them, of which it has to demand one
_TAUGHT_BY = 5  # captions of pictures that teach what a word looks like
# Chosen by the AUC of names that are there against names left out, on pictures that calibrate.
MASS_WEIGHT = 0.1
UNTAUGHT_WEIGHTS = tuple(step / 100 for step in range(31))
_MOST_CALLED = 0.2  # of untaught names left out that have a picture called likely

LEAST_TAU = 0.3  # of generality and probability, on chains made by rules

Floats = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class NamedPictures:
    """Pictures named by a synset, with points.

    Attributes:
        points: (P, N).
        synsets: (P,), what each shows, and all above it.
        names: the texts that they are compared with, by synset.
    """

    points: Points
    synsets: Sequence[Collection[str]]
    names: Mapping[str, str]

    @classmethod
    def of(cls, things: Things, points: Points, synsets: Sequence[str]) -> Self:
        """Name pictures (P, N) by their synsets and all above them.

        Raises:
            DatasetError: a picture is not named by a synset of WordNet.
        """
        unknown = next((one for one in synsets if one not in things.lexicon.above), None)
        if unknown is not None:
            raise DatasetError(
                f"'{unknown}' is no synset of WordNet 3.0: name pictures as n02084071_dog.jpg"
            )
        shown = [things.lexicon.kinds(one) for one in synsets]
        words = {one: things.lexicon.words[one][0] for known in shown for one in known}
        names = {
            synset: _named(word) for synset, word in sorted(words.items()) if word not in EMPTY
        }
        return cls(points, shown, names)

    def show(self, synsets: Collection[str]) -> NDArray[np.bool_]:
        """Return which pictures show which synsets: (P, S)."""
        return np.array(
            [[synset in shown for synset in synsets] for shown in self.synsets], np.bool_
        )


def most_varying(base: OrderEmbedding, captions: Sequence[str]) -> NDArray[np.int64]:
    """Return the coordinates that vary most over captions, as many of each member: (KEPT,)."""
    spread = base.encode_captions(captions).var(0)
    shares = spread.reshape(base.config.ensemble, -1)
    each = np.argsort(-shares, axis=1, kind="stable")[:, : KEPT // base.config.ensemble]
    first = np.arange(0, len(spread), shares.shape[1])[:, None]
    return np.sort((each + first).ravel())


def misused(
    things: Things,
    base: OrderEmbedding,
    dataset: Dataset,
    features: NDArray[np.floating],
) -> set[str]:
    """Return words that captions use of other things than those that their evidence is of.

    "A game" is rarely the animal that one hunts. Features (I, REGIONS, F) are in the order of the
    dataset's images.
    """
    evidence = Evidence(things.matrix(), base.backbone.classifier())
    seen = evidence.of(np.asarray(features, np.float32))
    of_word: dict[str, set[int]] = defaultdict(set)
    for row, image in enumerate(dataset.images):
        for caption in image.captions:
            for word in words(caption.text):
                of_word[word].add(row)
    found = set()
    for word, rows in of_word.items():
        lemma = things.lexicon.base(word, "noun")
        known = lemma in things.lexicon.senses["noun"] and word not in SKIPPED
        if lemma is None or not known or len(rows) < _SHOWN or not things.is_noun(word):
            continue
        coordinates, is_beside = things.demanded(lemma)
        if coordinates and not is_beside:
            missing = np.square(1 - seen[:, list(coordinates)]).sum(1)
            own = np.zeros(len(seen), np.bool_)
            own[list(rows)] = True
            if _auc(missing, own) < _LEAST_AUC:
                found.add(lemma)
    return found


def taught_words(captions: Iterable[str]) -> set[str]:
    """Return the words that enough captions have for a model to learn what they look like."""
    counts = Counter(word for caption in captions for word in set(words(caption)))
    return {word for word, number in counts.items() if number >= _TAUGHT_BY}


def unlike(
    things: Things, vocabulary: Iterable[str], encode: Callable[[Sequence[str]], Points]
) -> set[str]:
    """Return nouns beside the classes that a trained model finds unlike the classes they demand.

    "Water" is a substance, and so is toilet tissue, but no picture of the one tells of the other.
    """
    shown = things.beside(vocabulary)
    names = [_named(things.lexicon.words[one][0]) for one in things.classes]
    likeness = encode([*map(_named, shown)]) @ encode(names).T
    return {
        lemma
        for (lemma, classes), near in zip(shown.items(), likeness, strict=True)
        if (near > near[list(classes)].max(initial=0)).sum() >= _NEAREST
    }


def _named(lemma: str) -> str:
    return article(lemma.replace("_", " "))


def ground(
    base: Path,
    out: Path,
    things: Things,
    captions: Sequence[str],
    dataset: Dataset,
    features: NDArray[np.floating],
    name: str,
) -> Checkpoint:
    """Write a grounded model, not calibrated yet.

    Args:
        base: the folder of the trained model, which is copied.
        captions: of its training.
        dataset, features: captioned pictures that tell how captions use words; see `misused`.
    """
    with new_model(out):
        shutil.copytree(base, out / BASE, ignore=shutil.ignore_patterns("captioner", "*.md"))
        loaded = learned_model.load(out / BASE, to_learn=True)
        trained = order_embedding_of(loaded)
        known, encode = trained.vocabulary.words, trained.encode_captions
        without = misused(things, trained, dataset, features) | unlike(things, known, encode)
        model = GroundedModel(
            trained,
            most_varying(trained, captions),
            things.matrix(),
            things.demands(known, without, taught_words(captions)),
            trained.backbone.classifier(),
        )
        _save(out, loaded, model, name)
    return learned_model.load(out)


def _save(folder: Path, base: Checkpoint, model: GroundedModel, name: str) -> None:
    """Write a grounded model beside its base, which is in `folder` already, not calibrated."""
    config = {"name": name, "model": asdict(model.config), "base": base.fingerprint}
    stored = {
        "kept": model.learned_coordinates.astype(np.int32),
        "sets": model.evidence.sets.astype(np.bool_),
    }
    others = {
        VOCABULARY: model.demands.to_bytes(),
        CALIBRATION: json.dumps(Calibrations().to_json()).encode(),
        METRICS: b"{}",
    }
    GROUNDED_KIND.save(folder, config, stored, others)


def require_grounded(model: Checkpoint) -> GroundedModel:
    """Return the model of a checkpoint that is grounded.

    Raises:
        DatasetError: it is not.
    """
    if not isinstance(model.model, GroundedModel):
        raise DatasetError(f"{model.folder} is not grounded: name a model that this command wrote")
    return model.model


def calibrate_grounded(
    model: Checkpoint, chained: Sequence[ChainedImages], named: Sequence[NamedPictures]
) -> Calibration:
    """Calibrate truth of pictures: of texts that only name things, and of all others.

    Each kind of pictures counts equally. Things are calibrated on pictures of classes too, most of
    whose pairs are false: a collection has to say that something is not there. The word weight of
    other texts grows until general texts are more probable than specific ones that are as true: on
    the chains of the first pictures, Kendall's tau is at least `LEAST_TAU`. Then the weight of
    untaught words grows until most of their names, left out, are called likely of no picture.

    Raises:
        DatasetError: the model is not grounded, or the images have too few chains.
    """
    grounded = require_grounded(model)
    shown = [ChainPairs.of(grounded, one) for one in chained]
    things = calibrate(
        *([one.of_things()] for one in shown), *([_name_pairs(grounded, one)] for one in named)
    )
    for weight in WORD_WEIGHTS:
        others = calibrate(*([one.of_others(weight)] for one in shown))
        if things is None or others is None:
            raise DatasetError(
                "all pairs of the chains are true, or all are false: give more chains"
            )
        things = replace(things, mass_weight=MASS_WEIGHT)
        found = replace(others, word_weight=weight, things=things, traits=grounded.traits)
        if mean_tau(shown[0].pairs, shown[0].probability(others, things, weight)) >= LEAST_TAU:
            break
    untaught = [_untaught_pairs(grounded, one) for one in named]
    for untaught_weight in UNTAUGHT_WEIGHTS:
        found = replace(found, untaught_weight=untaught_weight)
        likely = [
            found.probability(np.where(true, np.inf, violations).min(0) + untaught_weight) >= SHOWS
            for violations, true in untaught
        ]
        called = np.concatenate(likely)
        if called.sum() <= _MOST_CALLED * len(called):  # also where no name is untaught
            break
    return found


@dataclass(frozen=True, slots=True)
class ChainPairs:
    """Pairs of pictures and texts of chains.

    Attributes:
        pairs: P of them.
        violations, further: (P,), and the numbers of further words of their texts.
        mass: (P,), of the texts that only name things, else 0.
    """

    pairs: Pairs
    violations: Floats
    further: Floats
    mass: Floats

    @classmethod
    def of(cls, model: GroundedModel, chained: ChainedImages) -> Self:
        """Compare the pictures and texts of chains."""
        pairs, violations, further = chained.pairs(model.encode_captions, "order")
        mass = np.array([model.traits(text).mass for text in pairs.texts])[pairs.text_rows]
        return cls(pairs, violations, further, mass)

    def of_things(self) -> Block:
        """Return the pairs of texts that only name things."""
        named = self.mass > 0
        added = mass_added(MASS_WEIGHT, self.mass[named])
        return self.violations[named] + added, self.pairs.true[named]

    def of_others(self, word_weight: float) -> Block:
        """Return the pairs of other texts."""
        other = self.mass == 0
        added = word_weight * self.further[other]
        return self.violations[other] + added, self.pairs.true[other]

    def probability(self, others: Calibration, things: Calibration, word_weight: float) -> Floats:
        """Return the probability of each pair by two curves: (P,)."""
        found = np.empty(len(self.mass))
        found[self.mass > 0] = things.probability(self.of_things()[0])
        found[self.mass == 0] = others.probability(self.of_others(word_weight)[0])
        return found


def _name_pairs(model: GroundedModel, named: NamedPictures) -> Block:
    """Return the pairs of named pictures and all names that only name things."""
    texts = {synset: text for synset, text in named.names.items() if model.traits(text).mass}
    mass = np.array([model.traits(text).mass for text in texts.values()])
    points = model.encode_captions(list(texts.values()))
    violations = penalties_between("order", named.points, points).astype(np.float64)
    return violations + mass_added(MASS_WEIGHT, mass), named.show(texts)


def _untaught_pairs(model: GroundedModel, named: NamedPictures) -> Block:
    """Return the pairs of pictures and names of what they show, as if no class were known.

    Only names whose last word is untaught are paired: violations are by the learned part alone.
    """
    known = model.demands
    nouns = known.nouns.union(known.classes, known.beside, known.senses)
    ungrounded = replace(known, classes={}, beside={}, senses={}, nouns=nouns)
    texts = {
        synset: text
        for synset, text in named.names.items()
        if ungrounded.untaught(text) == 1 and model.traits(text).mass
    }
    points = GroundedTexts(model.base, model.learned_coordinates, ungrounded).encode_captions(
        list(texts.values())
    )
    return penalties_between("order", named.points, points).astype(np.float64), named.show(texts)


def _auc(missing: Floats, own: NDArray[np.bool_]) -> float:
    """Return how often less is missing in a picture of its own than in another."""
    others = np.sort(missing[~own])
    below = np.searchsorted(others, missing[own], "left") + np.searchsorted(
        others, missing[own], "right"
    )
    return 1 - float(below.mean()) / 2 / max(1, len(others))
