"""The model and the image source that a sync encodes with."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from hasse.models.checkpoints.checkpoint import Checkpoint
    from hasse.service.writing.image_source import ImageSource


@dataclass(frozen=True, slots=True)
class Encoders:
    """The model, loaded when it is first needed, and how it reads pictures."""

    load: Callable[[], Checkpoint]
    source: Callable[[], ImageSource]
