"""Image - word + word: how often is that the picture with one thing exchanged, and all else kept?

    python -m hasse.studies.tables.regularities scenes data/scenes --out data/regularities
    python -m hasse.studies.tables.regularities photographs data/flickr8k MODEL... --features FOLDER

Kiros et al. (2014, section 3.2) show by examples that a sum of words keeps such regularities and
that an LSTM does not. Scenes know their meaning, so it can be counted. Of a scene with one thing
of some colour, the picture is asked for that shows the same in another colour. The collection
holds it, drawn anew; beside it the same in all other colours, the same in the right colour under
another sky or in another place, and all scenes of the split. A hit is right if every fact of it is
as asked.

Three encoders of captions are trained alike, on the training split and features of the built-in
model's network: a sum of words and an LSTM with the score cosine, and a GRU with the order. Words
are exchanged alone ("red" for "blue") or in a phrase ("a red ball" for "a blue ball").

Photographs know their captions alone: a hit is right if a caption names the thing in the new
colour and none in the old one. Of every image, things are taken that two of its captions name in
one colour.
"""

from __future__ import annotations

import argparse
import re
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from random import Random

import numpy as np
import torch
from numpy.typing import NDArray

from hasse.lab.checkpoints.learned_model import load, order_embedding_of
from hasse.lab.encoders.order_embedding import OrderEmbedding
from hasse.lab.features.source import with_features
from hasse.lab.kernels.violations import penalties
from hasse.lab.training.config import TrainingConfig
from hasse.lab.training.inputs import FeatureInput, TrainingInputs
from hasse.lab.training.trainer import RetrievalTraining
from hasse.models.analogy import REST_WEIGHT, substitute
from hasse.models.checkpoints.checkpoint import Checkpoint
from hasse.models.checkpoints.named_models import pretrained
from hasse.models.datasets import Dataset
from hasse.models.datasets import load as load_dataset
from hasse.models.embedding_model import EmbeddingModel, Points
from hasse.models.encoders.model_config import ModelConfig
from hasse.models.images.decoding import open_picture
from hasse.scenes import Scene, draw
from hasse.scenes.concepts import ANIMAL_COLOURS, SKIES, THING_COLOURS, leaves
from hasse.service.writing.image_source import ImageSource
from hasse.studies.grounding.sentence_model import SentenceModelConfig
from hasse.studies.tables.report import markdown, parser_of, percent, report_of, say

FIRST = 4  # hits that are looked at, as in the paper
NEAREST = 10  # hits that are sorted again by their distance to their mean
COLOURS = {**THING_COLOURS, **ANIMAL_COLOURS}
NAMES = ("black", "white", "brown", "red", "blue", "green", "yellow", "orange", "pink", "purple")
HEADS = (
    "exchanged",
    "exchange holds, first",
    "all else kept, first",
    "one of four",
    "sorted again",
)
Features = NDArray[np.float32]
Share = NDArray[np.float64]

_BASE = TrainingConfig(
    epochs=10,
    patience=10,
    batch_size=128,
    captions_per_image=4,
    learning_rate=2e-3,
    schedule="cosine",
    warm_up=100,
)
_MODEL = ModelConfig(image_pooling="max", dimension=256, word_dimension=256, max_words=64)
_COSINE = SentenceModelConfig(**asdict(replace(_MODEL, score="cosine", word_range=0.08)))
ENCODERS: Mapping[str, TrainingConfig] = {
    "linear": replace(_BASE, model=replace(_COSINE, text_encoder="sum"), margin=0.2),
    "lstm": replace(_BASE, model=replace(_COSINE, text_encoder="lstm"), margin=0.2),
    "order": replace(_BASE, model=replace(_MODEL, word_range=1.0, caption_pooling="max")),
}


@dataclass(frozen=True, slots=True)
class Question:
    """A picture, a part to add, a part to remove, and the right answers."""

    row: int
    word: tuple[str, str]  # put in, taken out
    phrase: tuple[str, str]
    changed: frozenset[int]  # what is asked for holds of these
    right: frozenset[int]  # and of these all else is kept


