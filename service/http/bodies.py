"""What clients send: read within limits of size, time and memory, as JSON or as a form."""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncGenerator, Callable, Collection, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, TypeVar

from fastapi import Request
from pydantic import BaseModel, ValidationError
from starlette.requests import ClientDisconnect
from starlette.types import Scope

from service.errors import ServiceError, given_twice, invalid, invalid_fields, shown
from service.http.multipart import Form, FormError, Part
from service.http.strict_json import parse_json
from service.schemas import UPLOAD_CAPTIONS_MAXIMUM, SearchOptions, UploadFields
from service.settings import Settings

Model = TypeVar("Model", bound=BaseModel)
Other = TypeVar("Other", bound=BaseModel)

# What a form has beside its file and its captions: names, options, boundaries.
_FORM_ROOM = 64 * 1024
_CHARACTER_BYTES = 4  # at most, in UTF-8
_HELD = "hasse.held"
_DIGITS = re.compile(r"[0-9]{1,19}")
_NUMBER = re.compile(r"[0-9]{1,20}(\.[0-9]{1,20})?([eE][+-]?[0-9]{1,3})?")
# A body that is too large is read a little further, because a client that is still sending
# would see a broken connection instead of the answer.
_LINGER_SECONDS = 2.0


@dataclass(frozen=True, slots=True)
class PictureForm:
    """A picture and how to search with it."""

    picture: bytes
    options: SearchOptions


@dataclass(frozen=True, slots=True)
class Upload:
    """A picture for the collection, and what comes with it."""

    picture: bytes
    file_name: str
    captions: list[str]
    image_id: int | None
    split: str


@dataclass(frozen=True, slots=True)
class Brought:
    """One of the pictures that a visitor of the page brings."""

    name: str
    content: bytes


