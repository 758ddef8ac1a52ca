"""Reads request bodies, as JSON or as a form, within limits of bytes, time and memory.

FastAPI's own reader has no limit on either, and takes NaN, repeated fields and lone surrogates.
"""

from __future__ import annotations

import asyncio
import json
from collections import Counter
from collections.abc import AsyncGenerator
from decimal import Decimal, InvalidOperation
from typing import Any, TypeVar

from fastapi import Request
from pydantic import BaseModel
from starlette.requests import ClientDisconnect
from starlette.types import Scope

from hasse.service.core.stages import traced
from hasse.service.errors import ServiceError, given_twice, invalid, validated
from hasse.service.http.multipart import Form
from hasse.service.schemas import UPLOAD_CAPTIONS_MAXIMUM
from hasse.service.settings import Settings

Model = TypeVar("Model", bound=BaseModel)

# What a form holds beside its files and captions: names, options, boundaries.
_FORM_OVERHEAD = 64 * 1024
_CHARACTER_BYTES = 4  # at most, in UTF-8
_HELD = "hasse.held"
FORM = "multipart/form-data"


class Bodies:
    """Reads bodies, and counts how many bytes of them are held."""

    def __init__(self, settings: Settings, linger_seconds: float = 2.0) -> None:
        """Take limits from `settings`.

        A body that is too large is read for `linger_seconds` more: a client that is still sending
        would see a broken connection instead of the answer.
        """
        self._settings = settings
        self._linger_seconds = linger_seconds
        self._held = 0

    async def json(self, request: Request, model: type[Model]) -> Model:
        """Read a JSON object as `model`.

        Raises:
            ServiceError: `wrong_media_type`, `body_too_large`, `body_timeout`, `busy`, or
                `invalid` with the fields at fault.
        """
        if media_type(request) != "application/json":
            raise ServiceError("wrong_media_type", "send JSON as 'Content-Type: application/json'")
        with traced("body"):
            body = await self._receive(request, self._settings.json_bytes)
        return validated(model, parse_json(body))

    async def form(self, request: Request) -> Form:
        """Read a multipart form. All its files together are bounded as one picture is.

        Raises:
            ServiceError: as `json`.
        """
        if media_type(request) != FORM:
            raise ServiceError("wrong_media_type", f"send a form as 'Content-Type: {FORM}'")
        with traced("body"):
            body = await self._receive(request, self._form_bytes)
        form = Form.read(request.headers["content-type"], body)
        if sum(len(file.content) for file in form.files) > self._settings.picture_bytes:
            raise _too_large(self._settings.picture_bytes)
        return form

    @property
    def _form_bytes(self) -> int:
        # No form has more captions than that of a new picture.
        captions = UPLOAD_CAPTIONS_MAXIMUM * self._settings.caption_characters * _CHARACTER_BYTES
        return self._settings.picture_bytes + captions + _FORM_OVERHEAD

    @property
    def held(self) -> int:
        """Count the bytes of all bodies of requests that are not answered yet."""
        return self._held

    def release(self, scope: Scope) -> None:
        """Forget the body of a request that was answered."""
        self._held -= scope.pop(_HELD, 0)

    async def _receive(self, request: Request, limit: int) -> bytes:
        """Return a body; it counts as held until the request is released."""
        if request.headers.get("content-encoding", "identity").lower() != "identity":
            raise ServiceError(
                "wrong_media_type", "send the body without 'Content-Encoding': none is read here"
            )
        declared = request.headers.get("content-length", "")
        stream = request.stream()
        chunks: list[bytes] = []
        try:
            async with asyncio.timeout(self._settings.body_seconds) as deadline:
                if declared.isdecimal() and int(declared[:20]) > limit:
                    deadline.reschedule(None)
                    if request.scope.get("hasse.body_withheld"):
                        raise _too_large(limit)  # the client has sent nothing and will not
                    raise await self._refuse(stream, limit)
                async for chunk in stream:
                    self._held += len(chunk)
                    request.scope[_HELD] = held = request.scope.get(_HELD, 0) + len(chunk)
                    if held > limit:
                        deadline.reschedule(None)
                        raise await self._refuse(stream, limit)
                    if self._held > self._settings.buffered_bytes:
                        raise ServiceError(
                            "busy",
                            "the service holds as many bodies as it can: try again shortly",
                            retry_after=1,
                        )
                    chunks.append(chunk)
                return b"".join(chunks)
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
            async with asyncio.timeout(self._linger_seconds):
                async for chunk in stream:
                    discarded += len(chunk)
                    if discarded > 4 * limit:
                        break
        except (TimeoutError, ClientDisconnect):
            pass
        return _too_large(limit)


def _too_large(limit: int) -> ServiceError:
    return ServiceError("body_too_large", f"the body has more than {limit:,} bytes: send less")


def media_type(request: Request) -> str:
    """Return the media type of a body, without its parameters."""
    return request.headers.get("content-type", "").partition(";")[0].strip().lower()


def parse_json(body: bytes) -> Any:
    """Parse JSON; raises ServiceError `invalid` for what RFC 8259 does not allow.

    A byte-order mark in front is ignored, as the RFC permits.
    """
    try:
        return json.loads(
            body.decode("utf-8-sig"),
            object_pairs_hook=_unique,
            parse_constant=_not_a_number,
            parse_float=_number,
        )
    except (ValueError, RecursionError):
        raise invalid("body", "this is not JSON in UTF-8") from None


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    fields = dict(pairs)
    if len(fields) != len(pairs):
        counted = Counter(name for name, _ in pairs)
        raise given_twice(next(name for name, times in counted.items() if times > 1))
    for name in fields:
        # Half of a surrogate pair is not text; code further in would say so less clearly.
        if not _encodable(name):
            raise invalid("body", "the name of a field is not Unicode text")
    return fields


def _number(digits: str) -> float:
    # JSON Schema calls 7.0 an integer. `int(float(digits))` would be wrong for some integers from
    # 2**53 on, and an id would become its neighbour.
    value = float(digits)
    if not value.is_integer():
        return value
    try:
        exact = Decimal(digits)
    except InvalidOperation:  # an exponent too large for Decimal
        return value
    whole = int(exact)
    return whole if whole == exact else value


def _not_a_number(name: str) -> Any:
    raise invalid("body", f"{name} is not JSON")


def _encodable(text: str) -> bool:
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True
