"""Queue of captions and pictures to encode, in batches, by the one thread that owns the device."""

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
from hasse.service.core.stages import Stages
from hasse.service.errors import ServiceError, invalid, shortened
from hasse.service.settings import Settings

if TYPE_CHECKING:
    from prometheus_client import Histogram

    from hasse.models.grounding.demands import Phrase


class EncodeKey(NamedTuple):
    """What may be encoded together: pictures, or captions of about as many words."""

    kind: Literal["caption", "picture", "enlarged picture"]
    words: int = 0


class Sought(NamedTuple):
    """An enlarged picture, and phrases whose places in it are wanted."""

    pixels: Pixels
    phrases: tuple[Phrase, ...]


Item: TypeAlias = str | Pixels | Sought


# Captions up to this many words are encoded together; above it limits double, since a batch takes
# as long as its longest caption. Together, short and long take no longer than one after the other:
# fifteen of up to 14 words 0.8 ms, one of 60 0.9 ms, all of them 1.6 ms on a core.
_SHORT = 64
_NAMED = 10  # words of a query that an error names


def check_caption(caption: str, settings: Settings, field: str = "caption") -> None:
    """Refuse a caption to ask by that is out of bounds: one to store, or of too many words.

    Raises:
        ServiceError: `invalid`, which names the field.
    """
    check_stored_caption(caption, settings, field)
    if len(caption.split()) > settings.caption_words:
        raise invalid(field, f"more than {settings.caption_words:,} words")


def check_stored_caption(caption: str, settings: Settings, field: str) -> None:
    """Refuse a caption to store that is out of bounds; raises as `check_caption`.

    It may have any number of words: it is stored and shown whole, and a model reads the first.
    """
    if len(caption) > settings.caption_characters:
        raise invalid(field, f"more than {settings.caption_characters:,} characters")
    if "\0" in caption:
        raise invalid(field, "the caption holds a NUL character")
    if not caption.strip():
        raise invalid(field, "the caption is blank: say what the images show")


def check_query(text: str, vocabulary: Words, settings: Settings, field: str = "caption") -> None:
    """Refuse a caption that is out of bounds, or without a word that the model knows.

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
    *most, last = [f"“{shortened(word)}”" for word in unknown[:_NAMED]]
    named = f"words {', '.join(most)} and {last}" if most else f"word {last}"
    raise invalid(field, f"Hasse has never seen the {named}: say it in other words")


class NotFiniteError(HasseError):
    """The model gave a point with coordinates that are not numbers."""


class EncodingQueue:
    """Both encoders of a model, behind one queue.

    All methods raise ServiceError: `encoding_failed` when the model raises for this item,
    `not_ready` when the owner thread is gone.
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
            "encoder",
            self._run,
            size=lambda key: sizes[key.kind],
            on_death=on_death,
        )

    async def encode(self, item: Item, stages: Stages) -> Points:
        """Return the point of a caption, or of a preprocessed picture: (N,) float32.

        For `Sought`, return the boxes of `hasse.models.grounding.boxes.find_boxes`.
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
        each = await asyncio.gather(*(submit(_key_of(text), text) for text in texts))
        # They ran beside each other: the longest counts.
        waited = max(each, key=lambda done: done.waited)
        ran = max(each, key=lambda done: done.ended - done.started)
        stages.wait("encoder", waited.submitted, waited.started)
        stages.add("encode", ran.started, ran.ended, ran.batch)
        return np.stack([done.result for done in each])

    def _run(self, key: EncodeKey, items: list[Item]) -> list[Points]:
        if self._batch_size is not None:
            self._batch_size.labels(key.kind).observe(len(items))
        try:
            points = self._points(key, items)
            if not all(np.isfinite(one).all() for one in points):
                raise NotFiniteError("the model gave coordinates that are not finite")
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

        return [find_boxes(self._model, *item) for item in items if isinstance(item, Sought)]


def _key_of(item: Item) -> EncodeKey:
    if isinstance(item, Sought):
        return EncodeKey("enlarged picture")
    if not isinstance(item, str):
        return EncodeKey("picture")
    count = item.count(" ") + 1
    return EncodeKey("caption", _SHORT if count <= _SHORT else 1 << (count - 1).bit_length())