class Bodies:
    """Reads bodies, and knows how many bytes of them are held at this moment."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        # No form has more captions than that of a new picture.
        captions = UPLOAD_CAPTIONS_MAXIMUM * settings.caption_characters * _CHARACTER_BYTES
        self._form_bytes = settings.picture_bytes + captions + _FORM_ROOM
        self._held = 0

    async def json(self, request: Request, model: type[Model]) -> Model:
        """Read a JSON object as `model`.

        Raises:
            ServiceError: `wrong_media_type`, `body_too_large`, `body_timeout`, `busy`, or
                `invalid` with the fields at fault.
        """
        if _media_type(request) != "application/json":
            raise ServiceError("wrong_media_type", "send JSON as 'Content-Type: application/json'")
        received = bytearray()
        await self._receive(request, self._settings.json_bytes, received.extend)
        return _validated(model, parse_json(bytes(received)))

    async def picture_form(self, request: Request) -> PictureForm:
        """Read a multipart form: the file field `image` and the options of a search.

        Raises:
            ServiceError: as `json`.
        """
        picture, fields = await self.picture_and_texts(request)
        return PictureForm(picture, _options(fields))

    async def picture_and_texts(self, request: Request) -> tuple[bytes, dict[str, str]]:
        """Read a multipart form: the file field `image`, and texts by the names of their fields.

        Raises:
            ServiceError: as `json`.
        """
        picture, texts = await self._form(request)
        fields: dict[str, str] = {}
        for name, text in texts:
            if name in fields:
                raise given_twice(name)
            fields[name] = text
        return bytes(picture.content), fields

    async def form(self, request: Request, model: type[Model], repeated: Collection[str]) -> Model:
        """Read a multipart form, the file field `image` and options among its fields, as `model`.

        An empty text is a default, see `_says`; the fields of `repeated` may come more than once.

        Raises:
            ServiceError: as `json`.
        """
        picture, texts = await self._form(request)
        values = _values(texts, repeated, _value)
        return _validated(model, {"image": bytes(picture.content), **values})

    async def json_or_form(
        self, request: Request, model: type[Model], form: type[Other], repeated: Collection[str]
    ) -> Model | Other:
        """Read a multipart form as `form` and anything else as JSON; see `form` and `json`."""
        if _media_type(request) == "multipart/form-data":
            return await self.form(request, form, repeated)
        return await self.json(request, model)

    async def upload_form(self, request: Request) -> Upload:
        """Read a multipart form: the file field `image` and what comes with a new picture.

        Raises:
            ServiceError: as `json`.
        """
        picture, texts = await self._form(request)
        fields = _validated(UploadFields, _values(texts, ["caption"], _value_of_upload))
        return Upload(
            bytes(picture.content), picture.file_name, fields.caption, fields.image_id, fields.split
        )

    async def page_form(self, request: Request) -> tuple[Brought, str, str]:
        """Read the form with which the page adds a picture: that, captions as typed, and a key.

        Raises:
            ServiceError: as `json`.
        """
        picture, texts = await self._form(request)
        fields = dict(texts)
        brought = Brought(picture.file_name, bytes(picture.content))
        return brought, fields.get("captions", ""), fields.get("key", "").strip()

    async def page_parts(self, request: Request) -> tuple[list[Brought], list[tuple[str, str]]]:
        """Read the form with which the page puts things together: pictures, and texts in order.

        All pictures together are bounded as one is elsewhere.

        Raises:
            ServiceError: as `json`.
        """
        pictures, texts = [], []
        for part in await self._parts(request):
            if not part.is_file:
                texts.append((part.name, _text(part)))
            elif part.content:  # browsers send a field without a file as an empty one
                pictures.append(Brought(part.file_name, bytes(part.content)))
        if sum(len(picture.content) for picture in pictures) > self._settings.picture_bytes:
            raise self._too_large(self._settings.picture_bytes)
        return pictures, texts

    async def _form(self, request: Request) -> tuple[Part, list[tuple[str, str]]]:
        """Read a multipart form: the file field `image`, and the texts in their order."""
        picture, texts = _sorted_out(await self._parts(request))
        if len(picture.content) > self._settings.picture_bytes:
            raise self._too_large(self._settings.picture_bytes)
        return picture, texts

    async def _parts(self, request: Request) -> list[Part]:
        if _media_type(request) != "multipart/form-data":
            raise ServiceError(
                "wrong_media_type", "send a form as 'Content-Type: multipart/form-data'"
            )
        try:
            form = Form(request.headers["content-type"])
            await self._receive(request, self._form_bytes, form.feed)
            return form.finish()
        except FormError as error:
            raise invalid("body", str(error)) from None

    @property
    def held(self) -> int:
        """Count the bytes of all bodies of requests that are not answered yet."""
        return self._held

    def release(self, scope: Scope) -> None:
        """Forget the body of a request that was answered."""
        self._held -= scope.pop(_HELD, 0)

    async def _receive(self, request: Request, limit: int, take: Callable[[bytes], None]) -> None:
        """Take in the chunks of a body; they count as held until the request is released."""
        declared = request.headers.get("content-length", "")
        stream = request.stream()
        # What has come already needs no clock.
        seconds = None if request.scope.get("hasse.whole") else self._settings.body_seconds
        try:
            async with asyncio.timeout(seconds) as patience:
                if declared.isdecimal() and int(declared[:20]) > limit:
                    patience.reschedule(None)  # that it is too large is known in time
                    if is_withheld(request.scope):
                        raise self._too_large(limit)  # nothing is sent before it is asked for
                    raise await self._refuse(stream, limit)
                async for chunk in stream:
                    self._held += len(chunk)
                    request.scope[_HELD] = held = request.scope.get(_HELD, 0) + len(chunk)
                    if held > limit:
                        patience.reschedule(None)
                        raise await self._refuse(stream, limit)
                    if self._held > self._settings.buffered_bytes:
                        raise ServiceError(
                            "busy",
                            "the service holds as many bodies as it can: try again shortly",
                            retry_after=1,
                        )
                    take(chunk)
        except TimeoutError:
            raise ServiceError(
                "body_timeout",
                f"the body did not arrive within {self._settings.body_seconds:g} seconds",
            ) from None
        except ClientDisconnect:
            raise ServiceError("client_gone", "the client left before its body was whole") from None

    async def _refuse(self, stream: AsyncGenerator[bytes, None], limit: int) -> ServiceError:
        discarded = 0
        try:
            async with asyncio.timeout(_LINGER_SECONDS):
                async for chunk in stream:
                    discarded += len(chunk)
                    if discarded > 4 * limit:
                        break
        except (TimeoutError, ClientDisconnect):
            pass
        return self._too_large(limit)

    def _too_large(self, limit: int) -> ServiceError:
        return ServiceError("body_too_large", f"the body has more than {limit:,} bytes")


def is_withheld(scope: Scope) -> bool:
    """Tell whether a client sends the body of its request only when it is told to go on."""
    return any(
        name == b"expect" and value.lower() == b"100-continue" for name, value in scope["headers"]
    )


def upload_of(brought: Brought, typed: str) -> Upload:
    """Return a picture that a visitor adds, with the captions that were typed, one a line.

    Raises:
        ServiceError: `invalid`, with the fields at fault.
    """
    captions = [line.strip() for line in typed.splitlines() if line.strip()]
    known = _validated(UploadFields, {"caption": captions})
    return Upload(brought.content, brought.name, known.caption, None, "")


def _sorted_out(parts: list[Part]) -> tuple[Part, list[tuple[str, str]]]:
    picture: Part | None = None
    texts: list[tuple[str, str]] = []
    for part in parts:
        if part.name == "image":
            if picture is not None:
                raise given_twice("image")
            if not part.is_file:
                raise invalid("image", "send a file, with a file name")
            picture = part
        elif part.is_file:
            raise invalid(shown(part.name), "there is no such file field")
        else:
            texts.append((part.name, _text(part)))
    if picture is None:
        raise invalid("image", "this file field is required")
    return picture, texts


def _text(part: Part) -> str:
    try:
        return part.text()
    except FormError as error:
        raise invalid("body", str(error)) from None


def _options(fields: Mapping[str, str]) -> SearchOptions:
    """Read the options of a search from the texts of a form; an empty text is a default: `_says`.

    Raises:
        ServiceError: `invalid`, with the fields at fault.
    """
    values: dict[str, Any] = {}
    for name, text in fields.items():
        if name not in SearchOptions.model_fields:
            raise invalid(shown(name), "there is no such field")
        if _says(name, text):
            values[name] = _value(name, text)
    return _validated(SearchOptions, values)


def _values(
    texts: Iterable[tuple[str, str]], repeated: Collection[str], read: Callable[[str, str], Any]
) -> dict[str, Any]:
    """Return what the texts of a form say, by the names of their fields; see `_says`."""
    values: dict[str, Any] = {}
    for name, text in texts:
        if name in repeated:
            values.setdefault(name, []).append(text)
        elif name in values:
            raise given_twice(name)
        elif _says(name, text):
            values[name] = read(name, text)
    return values


def _says(name: str, text: str) -> bool:
    """Tell whether the text of a field is more than a default.

    Empty ones are values too where they select: images that have no split, and no image at all.
    """
    return text != "" or name in ("split", "image_ids")


def _validated(model: type[Model], values: Any) -> Model:
    try:
        return model.model_validate(values)
    except ValidationError as error:
        raise invalid_fields(error) from None


def _value_of_upload(name: str, text: str) -> int | str:
    return _whole_number(name, text) if name == "image_id" else text


def _value(name: str, text: str) -> int | float | str | list[int]:
    if name in ("k", "candidates", "offset"):
        return _whole_number(name, text)
    if name == "image_ids":
        return [_whole_number(name, part.strip()) for part in text.split(",")] if text else []
    if name == "max_violation":
        if not _NUMBER.fullmatch(text):
            raise invalid(name, "this is not a number of 0 or more")
        return float(text)
    return text


def _whole_number(name: str, text: str) -> int:
    """Read a whole number of a form; raises ServiceError `invalid`."""
    if not _DIGITS.fullmatch(text):
        raise invalid(name, "this is not a whole number")
    return int(text)


def _media_type(request: Request) -> str:
    """Return the media type of a body, without its parameters."""
    return request.headers.get("content-type", "").partition(";")[0].strip().lower()
