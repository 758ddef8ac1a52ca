"""What encodes the pictures and captions of an index, loaded when it is first needed."""

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
    """What encodes pictures and captions. The model is loaded when it is first needed."""

    load: Callable[[], Checkpoint]
    source: Callable[[], ImageSource]

    @classmethod
    def of(cls, index: Index, settings: Settings, source: Callable[[], ImageSource]) -> Encoders:
        """Return what encodes for an index: see `hasse.service.runtime.loading.ModelLoader`."""

        @functools.cache
        def load() -> Checkpoint:
            from hasse.service.runtime.loading import ModelLoader

            return ModelLoader(settings).of(index)

        return cls(load, source)
