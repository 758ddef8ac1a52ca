"""Registry of the readers of meanings, which datasets hold as plain JSON."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from hasse.models.evaluation.ground_truth import GroundTruth

Meanings = Sequence[Mapping[str, Any]]
# Takes the meanings of all images and captions; returns None if it does not know their kind.
MeaningReader = Callable[[Meanings, Meanings], "GroundTruth | None"]
READERS: list[MeaningReader] = []
