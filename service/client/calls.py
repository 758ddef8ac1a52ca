"""What can be asked: each request as a value, with how to read its answer."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Generic, TypeAlias, TypedDict, TypeVar

import httpx
from pydantic import BaseModel, ValidationError

from service.client.errors import NotFoundError, UnreadableError, UnsendableError, error_of, told
from service.lattice_schemas import AllOfAnswer, CommonAnswer, Diagram, Entailment, Entailments
from service.schemas import (
    AddedImage,
    Alive,
    CaptionAnswer,
    CaptionRecord,
    ImageAnswer,
    ImageAnswers,
    ImageRecord,
    Mode,
    Ready,
    Version,
)

DEFAULT_URL = "http://127.0.0.1:8000"

Result = TypeVar("Result")
Model = TypeVar("Model", bound=BaseModel)

Picture: TypeAlias = bytes | str | os.PathLike[str]
Part: TypeAlias = str | int  # a caption, or the id of an image


class Options(TypedDict, total=False):
    """How to search; what is left out is as the service has it. See /docs for each."""

    k: int
    mode: Mode
    candidates: int
    max_violation: float
    offset: int
    split: str
    image_ids: Sequence[int]
    added_from: datetime | str
    added_before: datetime | str


@dataclass(frozen=True, slots=True)
class Call(Generic[Result]):
    """One request. `removes`: to find nothing any more means that it was done."""

    method: str
    path: str
    read: Callable[[httpx.Response], Result]
    query: dict[str, str] = field(default_factory=dict)
    json: dict[str, Any] | None = None
    data: dict[str, Any] = field(default_factory=dict)
    files: dict[str, tuple[str, bytes]] = field(default_factory=dict)
    removes: bool = False

    def sent(self, http: httpx.Client | httpx.AsyncClient) -> httpx.Request:
        """Return the request to send.

        Raises:
            UnsendableError: HTTP has no words for what is asked.
        """
        try:
            return http.build_request(
                self.method,
                self.path,
                params=self.query or None,
                json=self.json,
                data=self.data or None,
                files=self.files or None,
            )
        except (ValueError, httpx.InvalidURL) as error:
            raise UnsendableError(f"{self.path} cannot be asked this: {error}") from error

    def is_done(self, response: httpx.Response, *, maybe: bool) -> bool:
        """Tell whether it was done, by this answer or `maybe` by an attempt before it."""
        if response.is_success:
            return True
        return self.removes and maybe and isinstance(error_of(response), NotFoundError)


def may_have_done(response: httpx.Response) -> bool:
    """Tell whether what was asked may have been done though the answer is no success."""
    return response.status_code != httpx.codes.TOO_MANY_REQUESTS


def address(url: str) -> httpx.URL:
    """Return the address of a service.

    Raises:
        ValueError: nothing can be asked there.
    """
    try:
        found = httpx.URL(url)
    except httpx.InvalidURL:
        found = httpx.URL()
    if found.scheme not in {"http", "https"} or not found.host or b"?" in found.raw_path:
        raise ValueError(f"this is no address of a service, such as {DEFAULT_URL}")
    return found


def key_header(key: str | None, url: httpx.URL) -> dict[str, str]:
    """Return the header that shows a key at an address; none for no key, or an empty one.

    Raises:
        ValueError: no header can hold the key.
    """
    if not key:
        return {}
    if not (key.strip() and key.isascii() and key.isprintable()):
        raise ValueError("this is no key: it is blank, or holds a line end or letters not of ASCII")
    if url.username or url.password:  # which are sent as "Authorization"
        return {"X-API-Key": key}
    return {"Authorization": f"Bearer {key}"}


def search_images(caption: str, options: Options) -> Call[ImageAnswer]:
    """Ask which images a caption is true of."""
    body = {"caption": caption, **_plain(options)}
    return Call("POST", "/search/images", _reads(ImageAnswer), json=body)


def search_images_together(captions: Iterable[str], options: Options) -> Call[list[ImageAnswer]]:
    """Ask which images each of up to 32 captions is true of."""
    body = {"captions": _several(captions), **_plain(options)}
    read = _reads(ImageAnswers)
    return Call("POST", "/search/images/batch", lambda answer: read(answer).answers, json=body)


def search_captions(picture: Picture, options: Options) -> Call[CaptionAnswer]:
    """Ask which captions are true of a picture: its bytes, or the path of a file."""
    fields = _plain(options)
    if "image_ids" in fields:
        fields["image_ids"] = ",".join(map(str, fields["image_ids"]))
    data = {name: str(value) for name, value in fields.items()}
    files = {"image": _file(picture)}
    return Call("POST", "/search/captions", _reads(CaptionAnswer), data=data, files=files)


def search_all_of(parts: Iterable[Part], options: Options) -> Call[AllOfAnswer]:
    """Ask which images several things are true of at once."""
    body = {"all_of": _several(parts), **_plain(options)}
    return Call("POST", "/search/all_of", _reads(AllOfAnswer), json=body)


def search_common(parts: Iterable[Part], options: Options) -> Call[CommonAnswer]:
    """Ask which captions are true of several things at once."""
    body = {"common": _several(parts), **_plain(options)}
    return Call("POST", "/search/common", _reads(CommonAnswer), json=body)


def search_like(
    like: Part, plus: Iterable[Part], minus: Iterable[Part], options: Options
) -> Call[ImageAnswer]:
    """Ask which images are like one, with something exchanged."""
    body = {"like": like, "plus": _several(plus), "minus": _several(minus), **_plain(options)}
    return Call("POST", "/search/like", _reads(ImageAnswer), json=body)


def entails(premise: Part | bytes | os.PathLike[str], hypothesis: str) -> Call[Entailment]:
    """Ask whether a caption follows from a caption, or is true of an image or a picture."""
    read = _reads(Entailment)
    if isinstance(premise, (bytes, os.PathLike)):
        data = {"hypothesis": hypothesis}
        return Call("POST", "/entails", read, data=data, files={"image": _file(premise)})
    return Call("POST", "/entails", read, json={"premise": premise, "hypothesis": hypothesis})


def entails_together(pairs: Iterable[tuple[Part, str]]) -> Call[list[Entailment]]:
    """Ask of up to 64 pairs whether the second follows from the first."""
    body = {"pairs": [{"premise": one, "hypothesis": other} for one, other in pairs]}
    read = _reads(Entailments)
    return Call("POST", "/entails/batch", lambda answer: read(answer).answers, json=body)


def diagram(middle: Part) -> Call[Diagram]:
    """Ask what lies around a caption or an image in the order."""
    if isinstance(middle, str):
        return Call("GET", "/diagram", _reads(Diagram), query={"caption": middle})
    return Call("GET", f"/images/{middle}/diagram", _reads(Diagram))


def image(image_id: int) -> Call[ImageRecord]:
    """Ask for what is known of an image."""
    return Call("GET", f"/images/{image_id}", _reads(ImageRecord))


def caption(caption_id: int) -> Call[CaptionRecord]:
    """Ask for what is known of a caption."""
    return Call("GET", f"/captions/{caption_id}", _reads(CaptionRecord))


def picture(image_id: int) -> Call[bytes]:
    """Ask for the stored picture of an image."""
    return Call("GET", f"/images/{image_id}/file", _picture)


def thumbnail(image_id: int) -> Call[bytes]:
    """Ask for a small version of an image: a JPEG."""
    return Call("GET", f"/images/{image_id}/thumbnail", _picture)


def add_image(
    picture: Picture, captions: Iterable[str], image_id: int | None, split: str
) -> Call[AddedImage]:
    """Add a picture to the collection."""
    data: dict[str, Any] = {"caption": _several(captions)}
    if image_id is not None:
        data["image_id"] = str(image_id)
    if split:
        data["split"] = split
    return Call("POST", "/images", _reads(AddedImage), data=data, files={"image": _file(picture)})


def remove_image(image_id: int) -> Call[None]:
    """Remove an image and its captions."""
    return Call("DELETE", f"/images/{image_id}", _nothing, removes=True)


def live() -> Call[None]:
    """Ask whether the process answers at all."""
    return Call("GET", "/livez", _alive)


def ready() -> Call[Ready]:
    """Ask whether searches would be answered."""
    return Call("GET", "/readyz", _reads(Ready))


def version() -> Call[Version]:
    """Ask what is running: release, model and collection."""
    return Call("GET", "/version", _reads(Version))


def metrics() -> Call[str]:
    """Ask for the measurements, in Prometheus' text format."""
    return Call("GET", "/metrics", lambda answer: _of_type("text/plain", answer).text)


