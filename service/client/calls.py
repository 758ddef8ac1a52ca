"""The methods that both clients and an open index share."""

from __future__ import annotations

import functools
import json
from collections.abc import Callable, Coroutine, Iterable, Iterator
from typing import TYPE_CHECKING, Any, Concatenate, Generic, ParamSpec, Unpack, overload
from urllib.parse import quote

from hasse.service.client.call import (
    Ask,
    Call,
    Part,
    Picture,
    Result,
    ask,
    bytes_reader,
    list_of,
    picture_of,
    plain_fields,
    read_nothing,
    reader_of,
)
from hasse.service.client.options import (
    DistinctOptions,
    EvidenceOptions,
    ImageOptions,
    SortedOptions,
)
from hasse.service.questions import table
from hasse.service.questions.answers import (
    AllOfAnswer,
    CaptionAnswer,
    CommonAnswer,
    Description,
    Diagram,
    Embedding,
    Entailment,
    ImageAnswer,
    SavedAnswer,
    SavedSearch,
    SavedSearches,
)
from hasse.service.questions.requests import TEXTS_MAXIMUM, Likeness
from hasse.service.schemas import AddedImage, Alive, CaptionRecord, ImageRecord, Ready, Version

if TYPE_CHECKING:
    from hasse.service.client.clients import AsyncClient

Arguments = ParamSpec("Arguments")

_TEXTS_BYTES = 60_000  # of the 65,536 of a body of JSON that a service reads by default


class Blocking:
    """Base of clients with blocking methods."""


class _Method(Generic[Arguments, Result]):
    """Decorator: turns a function that returns a call into a method that returns its answer.

    In an `AsyncClient` the method is a coroutine.
    """

    def __init__(
        self, build: Callable[Concatenate[Any, Arguments], Call[Result] | Ask[Result]]
    ) -> None:
        self._build = build

    @overload
    def __get__(self, client: None, owner: type) -> Callable[..., Any]: ...
    @overload
    def __get__(self, client: Blocking, owner: type) -> Callable[Arguments, Result]: ...
    @overload
    def __get__(
        self, client: AsyncClient, owner: type
    ) -> Callable[Arguments, Coroutine[Any, Any, Result]]: ...
    def __get__(self, client: Any, owner: type) -> Any:
        if client is None:
            return self._build  # for `help`
        build: Any = self._build.__get__(client)
        return functools.wraps(build)(lambda *args, **options: client.make(build(*args, **options)))


