"""What encodes the pictures and captions of an index, loaded when it is first needed."""

from __future__ import annotations

import functools
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from hasse.index.store import Index

if TYPE_CHECKING:
    from hasse.models.checkpoints.checkpoint import Checkpoint
    from hasse.service.writing.image_source import ImageSource


@dataclass(frozen=True, slots=True)
class Encoders:
    """What encodes pictures and captions. The model is loaded when it is first needed."""

    load: Callable[[], Checkpoint]
    source: Callable[[], ImageSource]

    @classmethod
    def of(
        cls,
        index: Index,
        model: Path | None,
        load_from: Callable[[Path], Checkpoint],
        source: Callable[[], ImageSource],
    ) -> Encoders:
        """Return what encodes for an index: `model`, or by default the model it remembers."""

        @functools.cache
        def load() -> Checkpoint:
            from hasse.models.checkpoints import named_models

            own = index.model
            found = (
                named_models.remembered(own.name, own.fingerprint, own.checkpoint)
                if model is None
                else named_models.find(model)
            )
            loaded = load_from(found)
            index.require_model(loaded.fingerprint)
            return loaded

        return cls(load, source)
