"""Queue of captions and pictures; the one thread that owns the device encodes them in batches."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Literal, NamedTuple, TypeAlias

import numpy as np

from hasse.index.types import Points
from hasse.models.embedding_model import EmbeddingModel, Words
from hasse.models.errors import HasseError
from hasse.models.images.preprocessing import Pixels
from hasse.service.core.batching import Batcher
from hasse.service.errors import ServiceError, invalid, shortened
from hasse.service.settings import Settings
from hasse.service.telemetry.stages import Stages

if TYPE_CHECKING:
    from prometheus_client import Histogram

    from hasse.models.grounding.demands import Phrase


class EncodeKey(NamedTuple):
    """Key of a batch: pictures, or captions with about the same number of words."""

    kind: Literal["caption", "picture", "enlarged picture"]
    words: int = 0


class BoxQuery(NamedTuple):
    """An enlarged picture, and the phrases to find boxes for."""

    pixels: Pixels
    phrases: tuple[Phrase, ...]


Item: TypeAlias = str | Pixels | BoxQuery


# Captions up to this many words share a batch; above it limits double, since a batch takes as long
# as its longest caption. One batch of short and long captions takes no longer than two batches:
# fifteen of up to 14 words 0.8 ms, one of 60 0.9 ms, all of them 1.6 ms on a core.
_SHORT_WORDS = 64
_WORDS_IN_ERROR = 10  # unknown words that an error lists


def check_caption(caption: str, settings: Settings, field: str = "caption") -> None:
    """Refuse a caption of a query that is too long or blank.

    Raises:
        ServiceError: `invalid`, which names the field.
    """
    check_stored_caption(caption, settings, field)
    if len(caption.split()) > settings.caption_words:
        raise invalid(field, f"more than {settings.caption_words:,} words")


def check_stored_caption(caption: str, settings: Settings, field: str) -> None:
    """Refuse a caption of an image that is too long or blank; raises as `check_caption`.

    It may have any number of words: it is stored and shown whole, but models read the first ones.
    """
    if len(caption) > settings.caption_characters:
        raise invalid(field, f"more than {settings.caption_characters:,} characters")
    if "\0" in caption:
        raise invalid(field, "the caption holds a NUL character")
    if not caption.strip():
        raise invalid(field, "the caption is blank: say what the images show")


def check_query(text: str, vocabulary: Words, settings: Settings, field: str = "caption") -> None:
    """Refuse a caption that is too long or blank, or has no word that the model knows.

    All captions without a known word have the same point, so their hits mean nothing.

    Raises:
        ServiceError: `invalid`, which names the field and the words.
    """
    check_caption(text, settings, field)
    if vocabulary.knows(text):
        return
    unknown = vocabulary.unknown_words(text)
    if not unknown:
        raise invalid(field, f"Hasse reads words, and there are none in “{shortened(text)}”")
    *first_words, last = [f"“{shortened(word)}”" for word in unknown[:_WORDS_IN_ERROR]]
    words = f"words {', '.join(first_words)} and {last}" if first_words else f"word {last}"
    raise invalid(field, f"Hasse has never seen the {words}: say it in other words")


class NotFiniteError(HasseError):
    """The model returned a point with coordinates that are not finite."""


class EncodingQueue:
    """Queue of items for both encoders of a model.

    All methods raise ServiceError: `encoding_failed` if the model raises for this item, `not_ready`
    if the thread has stopped.
    """

    def __init__(
        self,
        model: EmbeddingModel,
        settings: Settings,
        *,
        batch_size: Histogram | None = None,
        on_death: Callable[[], None] = lambda: None,
    ) -> None:
        self._model = model
        self._batch_size = batch_size
        pictures = {"picture": settings.picture_batch, "enlarged picture": 1}
        sizes = {"caption": settings.caption_batch, **pictures}
        self.batcher: Batcher[EncodeKey, Item, Points] = Batcher(
            "encoder", self._run, size=lambda key: sizes[key.kind], on_death=on_death
        )

    async def encode(self, item: Item, stages: Stages) -> Points:
        """Return the point of a caption, or of a preprocessed picture: (N,) float32.

        For `BoxQuery`, return the boxes of `hasse.models.grounding.boxes.find_boxes`.
        """
        done = await self.batcher.submit(_key_of(item), item)
        stages.wait("encoder", done.submitted, done.started)
        stages.add("encode", done.started, done.ended, done.batch)
        return done.result

    async def captions(self, texts: Sequence[str], stages: Stages) -> Points:
        """Return the points of captions: (B, N) float32."""
        if not texts:
            return np.empty((0, self._model.config.dimension), np.float32)
        submit = self.batcher.submit
        results = await asyncio.gather(*(submit(_key_of(text), text) for text in texts))
        # They waited and ran concurrently: the longest counts.
        longest_wait = max(results, key=lambda done: done.waited)
        longest_run = max(results, key=lambda done: done.ended - done.started)
        stages.wait("encoder", longest_wait.submitted, longest_wait.started)
        stages.add("encode", longest_run.started, longest_run.ended, longest_run.batch)
        return np.stack([done.result for done in results])

    def _run(self, key: EncodeKey, items: list[Item]) -> list[Points]:
        if self._batch_size is not None:
            self._batch_size.labels(key.kind).observe(len(items))
        try:
            points = self._points(key, items)
            if not all(np.isfinite(point).all() for point in points):
                raise NotFiniteError("the model returned coordinates that are not finite")
        except Exception as error:
            raise ServiceError(
                "encoding_failed", f"the model could not encode this {key.kind}"
            ) from error
        return points

    def _points(self, key: EncodeKey, items: list[Item]) -> list[Points]:
        if key.kind == "caption":
            texts = [item for item in items if isinstance(item, str)]
            return list(self._model.encode_captions(texts))
        if key.kind == "picture":
            pictures = [item for item in items if isinstance(item, np.ndarray)]
            return list(self._model.encode_pixels(pictures))
        from hasse.models.grounding.boxes import find_boxes

        return [find_boxes(self._model, *item) for item in items if isinstance(item, BoxQuery)]


def _key_of(item: Item) -> EncodeKey:
    if isinstance(item, BoxQuery):
        return EncodeKey("enlarged picture")
    if not isinstance(item, str):
        return EncodeKey("picture")
    count = item.count(" ") + 1
    return EncodeKey(
        "caption", _SHORT_WORDS if count <= _SHORT_WORDS else 1 << (count - 1).bit_length()
    )
