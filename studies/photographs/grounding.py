"""From a trained model of photographs to one that is grounded in a classifier's classes."""

from __future__ import annotations

import json
import shutil
from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Self

import numpy as np
from numpy.typing import NDArray

from hasse.lab.checkpoints import learned_model
from hasse.lab.checkpoints.learned_model import order_embedding_of
from hasse.lab.encoders.order_embedding import OrderEmbedding
from hasse.models.calibration import Calibrations
from hasse.models.checkpoints.checkpoint import BASE, GROUNDED_KIND, Checkpoint
from hasse.models.checkpoints.model_folder import CALIBRATION, METRICS, VOCABULARY
from hasse.models.datasets import Dataset, DatasetError
from hasse.models.embedding_model import Points
from hasse.models.grounding.evidence import Evidence
from hasse.models.grounding.grounded_model import GroundedModel
from hasse.models.grounding.part_scores import PartScores
from hasse.models.grounding.taught import TaughtWords
from hasse.models.vocabulary import words
from hasse.studies.new_model import new_model
from hasse.studies.photographs.chain_calibration import ChainedImages
from hasse.studies.photographs.classes import EMPTY, article
from hasse.studies.photographs.part_calibration import Judged, fit_scores
from hasse.studies.photographs.taught_demands import ordered, with_taught
from hasse.studies.photographs.teaching import Taught
from hasse.studies.photographs.things import SKIPPED, Things

KEPT = 640  # coordinates of the trained model, of which a few hundred say next to nothing
_SHOWN = 30  # fewest pictures that tell how captions use a word
_LEAST_AUC = 0.65  # of evidence for pictures whose captions have a word, against others
_NEAREST = 5  # classes to a phrase beside them, of which it has to demand one
# Weight of the pictures that do not show a name, to that of those that do: a collection has to say
# that something is not there.
_ABSENT = 6.0

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
    taught: Taught | None = None,
) -> Checkpoint:
    """Write a grounded model, not calibrated yet.

    Args:
        base: the folder of the trained model, which is copied.
        captions: of its training.
        dataset, features: captioned pictures that tell how captions use words; see `misused`.
        taught: words that were learned from pictures.
    """
    with new_model(out):
        shutil.copytree(base, out / BASE, ignore=shutil.ignore_patterns("captioner", "*.md"))
        loaded = learned_model.load(out / BASE, to_learn=True)
        trained = order_embedding_of(loaded)
        known, encode = trained.vocabulary.words, trained.encode_captions
        without = misused(things, trained, dataset, features) | unlike(things, known, encode)
        demands = things.demands(known, without)
        words_of = None
        if taught is not None:
            taught = ordered(taught, things.lexicon)
            demands = with_taught(demands, taught, things)
            words_of = TaughtWords(taught.weight, taught.bias, taught.kinds)
        model = GroundedModel(
            trained,
            most_varying(trained, captions),
            things.matrix(),
            demands,
            trained.backbone.classifier(),
            words_of,
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
    taught = model.evidence.taught
    if taught is not None:
        stored |= {
            "taught.weight": taught.weight.astype(np.float16),
            "taught.bias": taught.bias.astype(np.float32),
            "taught.kinds": taught.kinds.astype(np.int32),
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
) -> PartScores:
    """Fit the scores of parts of texts to pictures with chains, and to pictures named by classes.

    Each kind of pictures counts equally.

    Raises:
        DatasetError: the model is not grounded, or the images have too few chains.
    """
    grounded = require_grounded(model)
    return fit_scores(
        grounded,
        [one.judged() for one in chained],
        [_judged_names(grounded, one) for one in named],
    )


def _judged_names(model: GroundedModel, named: NamedPictures) -> Judged:
    """Return the pairs of named pictures and all names of classes, or above them."""
    texts = {
        synset: text
        for synset, text in named.names.items()
        if any(unit.told and unit.told.classes for unit in model.demands.units(words(text)))
    }
    true = named.show(texts)
    rows, columns = np.indices(true.shape)
    return Judged(
        named.points, list(texts.values()), rows.ravel(), columns.ravel(), true.ravel(), _ABSENT
    )


def _auc(missing: Floats, own: NDArray[np.bool_]) -> float:
    """Return how often less is missing in a picture of its own than in another."""
    others = np.sort(missing[~own])
    below = np.searchsorted(others, missing[own], "left") + np.searchsorted(
        others, missing[own], "right"
    )
    return 1 - float(below.mean()) / 2 / max(1, len(others))
