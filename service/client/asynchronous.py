"""The client for programs with an event loop."""

from __future__ import annotations

import asyncio
import itertools
import os
from collections.abc import Iterable
from types import TracebackType
from typing import Self, Unpack

import httpx

from service.client import calls
from service.client.calls import (
    DEFAULT_URL,
    Call,
    Options,
    Part,
    Picture,
    Result,
    address,
    key_header,
    may_have_done,
)
from service.client.retries import Retries
from service.lattice_schemas import AllOfAnswer, CommonAnswer, Diagram, Entailment
from service.schemas import (
    AddedImage,
    CaptionAnswer,
    CaptionRecord,
    ImageAnswer,
    ImageRecord,
    Ready,
    Version,
)


class AsyncClient:
    """Asks one service from one event loop; close it, or use it in an `async with` block.

    Every method raises a `HasseError`: a `ProblemError` with what the service answered,
    `UnreachableError` without an answer, `UnreadableError` if something else answered,
    `UnsendableError` if there was no way to ask. Requests that may succeed later are repeated
    first.
    """

    def __init__(
        self,
        url: str = DEFAULT_URL,
        key: str | None = None,
        *,
        retries: Retries | None = None,
        timeout: float = 30.0,
        transport: httpx.AsyncBaseTransport | None = None,
    ) -> None:
        """Ask the service at `url`, with a `key` if it wants one.

        A request is given up, and repeated or not, after `timeout` seconds of silence.

        Raises:
            ValueError: nothing can be asked at `url`, or no header can hold the key.
        """
        self._retries = retries or Retries()
        service = address(url)
        self._http = httpx.AsyncClient(
            base_url=service,
            headers=key_header(key, service),
            timeout=timeout,
            transport=transport,
        )

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        await self.close()

    async def close(self) -> None:
        """Let go of the connections."""
        await self._http.aclose()

    async def search_images(self, caption: str, **options: Unpack[Options]) -> ImageAnswer:
        """Return the images a caption is true of, the best first."""
        return await self._ask(calls.search_images(caption, options))

    async def search_images_together(
        self, captions: Iterable[str], **options: Unpack[Options]
    ) -> list[ImageAnswer]:
        """Return an answer for each of up to 32 captions, all over one generation."""
        return await self._ask(calls.search_images_together(captions, options))

    async def search_captions(self, picture: Picture, **options: Unpack[Options]) -> CaptionAnswer:
        """Return the captions that are true of a picture: its bytes, or the path of a file."""
        return await self._ask(await asyncio.to_thread(calls.search_captions, picture, options))

    async def search_all_of(self, parts: Iterable[Part], **options: Unpack[Options]) -> AllOfAnswer:
        """Return the images that several captions, or what images show, are true of at once."""
        return await self._ask(calls.search_all_of(parts, options))

    async def search_common(
        self, parts: Iterable[Part], **options: Unpack[Options]
    ) -> CommonAnswer:
        """Return the captions that are true of several images, or follow from several captions."""
        return await self._ask(calls.search_common(parts, options))

    async def search_like(
        self,
        like: Part,
        plus: Iterable[Part],
        minus: Iterable[Part] = (),
        **options: Unpack[Options],
    ) -> ImageAnswer:
        """Return images like one, with `plus` in the place of `minus`."""
        return await self._ask(calls.search_like(like, plus, minus, options))

    async def entails(
        self, premise: Part | bytes | os.PathLike[str], hypothesis: str
    ) -> Entailment:
        """Tell whether a caption is true of an image, or of a picture, or follows from a caption.

        Of the premise, a text is a caption, a number an image of the collection, bytes or a
        `Path` a picture.
        """
        return await self._ask(await asyncio.to_thread(calls.entails, premise, hypothesis))

    async def entails_together(self, pairs: Iterable[tuple[Part, str]]) -> list[Entailment]:
        """Tell of up to 64 pairs whether the second follows from the first."""
        return await self._ask(calls.entails_together(pairs))

    async def diagram(self, middle: Part) -> Diagram:
        """Return the Hasse diagram around a caption, or around an image of the collection."""
        return await self._ask(calls.diagram(middle))

    async def image(self, image_id: int) -> ImageRecord:
        """Return what is known of an image."""
        return await self._ask(calls.image(image_id))

    async def caption(self, caption_id: int) -> CaptionRecord:
        """Return what is known of a caption."""
        return await self._ask(calls.caption(caption_id))

    async def picture(self, image_id: int) -> bytes:
        """Return the stored picture of an image."""
        return await self._ask(calls.picture(image_id))

    async def thumbnail(self, image_id: int) -> bytes:
        """Return a small version of an image: a JPEG."""
        return await self._ask(calls.thumbnail(image_id))

    async def add_image(
        self,
        picture: Picture,
        captions: Iterable[str] = (),
        *,
        image_id: int | None = None,
        split: str = "",
    ) -> AddedImage:
        """Add a picture with its captions, or captions to a picture that is there already."""
        return await self._ask(
            await asyncio.to_thread(calls.add_image, picture, captions, image_id, split)
        )

    async def remove_image(self, image_id: int) -> None:
        """Remove an image and its captions."""
        await self._ask(calls.remove_image(image_id))

    async def live(self) -> None:
        """Return if the process answers at all."""
        await self._ask(calls.live())

    async def ready(self) -> Ready:
        """Return if searches would be answered."""
        return await self._ask(calls.ready())

    async def version(self) -> Version:
        """Return what is running: release, model and collection."""
        return await self._ask(calls.version())

    async def metrics(self) -> str:
        """Return the measurements, in Prometheus' text format."""
        return await self._ask(calls.metrics())

    async def _ask(self, call: Call[Result]) -> Result:
        maybe = False
        for attempt in itertools.count(1):
            try:
                response = await self._http.send(call.sent(self._http))
            except httpx.RequestError as error:
                maybe = True
                await asyncio.sleep(self._retries.after_silence(attempt, error))
                continue
            if call.is_done(response, maybe=maybe):
                return call.read(response)
            maybe = maybe or may_have_done(response)
            await asyncio.sleep(self._retries.after_refusal(attempt, response))
        raise AssertionError("the last attempt returns or raises")
