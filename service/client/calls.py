"""What can be asked of the service, written once for both clients."""

from __future__ import annotations

import functools
import json
import os
from collections.abc import Callable, Coroutine, Iterable, Iterator
from typing import TYPE_CHECKING, Any, Concatenate, Generic, ParamSpec, Unpack, overload

from hasse.models.captioning import DRAWS
from hasse.service.client.call import (
    Call,
    CaptionOptions,
    DistinctOptions,
    Options,
    Part,
    Picture,
    Result,
    form_of,
    nothing,
    post,
    reads,
    reads_bytes,
    several,
)
from hasse.service.embedding_schemas import TEXTS_MAXIMUM, Embedding, Embeddings
from hasse.service.lattice_schemas import (
    AllOfAnswer,
    CommonAnswer,
    Diagram,
    Entailment,
    Entailments,
)
from hasse.service.picture_schemas import CaptionAnswer, Description, Relation
from hasse.service.schemas import (
    AddedImage,
    Alive,
    CaptionRecord,
    ImageAnswer,
    ImageAnswers,
    ImageRecord,
    Ready,
    Version,
)

if TYPE_CHECKING:
    from PIL.Image import Image

    from hasse.service.client.clients import AsyncClient, Client

Arguments = ParamSpec("Arguments")

_TEXTS_BYTES = 60_000  # of the 65,536 of a body of JSON that a service reads by default


class _Method(Generic[Arguments, Result]):
    """Makes a function that returns a `Call` a method that returns the answer.

    The client of a program with an event loop returns it to be awaited.
    """

    def __init__(self, build: Callable[Concatenate[Any, Arguments], Call[Result]]) -> None:
        self._build = build

    @overload
    def __get__(self, client: None, owner: type) -> Callable[..., Call[Result]]: ...
    @overload
    def __get__(self, client: Client, owner: type) -> Callable[Arguments, Result]: ...
    @overload
    def __get__(
        self, client: AsyncClient, owner: type
    ) -> Callable[Arguments, Coroutine[Any, Any, Result]]: ...
    def __get__(self, client: Any, owner: type) -> Any:
        if client is None:
            return self._build  # for `help`
        build: Any = self._build.__get__(client)
        return functools.wraps(build)(lambda *args, **options: client.make(build(*args, **options)))


