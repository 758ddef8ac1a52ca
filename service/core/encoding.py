"""Captions and pictures become points, in batches, by the one thread that owns the device."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from typing import Literal, TypeAlias

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from models.errors import HasseError
from models.model import OrderEmbedding, Points
from service.core.batching import Batcher, Done, Onward, Other
from service.core.stages import Stages
from service.errors import ServiceError, invalid
from service.settings import Settings

Point: TypeAlias = NDArray[np.float32]
Lane: TypeAlias = tuple[Literal["caption", "picture"], int]

# Captions up to this many words share a lane; above it lanes double, since a batch takes as
# long as its longest caption. Together, short and long take no longer than one after the other:
# fifteen of up to 14 words 0.8 ms, one of 60 0.9 ms, all of them 1.6 ms on a core.
_SHORT = 64


def check_caption(caption: str, settings: Settings, field: str = "caption") -> None:
    """Refuse a caption out of bounds; raises ServiceError `invalid`, which names the field."""
    if len(caption) > settings.caption_characters:
        raise invalid(field, f"more than {settings.caption_characters:,} characters")
    if len(caption.split()) > settings.caption_words:
        raise invalid(field, f"more than {settings.caption_words:,} words")
    if not caption.strip():
        raise invalid(field, "the caption is blank: say what the images show")


class NotFiniteError(HasseError):
    """The model gave a point with coordinates that are not numbers."""


class Encoder:
    """Both encoders of a model, behind one queue.

    All methods raise ServiceError: `encoding_failed` when the model raises for this item,
    `not_ready` when the owner thread is gone.
    """

    def __init__(
        self,
        model: OrderEmbedding,
        settings: Settings,
        *,
        on_batch: Callable[[str, int], None] = lambda kind, size: None,
        on_death: Callable[[], None] = lambda: None,
    ) -> None:
        self._model = model
        sizes = {"caption": settings.caption_batch, "picture": settings.picture_batch}
        self.batcher: Batcher[Lane, str | Tensor, Point] = Batcher(
            "encoder",
            self._run,
            size=lambda lane: sizes[lane[0]],
            delay=settings.batch_seconds,
            on_batch=lambda lane, size: on_batch(lane[0], size),
            on_death=on_death,
        )

    async def caption(self, text: str, stages: Stages) -> Point:
        """Return the point of a caption: (N,) float32."""
        return await self._encode(_lane_of(text), text, stages)

    async def caption_onward(
        self, text: str, onward: Onward[Point, Other], stages: Stages
    ) -> Done[Other]:
        """Return what becomes of the point of a caption."""
        return await self._encode_onward(_lane_of(text), text, onward, stages)

    async def captions(self, texts: Sequence[str], stages: Stages) -> Points:
        """Return the points of captions: (B, N) float32."""
        each = [Stages() for _ in texts]
        points = await asyncio.gather(*map(self.caption, texts, each))
        for stage in ("queue", "encode"):  # they ran beside each other
            stages.add(stage, max(one.seconds[stage] for one in each))
        return np.stack(points)

    async def picture(self, pixels: Tensor, stages: Stages) -> Point:
        """Return the point of a preprocessed picture: (crops, 3, H, W) -> (N,) float32."""
        return await self._encode(("picture", 0), pixels, stages)

    async def picture_onward(
        self, pixels: Tensor, onward: Onward[Point, Other], stages: Stages
    ) -> Done[Other]:
        """Return what becomes of the point of a preprocessed picture."""
        return await self._encode_onward(("picture", 0), pixels, onward, stages)

    async def _encode(self, lane: Lane, item: str | Tensor, stages: Stages) -> Point:
        return _timed(await self.batcher.submit(lane, item), stages)

    async def _encode_onward(
        self, lane: Lane, item: str | Tensor, onward: Onward[Point, Other], stages: Stages
    ) -> Done[Other]:
        done, then = await self.batcher.submit_onward(lane, item, onward)
        _timed(done, stages)
        return then

    def _run(self, lane: Lane, items: list[str | Tensor]) -> list[Point]:
        try:
            points = self._points(lane, items)
            if not np.isfinite(points).all():
                raise NotFiniteError("the model gave coordinates that are not finite")
        except Exception as error:
            raise ServiceError(
                "encoding_failed", f"the model could not encode this {lane[0]}"
            ) from error
        return list(points)

    def _points(self, lane: Lane, items: list[str | Tensor]) -> Points:
        if lane[0] == "caption":
            return self._model.encode_captions([item for item in items if isinstance(item, str)])
        with torch.inference_mode():
            pixels = torch.stack([item for item in items if isinstance(item, Tensor)])
            points: Points = self._model.pixel_points(pixels.to(self._model.device)).cpu().numpy()
            return points


def _lane_of(text: str) -> Lane:
    count = text.count(" ") + 1
    return "caption", _SHORT if count <= _SHORT else 1 << (count - 1).bit_length()


def _timed(done: Done[Point], stages: Stages) -> Point:
    stages.add("queue", done.waited)
    stages.add("encode", done.ran)
    return done.result
