"""The long work behind commands: training, evaluation, and passes over a whole index."""

from __future__ import annotations

from typing import TYPE_CHECKING

from hasse.models.evaluation.meanings import READERS, Meanings

if TYPE_CHECKING:
    from hasse.models.evaluation.ground_truth import GroundTruth


def _read_scenes(images: Meanings, captions: Meanings) -> GroundTruth | None:
    from hasse.scenes.truth import SceneTruth

    return SceneTruth.read(images, captions)


READERS.append(_read_scenes)
