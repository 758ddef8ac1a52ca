"""The model and the image source that a sync encodes with."""

from __future__ import annotations

import functools
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from hasse.index.store import Index
from hasse.service.settings import Settings

if TYPE_CHECKING:
    from hasse.models.checkpoints.checkpoint import Checkpoint
    from hasse.service.writing.image_source import ImageSource


@dataclass(frozen=True, slots=True)
class Encoders:
    """The model, loaded when it is first needed, and how it reads pictures."""

    load: Callable[[], Checkpoint]
    source: Callable[[], ImageSource]

    @classmethod
    def of(cls, index: Index, settings: Settings, source: Callable[[], ImageSource]) -> Encoders:
        """Return the encoders of an index; `hasse.service.core.loading` loads the model."""

        @functools.cache
        def load() -> Checkpoint:
            from hasse.service.core.loading import ModelLoader

            return ModelLoader(settings).of(index)

        return cls(load, source)
