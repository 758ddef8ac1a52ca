"""From a trained model of photographs to one that is grounded in a classifier's classes."""

from __future__ import annotations

import shutil
from collections import defaultdict
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Self

import numpy as np
import torch
from numpy.typing import NDArray

from hasse.models.checkpoints import checkpoint
from hasse.models.checkpoints.checkpoint import BASE, Checkpoint
from hasse.models.checkpoints.model_folder import new_model
from hasse.models.datasets import Dataset, DatasetError
from hasse.models.embedding_model import Points
from hasse.models.evaluation.calibration import Calibration, calibrate
from hasse.models.grounding.evidence import Evidence, classifier_of
from hasse.models.grounding.grounded_model import GroundedModel
from hasse.models.model import OrderEmbedding
from hasse.models.score import penalties_between
from hasse.models.vocabulary import words
from hasse.studies.photographs.chain_calibration import WORD_WEIGHTS, ChainedImages
from hasse.studies.photographs.chain_evaluation import mean_tau
from hasse.studies.photographs.classes import EMPTY, article
from hasse.studies.photographs.things import SKIPPED, Things

KEPT = 640  # coordinates of the trained model, of which a few hundred say next to nothing
_SHOWN = 5  # fewest pictures that tell how captions use a word
_LEAST_AUC = 0.65  # of evidence for pictures whose captions have a word, against others
# The share of pairs of named pictures and names that calibrate: they are many, and far more often
# false than those of captions.
_OF_NAMED = 0.1
TEXT_PAIRS = 1600  # to calibrate whether texts follow from texts
MEASURED_PAIRS = 400  # of other nouns

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
            synset: article(word.replace("_", " "))
            for synset, word in sorted(words.items())
            if word not in EMPTY
        }
        return cls(points, shown, names)


def most_varying(base: OrderEmbedding, captions: Sequence[str]) -> torch.Tensor:
    """Return the coordinates that vary most over captions, as many of each member: (KEPT,)."""
    spread = torch.from_numpy(base.encode_captions(captions).var(0))
    shares = spread.reshape(base.config.ensemble, -1)
    each = torch.topk(shares, KEPT // base.config.ensemble, dim=1).indices
    first = torch.arange(0, len(spread), shares.shape[1])[:, None]
    return (each + first).flatten().sort().values


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
    evidence = Evidence(things.matrix(), classifier_of(base.config.backbone))
    with torch.inference_mode():
        seen = evidence(torch.from_numpy(np.asarray(features, np.float32))).numpy()
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
        loaded = checkpoint.load(out / BASE, to_learn=True)
        trained = loaded.trained
        without = misused(things, trained, dataset, features)
        model = GroundedModel(
            trained,
            most_varying(trained, captions),
            things.matrix(),
            things.demands(trained.vocabulary.words, without),
        )
        checkpoint.save_grounded(out, loaded, model, name)
    return checkpoint.load(out)


def require_grounded(model: Checkpoint) -> GroundedModel:
    """Return the model of a checkpoint that is grounded.

    Raises:
        DatasetError: it is not.
    """
    if not isinstance(model.model, GroundedModel):
        raise DatasetError(f"{model.folder} is not grounded: name a model that this command wrote")
    return model.model


def calibrate_grounded(
    model: Checkpoint, chained: ChainedImages, named: Sequence[NamedPictures]
) -> Calibration:
    """Calibrate truth of pictures: of texts that only name things, and of all others.

    Things are calibrated on pictures of classes too, most of whose pairs are false: a collection
    has to say that something is not there. Other texts keep the curve of the trained model, which
    was measured on more kinds of pictures. Their word weight grows until general texts are more
    probable than specific ones that are as true: Kendall's tau is at least `LEAST_TAU`.

    Raises:
        DatasetError: the model is not grounded, or its base not calibrated, or the images have too
            few chains.
    """
    grounded = require_grounded(model)
    known = None if model.base is None else model.base.calibration.image
    if known is None:
        raise DatasetError(f"calibrate the model that {model.folder} is grounded on first")
    things = calibrate(_thing_pairs(grounded, chained, named))
    if things is None:
        raise DatasetError("all pairs of the chains are true, or all are false: give more chains")
    pairs, violations, _ = chained.pairs(grounded.encode_captions, "order")
    for weight in (one for one in WORD_WEIGHTS if one >= known.word_weight):
        found = replace(known, word_weight=weight, things=things, mass=grounded.mass)
        curves = [found.of(text) for text in pairs.texts]
        each = zip(pairs.text_rows, violations, strict=True)
        probability = np.array([float(curves[row].probability(one)) for row, one in each])
        if mean_tau(pairs, probability) >= LEAST_TAU:
            break
    return found


def _thing_pairs(
    model: GroundedModel, chained: ChainedImages, named: Sequence[NamedPictures]
) -> Iterator[tuple[Floats, NDArray[np.bool_]]]:
    """Yield the shares of what texts demand that is missing, and which pairs are true."""
    pairs, violations, _ = chained.pairs(model.encode_captions, "order")
    mass = np.array([model.mass(text) for text in pairs.texts])[pairs.text_rows]
    names_things = mass > 0
    yield violations[names_things] / mass[names_things], pairs.true[names_things]
    draw = np.random.default_rng(0)
    for one in named:
        texts = {synset: text for synset, text in one.names.items() if model.mass(text)}
        demanded = np.array([model.mass(text) for text in texts.values()])
        points = model.encode_captions(list(texts.values()))
        shares = penalties_between("order", one.points, points) / demanded
        true = np.array([[synset in known for synset in texts] for known in one.synsets])
        drawn = draw.random(true.shape) < _OF_NAMED
        yield shares[drawn].astype(np.float64), true[drawn]


def _auc(missing: Floats, own: NDArray[np.bool_]) -> float:
    """Return how often less is missing in a picture of its own than in another."""
    others = np.sort(missing[~own])
    below = np.searchsorted(others, missing[own], "left") + np.searchsorted(
        others, missing[own], "right"
    )
    return 1 - float(below.mean()) / 2 / max(1, len(others))