def _reads(model: type[Model]) -> Callable[[httpx.Response], Model]:
    def read(response: httpx.Response) -> Model:
        try:
            # A later release may say more than this one knows.
            return model.model_validate_json(response.content, extra="ignore")
        except ValidationError as error:
            raise _unreadable(response) from error

    return read


def _alive(response: httpx.Response) -> None:
    _reads(Alive)(response)


def _picture(response: httpx.Response) -> bytes:
    return _of_type("image/", response).content


def _of_type(start: str, response: httpx.Response) -> httpx.Response:
    if not response.headers.get("Content-Type", "").startswith(start):
        raise _unreadable(response)
    return response


def _nothing(response: httpx.Response) -> None:
    if response.status_code not in (httpx.codes.NO_CONTENT, httpx.codes.NOT_FOUND):
        raise _unreadable(response)


def _unreadable(response: httpx.Response) -> UnreadableError:
    return UnreadableError(
        f"{told(response.url)} did not answer as this service does: is this its address?"
    )


def _several(parts: Iterable[Result]) -> list[Result]:
    if isinstance(parts, str):  # whose characters would be captions, each
        raise TypeError("this takes several: put a single caption into a list")
    return list(parts)


def _plain(options: Options) -> dict[str, Any]:
    fields: dict[str, Any] = {name: value for name, value in options.items() if value is not None}
    for name in ("added_from", "added_before"):
        if isinstance(fields.get(name), datetime):
            fields[name] = _instant(name, fields[name])
    if "image_ids" in fields:
        fields["image_ids"] = [int(one) for one in fields["image_ids"]]
    return fields


def _instant(name: str, moment: datetime) -> str:
    """Return a time in UTC, since the offsets of other zones once had seconds, which none may have.

    A time without a zone is one of this machine's.
    """
    try:
        return moment.astimezone(UTC).isoformat()
    except (ValueError, OverflowError) as error:
        raise UnsendableError(f"{name} cannot be told in UTC: {error}") from error


def _file(picture: Picture) -> tuple[str, bytes]:
    if isinstance(picture, bytes):
        return "picture", picture
    path = Path(picture)
    # A name on a disk may be of bytes that are no text.
    return os.fsencode(path.name).decode("utf-8", "replace"), path.read_bytes()