class Calls:
    """The methods of both clients."""

    @_Method
    def search_images(self, caption: str, **options: Unpack[Options]) -> Call[ImageAnswer]:
        """Return the images a caption is true of, the best first."""
        return post("/search/images", ImageAnswer, options, caption=caption)

    @_Method
    def search_images_together(
        self, captions: Iterable[str], **options: Unpack[Options]
    ) -> Call[list[ImageAnswer]]:
        """Return an answer for each of up to 32 captions, all over one generation."""
        call = post("/search/images/batch", ImageAnswers, options, captions=several(captions))
        return call.then(lambda answer: answer.answers)

    @_Method
    def search_captions(
        self, picture: Picture, **options: Unpack[CaptionOptions]
    ) -> Call[CaptionAnswer]:
        """Return the captions that are true of a picture: bytes, a path, or an image of Pillow."""
        data = form_of(options)
        return Call("POST", "/search/captions", reads(CaptionAnswer), data=data, picture=picture)

    @_Method
    def search_similar(
        self, picture: Picture, similar: Relation = "alike", **options: Unpack[Options]
    ) -> Call[ImageAnswer]:
        """Return the images like a picture, more specific than it, or more general."""
        data = {"similar": similar, **form_of(options)}
        return Call("POST", "/search/images", reads(ImageAnswer), data=data, picture=picture)

    @_Method
    def describe(
        self, picture: int | Picture, *, k: int = 5, draws: int = DRAWS
    ) -> Call[Description]:
        """Return captions written for an image of the collection, by its id, or for a picture."""
        if isinstance(picture, int):
            return post("/describe", Description, image_id=picture, k=k, draws=draws)
        data = {"k": str(k), "draws": str(draws)}
        return Call("POST", "/describe", reads(Description), data=data, picture=picture)

    @_Method
    def search_all_of(self, parts: Iterable[Part], **options: Unpack[Options]) -> Call[AllOfAnswer]:
        """Return the images that several captions, or what images show, are true of at once."""
        return post("/search/all_of", AllOfAnswer, options, all_of=several(parts))

    @_Method
    def search_common(
        self, parts: Iterable[Part], **options: Unpack[DistinctOptions]
    ) -> Call[CommonAnswer]:
        """Return the captions that are true of several images, or follow from several captions."""
        return post("/search/common", CommonAnswer, options, common=several(parts))

    @_Method
    def search_like(
        self,
        like: Part,
        plus: Iterable[Part],
        minus: Iterable[Part] = (),
        **options: Unpack[Options],
    ) -> Call[ImageAnswer]:
        """Return images like one, with `plus` in the place of `minus`."""
        put, taken = several(plus), several(minus)
        return post("/search/like", ImageAnswer, options, like=like, plus=put, minus=taken)

    @_Method
    def entails(
        self, premise: Part | bytes | os.PathLike[str] | Image, hypothesis: str
    ) -> Call[Entailment]:
        """Tell whether a caption is true of an image or a picture, or follows from a caption.

        A premise that is a text is a caption, a number an image of the collection, and anything
        else a picture.
        """
        if not isinstance(premise, (str, int)):
            data = {"hypothesis": hypothesis}
            return Call("POST", "/entails", reads(Entailment), data=data, picture=premise)
        return post("/entails", Entailment, premise=premise, hypothesis=hypothesis)

    @_Method
    def entails_together(self, pairs: Iterable[tuple[Part, str]]) -> Call[list[Entailment]]:
        """Tell of up to 64 pairs whether the second follows from the first."""
        body = [{"premise": premise, "hypothesis": hypothesis} for premise, hypothesis in pairs]
        call = post("/entails/batch", Entailments, pairs=body)
        return call.then(lambda answer: answer.answers)

    @_Method
    def embed_picture(self, picture: Picture) -> Call[Embedding]:
        """Return the embedding of a picture: bytes, a path, or an image of Pillow."""
        call = Call("POST", "/embed", reads(Embeddings), picture=picture)
        return call.then(lambda answer: answer.embeddings[0])

    @_Method
    def diagram(self, middle: Part) -> Call[Diagram]:
        """Return the Hasse diagram around a caption, or around an image of the collection."""
        if isinstance(middle, str):
            return Call("GET", "/diagram", reads(Diagram), query={"caption": middle})
        return Call("GET", f"/images/{middle}/diagram", reads(Diagram))

    @_Method
    def image(self, image_id: int) -> Call[ImageRecord]:
        """Return what is known of an image."""
        return Call("GET", f"/images/{image_id}", reads(ImageRecord))

    @_Method
    def caption(self, caption_id: int) -> Call[CaptionRecord]:
        """Return what is known of a caption."""
        return Call("GET", f"/captions/{caption_id}", reads(CaptionRecord))

    @_Method
    def picture(self, image_id: int) -> Call[bytes]:
        """Return the stored picture of an image."""
        return Call("GET", f"/images/{image_id}/file", reads_bytes("image/"))

    @_Method
    def thumbnail(self, image_id: int) -> Call[bytes]:
        """Return a small version of an image: a JPEG."""
        return Call("GET", f"/images/{image_id}/thumbnail", reads_bytes("image/"))

    @_Method
    def add_image(
        self,
        picture: Picture,
        captions: Iterable[str] = (),
        *,
        image_id: int | None = None,
        split: str = "",
    ) -> Call[AddedImage]:
        """Add a picture with its captions, or captions to a picture that is there already."""
        data: dict[str, Any] = {"caption": several(captions)}
        if image_id is not None:
            data["image_id"] = str(image_id)
        if split:
            data["split"] = split
        return Call("POST", "/images", reads(AddedImage), data=data, picture=picture)

    @_Method
    def remove_image(self, image_id: int) -> Call[None]:
        """Remove an image and its captions."""
        return Call("DELETE", f"/images/{image_id}", nothing)

    @_Method
    def live(self) -> Call[None]:
        """Return if the process answers at all."""
        return Call("GET", "/livez", reads(Alive)).then(lambda answer: None)

    @_Method
    def ready(self) -> Call[Ready]:
        """Return if searches would be answered."""
        return Call("GET", "/readyz", reads(Ready))

    @_Method
    def version(self) -> Call[Version]:
        """Return what is running: release, model and collection."""
        return Call("GET", "/version", reads(Version))

    @_Method
    def metrics(self) -> Call[str]:
        """Return the measurements, in Prometheus' text format."""
        return Call("GET", "/metrics", reads_bytes("text/plain")).then(bytes.decode)


def embed_calls(texts: Iterable[str]) -> Iterator[Call[list[Embedding]]]:
    """Yield requests for the embeddings of any number of texts, each within the limits."""
    batch: list[str] = []
    size = 0
    for text in several(texts):
        length = len(json.dumps(text))
        if batch and (len(batch) == TEXTS_MAXIMUM or size + length > _TEXTS_BYTES):
            yield _embed_call(batch)
            batch, size = [], 0
        batch.append(text)
        size += length + 1
    if batch:
        yield _embed_call(batch)


def _embed_call(texts: list[str]) -> Call[list[Embedding]]:
    return post("/embed", Embeddings, texts=texts).then(lambda answer: answer.embeddings)
