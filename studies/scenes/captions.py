"""Makes and measures the captions that a model composes for drawn scenes."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from hasse.models.captioning.phrases import PhraseWriter, save
from hasse.models.checkpoints.checkpoint import Checkpoint
from hasse.models.embedding_model import Points
from hasse.scenes import Scene, draw, scene_and_captions
from hasse.scenes.reading import names_main_thing, read
from hasse.studies.phrase_limits import limits_of
from hasse.studies.scenes.usual_phrases import USUAL, is_true_of

Report = Callable[[int, int], None]
_SIZE = 192  # pixels of a drawn scene
_BATCH = 50


@dataclass(frozen=True, slots=True)
class CaptionFigures:
    """Figures of the captions of drawn scenes, in percent.

    Attributes:
        scenes: number of scenes.
        described: scenes that got a caption.
        true: first captions that are true.
        main_thing: first captions that are true, and name a main thing and what it does.
        all_true: captions that are true, the first and the others.
    """

    scenes: int
    described: float
    true: float
    main_thing: float
    all_true: float


def make_phrases(model: Checkpoint, number: int, report: Report) -> None:
    """Write phrases into the folder of a model, with limits by scenes of the training split."""
    scenes, points = _encode_scenes(model, "train", number, report)
    true = np.array([[is_true_of(text, scene) for text in USUAL.limited] for scene in scenes])
    save(USUAL, limits_of(USUAL, points, model, true), model)


def measure(writer: PhraseWriter, number: int, report: Report) -> CaptionFigures:
    """Measure the captions that are written for scenes of the test split."""
    scenes, points = _encode_scenes(writer.encoder, "test", number, report)
    first_true, named, all_true = [], [], []
    for scene, point in zip(scenes, points, strict=True):
        texts = [caption.text for caption in writer.describe(point)]
        true = [is_true_of(text, scene) for text in texts]
        all_true += true
        first_true += true[:1]
        named += [is_first and names_main_thing(read(texts[0]), scene) for is_first in true[:1]]
    return CaptionFigures(
        number,
        described=100 * len(first_true) / number,
        true=_percent(first_true),
        main_thing=_percent(named),
        all_true=_percent(all_true),
    )


def _encode_scenes(
    model: Checkpoint, split: str, number: int, report: Report
) -> tuple[list[Scene], Points]:
    """Draw and encode the first scenes of a split: (number, N)."""
    scenes = [scene_and_captions(0, split, at)[0] for at in range(number)]
    points = []
    for start in range(0, number, _BATCH):
        batch = [draw(scene, _SIZE) for scene in scenes[start : start + _BATCH]]
        points.append(model.model.encode_images(batch))
        report(start + len(batch), number)
    return scenes, np.concatenate(points)


def _percent(true: list[bool]) -> float:
    return 100 * sum(true) / max(1, len(true))