class Questions:
    """The methods of both clients and of an open index that ask a question."""

    @_Method
    def search_images(
        self, caption: str | None = None, **options: Unpack[EvidenceOptions]
    ) -> Ask[ImageAnswer]:
        """Return the images that a caption is true of, or whose texts say it, the best first.

        Without a caption, all images that the options select are hits, the newest first.
        """
        words = {} if caption is None else {"caption": caption}
        return ask(table.SEARCH_IMAGES, **words, **options)

    @_Method
    def search_images_together(
        self, captions: Iterable[str], **options: Unpack[ImageOptions]
    ) -> Ask[list[ImageAnswer]]:
        """Return an answer for each of up to 32 captions, all over one generation."""
        fields = {"captions": list_of(captions), **options}
        return Ask(table.SEARCH_IMAGES_BATCH, fields, lambda answer: answer.answers)

    @_Method
    def search_captions(
        self, picture: Picture, **options: Unpack[DistinctOptions]
    ) -> Ask[CaptionAnswer]:
        """Return the captions that are true of a picture: bytes, a path, or an image of Pillow."""
        return ask(table.SEARCH_CAPTIONS, image=picture_of(picture), **options)

    @_Method
    def search_similar(
        self, picture: Picture, similar: Likeness = "alike", **options: Unpack[SortedOptions]
    ) -> Ask[ImageAnswer]:
        """Return the images like a picture, more specific than it, or more general."""
        return ask(table.SEARCH_SIMILAR, image=picture_of(picture), similar=similar, **options)

    @_Method
    def describe(self, picture: int | Picture, *, k: int = 5) -> Ask[Description]:
        """Return captions written for an image of the collection, by its id, or for a picture."""
        image = picture if isinstance(picture, int) else picture_of(picture)
        return ask(table.DESCRIBE, image_id=image, k=k)

    @_Method
    def search_all_of(
        self, parts: Iterable[Part], **options: Unpack[SortedOptions]
    ) -> Ask[AllOfAnswer]:
        """Return the images that several captions, or what images show, are true of at once."""
        return ask(table.SEARCH_ALL_OF, all_of=list_of(parts), **options)

    @_Method
    def search_common(
        self, parts: Iterable[Part], **options: Unpack[DistinctOptions]
    ) -> Ask[CommonAnswer]:
        """Return the captions that are true of several images, or follow from several captions."""
        return ask(table.SEARCH_COMMON, common=list_of(parts), **options)

    @_Method
    def search_like(
        self,
        like: Part,
        plus: Iterable[Part] = (),
        minus: Iterable[Part] = (),
        *,
        also: Iterable[Part] = (),
        less: Iterable[Part] = (),
        **options: Unpack[SortedOptions],
    ) -> Ask[ImageAnswer]:
        """Return images like `like` and `also`, unlike `less`, with `plus` instead of `minus`."""
        parts = {"also": also, "less": less, "plus": plus, "minus": minus}
        lists = {name: list_of(values) for name, values in parts.items()}
        return ask(table.SEARCH_LIKE, like=like, **lists, **options)

    @_Method
    def entails(self, premise: Part, hypothesis: str, *, where: bool = False) -> Ask[Entailment]:
        """Return whether a caption is true of an image or a picture, or follows from a caption.

        The premise is a caption if it is a text, an image of the collection if it is a number, and
        else a picture. With `where`, the answer says where the things of the caption are.
        """
        return ask(table.ENTAILS, premise=premise, hypothesis=hypothesis, where=where)

    @_Method
    def entails_together(self, pairs: Iterable[tuple[str | int, str]]) -> Ask[list[Entailment]]:
        """Return for each of up to 64 pairs whether the second follows from the first."""
        body = [{"premise": premise, "hypothesis": hypothesis} for premise, hypothesis in pairs]
        return Ask(table.ENTAILS_BATCH, {"pairs": body}, lambda answer: answer.answers)

    @_Method
    def embed_picture(self, picture: Picture) -> Ask[Embedding]:
        """Return the embedding of a picture: bytes, a path, or an image of Pillow."""
        fields = {"texts": [picture_of(picture)]}
        return Ask(table.EMBED, fields, lambda answer: answer.embeddings[0])

    @_Method
    def diagram(self, middle: str | int) -> Ask[Diagram]:
        """Return the Hasse diagram around a caption, or around an image of the collection."""
        return ask(table.DIAGRAM, middle=middle)