def counterfactuals(scenes: Sequence[Scene], number: int) -> tuple[list[Scene], list[Question]]:
    """Return the scenes that are drawn for so many questions, and the questions.

    Rows of questions count the given scenes first.
    """
    rng = Random(0)
    drawn: list[Scene] = []
    asked: list[tuple[int, int, str]] = []
    for row in rng.sample(range(len(scenes)), len(scenes)):
        situation = scenes[row].situation
        swaps = [
            (at, colour)
            for at, entity in enumerate(situation.entities)
            if sum(other.kind == entity.kind for other in situation.entities) == 1
            and sum(other.colour == entity.colour for other in situation.entities) == 1
            for colour in COLOURS.get(entity.kind, ())
            if entity.colour and colour != entity.colour
        ]
        if not swaps or len(asked) == number:
            continue
        at, wanted = rng.choice(swaps)
        asked.append((row, at, wanted))
        for colour in COLOURS[situation.entities[at].kind]:
            if colour != situation.entities[at].colour:
                coloured = _coloured(scenes[row], at, colour)
                drawn.append(Scene(coloured.situation, rng.getrandbits(31)))
        elsewhere = _coloured(scenes[row], at, wanted).situation
        if situation.sky is None:
            other = rng.choice([place for place in leaves("indoors") if place != situation.place])
            elsewhere = replace(elsewhere, place=other)
        else:
            skies = [sky for sky in SKIES if sky not in (situation.sky, "rainy")]
            elsewhere = replace(elsewhere, sky=rng.choice(skies))
        drawn.append(Scene(elsewhere, rng.getrandbits(31)))
    every = [scene.situation for scene in (*scenes, *drawn)]
    questions = []
    for row, at, wanted in asked:
        entity = scenes[row].situation.entities[at]
        target = _coloured(scenes[row], at, wanted).situation
        old, new = (f"a {colour} {entity.kind}" for colour in (entity.colour, wanted))
        changed = frozenset(
            other
            for other, one in enumerate(every)
            if any(e.kind == entity.kind and e.colour == wanted for e in one.entities)
            and not any(e.kind == entity.kind and e.colour == entity.colour for e in one.entities)
        )
        right = frozenset(other for other in changed if every[other] == target)
        questions.append(Question(row, (wanted, str(entity.colour)), (new, old), changed, right))
    return drawn, questions


def _coloured(scene: Scene, at: int, colour: str) -> Scene:
    entities = list(scene.situation.entities)
    entities[at] = replace(entities[at], colour=colour)
    return replace(scene, situation=replace(scene.situation, entities=tuple(entities)))


def questions_in_captions(dataset: Dataset) -> list[Question]:
    """Return exchanges of colours of things that two captions of an image name."""
    named: list[dict[tuple[str, str], int]] = []
    pattern = re.compile(rf"\b({'|'.join(NAMES)}) ([a-z]{{3,}})\b")
    for image in dataset.images:
        counts: dict[tuple[str, str], int] = {}
        for caption in image.captions:
            for pair in set(pattern.findall(caption.text.lower())):
                if pair[1] not in NAMES and pair[1] != "and":
                    counts[pair] = counts.get(pair, 0) + 1
        named.append(counts)
    questions = []
    for row, counts in enumerate(named):
        for (old, thing), times in counts.items():
            for new in NAMES if times >= 2 else ():
                right = frozenset(
                    other
                    for other, found in enumerate(named)
                    if found.get((new, thing), 0) and (old, thing) not in found and other != row
                )
                if new != old and (new, thing) not in counts and right:
                    phrase = (f"a {new} {thing}", f"a {old} {thing}")
                    questions.append(Question(row, (new, old), phrase, right, right))
    return Random(0).sample(questions, min(500, len(questions)))


def ways(model: EmbeddingModel) -> dict[str, tuple[str, float]]:
    """Return the ways to exchange: of words or phrases, and the weight of the rest."""
    if model.config.score == "cosine":
        return {"word": ("word", 1.0), "phrase": ("phrase", 1.0)}
    return {
        f"{kind}, {rest_weight:g} stays": (kind, rest_weight)
        for kind in ("word", "phrase")
        for rest_weight in (REST_WEIGHT, 0.9, 1.0)
    }


def show(name: str, model: EmbeddingModel, images: Points, questions: Sequence[Question]) -> None:
    """Print a row for each way: how often the first hit, or one of four, is right, in percent."""
    rows = []
    points = torch.from_numpy(images)
    texts = list(dict.fromkeys(text for q in questions for text in (*q.word, *q.phrase)))
    encoded = dict(zip(texts, model.encode_captions(texts), strict=True))
    for way, (kind, rest_weight) in ways(model).items():
        shares: list[list[bool]] = []
        for question in questions:
            plus, minus = getattr(question, kind)
            asked = substitute(
                model.config.score,
                images[question.row],
                encoded[plus][None],
                encoded[minus][None],
                rest_weight,
            )
            found = penalties(model.config.score, points, torch.from_numpy(asked)[None])[:, 0]
            found[question.row] = torch.inf
            nearest = found.topk(NEAREST, largest=False).indices
            near = points[nearest]
            middle = (near - near.mean(0)).square().sum(1)
            again = nearest[middle.argsort(stable=True)].tolist()
            hits = nearest.tolist()
            shares.append(
                [
                    hits[0] in question.changed,
                    hits[0] in question.right,
                    any(hit in question.right for hit in hits[:FIRST]),
                    again[0] in question.right,
                ]
            )
        columns: Share = np.array(shares, np.float64)
        rows.append([way, *(percent(column) for column in columns.T)])
    print(f"\n**{name}**: {len(questions)} questions over {len(images):,} pictures\n")
    print(markdown(HEADS, rows), flush=True)


