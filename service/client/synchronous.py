"""The client for plain programs."""

from __future__ import annotations

import itertools
import os
import time
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


class Client:
    """Asks one service. Threads may share it; close it, or use it in a `with` block.

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
        transport: httpx.BaseTransport | None = None,
    ) -> None:
        """Ask the service at `url`, with a `key` if it wants one.

        A request is given up, and repeated or not, after `timeout` seconds of silence.

        Raises:
            ValueError: nothing can be asked at `url`, or no header can hold the key.
        """
        self._retries = retries or Retries()
        service = address(url)
        self._http = httpx.Client(
            base_url=service,
            headers=key_header(key, service),
            timeout=timeout,
            transport=transport,
        )

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def close(self) -> None:
        """Let go of the connections."""
        self._http.close()

    def search_images(self, caption: str, **options: Unpack[Options]) -> ImageAnswer:
        """Return the images a caption is true of, the best first."""
        return self._ask(calls.search_images(caption, options))

    def search_images_together(
        self, captions: Iterable[str], **options: Unpack[Options]
    ) -> list[ImageAnswer]:
        """Return an answer for each of up to 32 captions, all over one generation."""
        return self._ask(calls.search_images_together(captions, options))

    def search_captions(self, picture: Picture, **options: Unpack[Options]) -> CaptionAnswer:
        """Return the captions that are true of a picture: its bytes, or the path of a file."""
        return self._ask(calls.search_captions(picture, options))

    def search_all_of(self, parts: Iterable[Part], **options: Unpack[Options]) -> AllOfAnswer:
        """Return the images that several captions, or what images show, are true of at once."""
        return self._ask(calls.search_all_of(parts, options))

    def search_common(self, parts: Iterable[Part], **options: Unpack[Options]) -> CommonAnswer:
        """Return the captions that are true of several images, or follow from several captions."""
        return self._ask(calls.search_common(parts, options))

    def search_like(
        self,
        like: Part,
        plus: Iterable[Part],
        minus: Iterable[Part] = (),
        **options: Unpack[Options],
    ) -> ImageAnswer:
        """Return images like one, with `plus` in the place of `minus`."""
        return self._ask(calls.search_like(like, plus, minus, options))

    def entails(self, premise: Part | bytes | os.PathLike[str], hypothesis: str) -> Entailment:
        """Tell whether a caption is true of an image, or of a picture, or follows from a caption.

        Of the premise, a text is a caption, a number an image of the collection, bytes or a
        `Path` a picture.
        """
        return self._ask(calls.entails(premise, hypothesis))

    def entails_together(self, pairs: Iterable[tuple[Part, str]]) -> list[Entailment]:
        """Tell of up to 64 pairs whether the second follows from the first."""
        return self._ask(calls.entails_together(pairs))

    def diagram(self, middle: Part) -> Diagram:
        """Return the Hasse diagram around a caption, or around an image of the collection."""
        return self._ask(calls.diagram(middle))

    def image(self, image_id: int) -> ImageRecord:
        """Return what is known of an image."""
        return self._ask(calls.image(image_id))

    def caption(self, caption_id: int) -> CaptionRecord:
        """Return what is known of a caption."""
        return self._ask(calls.caption(caption_id))

    def picture(self, image_id: int) -> bytes:
        """Return the stored picture of an image."""
        return self._ask(calls.picture(image_id))

    def thumbnail(self, image_id: int) -> bytes:
        """Return a small version of an image: a JPEG."""
        return self._ask(calls.thumbnail(image_id))

    def add_image(
        self,
        picture: Picture,
        captions: Iterable[str] = (),
        *,
        image_id: int | None = None,
        split: str = "",
    ) -> AddedImage:
        """Add a picture with its captions, or captions to a picture that is there already."""
        return self._ask(calls.add_image(picture, captions, image_id, split))

    def remove_image(self, image_id: int) -> None:
        """Remove an image and its captions."""
        self._ask(calls.remove_image(image_id))

    def live(self) -> None:
        """Return if the process answers at all."""
        self._ask(calls.live())

    def ready(self) -> Ready:
        """Return if searches would be answered."""
        return self._ask(calls.ready())

    def version(self) -> Version:
        """Return what is running: release, model and collection."""
        return self._ask(calls.version())

    def metrics(self) -> str:
        """Return the measurements, in Prometheus' text format."""
        return self._ask(calls.metrics())

    def _ask(self, call: Call[Result]) -> Result:
        maybe = False
        for attempt in itertools.count(1):
            try:
                response = self._http.send(call.sent(self._http))
            except httpx.RequestError as error:
                maybe = True
                time.sleep(self._retries.after_silence(attempt, error))
                continue
            if call.is_done(response, maybe=maybe):
                return call.read(response)
            maybe = maybe or may_have_done(response)
            time.sleep(self._retries.after_refusal(attempt, response))
        raise AssertionError("the last attempt returns or raises")