class Calls(Questions):
    """The methods of both clients."""

    @_Method
    def image(self, image_id: int) -> Call[ImageRecord]:
        """Return the record of an image."""
        return Call("GET", f"/images/{image_id}", reader_of(ImageRecord))

    @_Method
    def caption(self, caption_id: int) -> Call[CaptionRecord]:
        """Return the record of a caption."""
        return Call("GET", f"/captions/{caption_id}", reader_of(CaptionRecord))

    @_Method
    def picture(self, image_id: int) -> Call[bytes]:
        """Return the stored picture of an image."""
        return Call("GET", f"/images/{image_id}/file", bytes_reader("image/"))

    @_Method
    def thumbnail(self, image_id: int) -> Call[bytes]:
        """Return a small version of an image: a JPEG."""
        return Call("GET", f"/images/{image_id}/thumbnail", bytes_reader("image/"))

    @_Method
    def add_image(
        self,
        picture: Picture,
        captions: Iterable[str] = (),
        *,
        image_id: int | None = None,
        split: str = "",
    ) -> Call[AddedImage]:
        """Add a picture with its captions, or captions to a picture that exists already."""
        data: dict[str, Any] = {"caption": list_of(captions)}
        if image_id is not None:
            data["image_id"] = str(image_id)
        if split:
            data["split"] = split
        return Call("POST", "/images", reader_of(AddedImage), data=data, picture=picture)

    @_Method
    def annotate(
        self, image_ids: Iterable[int], captions: Iterable[str] = (), keywords: Iterable[str] = ()
    ) -> Call[None]:
        """Add captions and keywords that images lack."""
        fields = annotation_fields(image_ids, captions, keywords)
        return Call("POST", "/annotations", read_nothing, json=fields)

    @_Method
    def unannotate(
        self, image_ids: Iterable[int], captions: Iterable[str] = (), keywords: Iterable[str] = ()
    ) -> Call[None]:
        """Remove human captions, and keywords that `annotate` added, from images."""
        fields = annotation_fields(image_ids, captions, keywords)
        return Call("POST", "/annotations/remove", read_nothing, json=fields)

    @_Method
    def remove_image(self, image_id: int) -> Call[None]:
        """Remove an image and its captions."""
        return Call("DELETE", f"/images/{image_id}", read_nothing)

    @_Method
    def saved_searches(self) -> Call[list[SavedSearch]]:
        """Return the saved searches, with the number of new images of each."""
        read = reader_of(SavedSearches)
        return Call("GET", "/searches", lambda response: read(response).searches)

    @_Method
    def saved_search(self, name: str) -> Call[SavedAnswer]:
        """Return the hits of a saved search, and which of them are new."""
        return Call("GET", f"/searches/{_quoted(name)}", reader_of(SavedAnswer))

    @_Method
    def save_search(
        self, name: str, caption: str, **options: Unpack[EvidenceOptions]
    ) -> Call[SavedSearch]:
        """Save a search for images under a name."""
        fields = plain_fields({"caption": caption, **options})
        return Call("PUT", f"/searches/{_quoted(name)}", reader_of(SavedSearch), json=fields)

    @_Method
    def note_looked(self, name: str) -> Call[None]:
        """Count the images that a search finds now as seen."""
        return Call("POST", f"/searches/{_quoted(name)}/looked", read_nothing)

    @_Method
    def remove_search(self, name: str) -> Call[None]:
        """Delete a saved search."""
        return Call("DELETE", f"/searches/{_quoted(name)}", read_nothing)

    @_Method
    def live(self) -> Call[Alive]:
        """Return the answer of /livez: the process answers."""
        return Call("GET", "/livez", reader_of(Alive))

    @_Method
    def ready(self) -> Call[Ready]:
        """Return the answer of /readyz: searches are answered."""
        return Call("GET", "/readyz", reader_of(Ready))

    @_Method
    def version(self) -> Call[Version]:
        """Return the release, the model and the collection of the service."""
        return Call("GET", "/version", reader_of(Version))

    @_Method
    def metrics(self) -> Call[str]:
        """Return the metrics, in Prometheus' text format."""
        read = bytes_reader("text/plain")
        return Call("GET", "/metrics", lambda response: read(response).decode())


def _quoted(name: str) -> str:
    return quote(name, safe="")


def embed_calls(texts: Iterable[str]) -> Iterator[Ask[list[Embedding]]]:
    """Yield requests for the embeddings of any number of texts, each within the limits."""
    batch: list[str] = []
    size = 0
    for text in list_of(texts):
        length = len(json.dumps(text))
        if batch and (len(batch) == TEXTS_MAXIMUM or size + length > _TEXTS_BYTES):
            yield _embed_call(batch)
            batch, size = [], 0
        batch.append(text)
        size += length + 1
    if batch:
        yield _embed_call(batch)


def _embed_call(texts: list[str]) -> Ask[list[Embedding]]:
    return Ask(table.EMBED, {"texts": texts}, lambda answer: answer.embeddings)


def annotation_fields(
    image_ids: Iterable[int], captions: Iterable[str], keywords: Iterable[str]
) -> dict[str, Any]:
    """Return the fields of captions and keywords of images."""
    texts = {"captions": list_of(captions), "keywords": list_of(keywords)}
    return plain_fields({"image_ids": list_of(image_ids), **texts})