def seen(network: OrderEmbedding, pictures: Sequence[Path | Scene]) -> Features:
    """Return the features of every cell that the built-in network sees: (n, cells, F)."""
    found = []
    for start in range(0, len(pictures), 64):
        batch = [
            draw(each, 192) if isinstance(each, Scene) else open_picture(each)
            for each in pictures[start : start + 64]
        ]
        pixels = np.stack([network.preprocessing.apply(picture) for picture in batch])
        with torch.inference_mode():
            found.append(network.images.features(torch.from_numpy(pixels)).numpy())
        say(f"{start + len(batch):,} of {len(pictures):,} pictures seen")
    return np.concatenate(found)


def learned(
    config: TrainingConfig,
    folder: Path,
    network: OrderEmbedding,
    parts: Sequence[tuple[Dataset, FeatureInput]],
) -> Checkpoint:
    """Train one encoder of captions on features, or find it trained."""
    model = replace(config.model, backbone=network.config.backbone)
    config = replace(config, model=model, preprocessing=network.preprocessing)
    weights = dict(network.images.backbone.state_dict())
    training = RetrievalTraining(config, folder, TrainingInputs(parts[0], parts[1], weights))
    return training.train(report_of(folder.name))


def of_scenes(options: argparse.Namespace) -> None:
    """Train the encoders and print their tables."""
    network = order_embedding_of(load(pretrained("scenes"), to_learn=True))
    dataset = load_dataset(options.dataset)
    parts = []
    for split, most in (("train", options.images), ("val", 300)):
        part = dataset.split(split)
        part = replace(part, images=part.images[:most])
        ids = np.array([image.id for image in part.images])
        parts.append((part, FeatureInput(ids, seen(network, [i.path for i in part.images]))))
    tested = dataset.split(options.split)
    scenes = [Scene.from_json(image.meaning or {}) for image in tested.images]
    drawn, questions = counterfactuals(scenes, options.questions)
    features = seen(network, [*(image.path for image in tested.images), *drawn])
    for name, config in ENCODERS.items():
        model = learned(config, options.out / name, network, parts).model
        show(name, model, model.encode_features(features), questions)
    built_in = load(pretrained("scenes")).model
    show("built in", built_in, built_in.encode_features(features), questions)


def of_photographs(options: argparse.Namespace) -> None:
    """Print the tables of trained models."""
    dataset = load_dataset(options.dataset).split(options.split)
    questions = questions_in_captions(dataset)
    for folder in options.models:
        found = load(folder)
        batches = with_features(ImageSource(), options.features).encode(found.model, dataset.images)
        images = np.concatenate([batch.points for batch in batches])
        show(found.name, found.model, images, questions)


def main() -> None:
    """Print the tables."""
    parser = parser_of(__doc__)
    kinds = parser.add_subparsers(required=True)
    scenes = kinds.add_parser("scenes")
    scenes.add_argument("dataset", type=Path, help="made by 'hasse lab data import scenes'")
    scenes.add_argument("--out", type=Path, required=True, help="where the models are kept")
    scenes.add_argument("--images", type=int, default=4000, help="to learn from")
    scenes.add_argument("--split", default="test", help="the scenes asked about")
    scenes.add_argument("--questions", type=int, default=300)
    scenes.set_defaults(run=of_scenes)
    photographs = kinds.add_parser("photographs")
    photographs.add_argument("dataset", type=Path, help="captioned images")
    photographs.add_argument("models", type=Path, nargs="+", help="folders of checkpoints")
    photographs.add_argument("--features", type=Path, help="made by 'hasse lab features'")
    photographs.add_argument("--split", default="val", help="the images asked about")
    photographs.set_defaults(run=of_photographs)
    options = parser.parse_args()
    options.run(options)


if __name__ == "__main__":
    main()
