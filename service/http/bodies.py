"""Reads request bodies, as JSON or as a form, within limits of bytes, time and memory.

FastAPI's own reader has none of these limits, and accepts NaN, repeated fields and lone surrogates.
"""

from __future__ import annotations

import asyncio
import json
import re
from collections import Counter
from collections.abc import AsyncGenerator
from decimal import Decimal, InvalidOperation
from typing import Any, TypeVar

from fastapi import Request
from pydantic import BaseModel, ValidationError
from starlette.requests import ClientDisconnect
from starlette.types import Scope

from hasse.service.errors import ServiceError, invalid, invalid_fields, repeated_field
from hasse.service.http.multipart import Form
from hasse.service.schemas import UPLOAD_CAPTIONS_MAXIMUM
from hasse.service.settings import Settings
from hasse.service.telemetry.stages import traced

Model = TypeVar("Model", bound=BaseModel)

# Bytes of a form besides files and captions: names, options, boundaries.
_FORM_OVERHEAD = 64 * 1024
_CHARACTER_BYTES = 4  # at most, in UTF-8
_HELD_BYTES = "hasse.held_bytes"
_SURROGATE = re.compile(rb"\\u[dD][89a-fA-F]")  # its escape, in JSON
FORM = "multipart/form-data"


class Bodies:
    """Reads bodies, and counts their bytes in memory."""

    def __init__(self, settings: Settings, linger_seconds: float = 2.0) -> None:
        """Take limits from `settings`.

        A body that is too large is read on for `linger_seconds`, because a client that is still
        sending would see a broken connection instead of the answer.
        """
        self._settings = settings
        self._linger_seconds = linger_seconds
        self._held_bytes = 0

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
        try:
            return model.model_validate(parse_json(body))
        except ValidationError as error:
            raise invalid_fields(error.errors()) from None

    async def form(self, request: Request) -> Form:
        """Read a multipart form. All its files together have the size limit of one picture.

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
        # The form of a new picture has the most captions.
        captions = UPLOAD_CAPTIONS_MAXIMUM * self._settings.caption_characters * _CHARACTER_BYTES
        return self._settings.picture_bytes + captions + _FORM_OVERHEAD

    @property
    def held_bytes(self) -> int:
        """The bytes of the bodies of all unanswered requests."""
        return self._held_bytes

    def release(self, scope: Scope) -> None:
        """Stop counting the body of an answered request."""
        self._held_bytes -= scope.pop(_HELD_BYTES, 0)

    async def _receive(self, request: Request, limit: int) -> bytes:
        """Return a body; its bytes count until `release`."""
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
                        raise _too_large(limit)  # the client has not sent the body, and will not
                    raise await self._discard(stream, limit)
                async for chunk in stream:
                    self._held_bytes += len(chunk)
                    received = request.scope.get(_HELD_BYTES, 0) + len(chunk)
                    request.scope[_HELD_BYTES] = received
                    if received > limit:
                        deadline.reschedule(None)
                        raise await self._discard(stream, limit)
                    if self._held_bytes > self._settings.buffered_bytes:
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

    async def _discard(self, stream: AsyncGenerator[bytes, None], limit: int) -> ServiceError:
        """Read the rest of a body that is too large, and return the error for it."""
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
    """Parse JSON; raises ServiceError `invalid` if RFC 8259 does not allow it.

    A byte-order mark at the start is ignored, as the RFC permits.
    """
    try:
        parsed = json.loads(
            body.decode("utf-8-sig"),
            object_pairs_hook=_unique_fields,
            parse_constant=_refuse_constant,
            parse_float=_parse_number,
        )
        is_text = not _SURROGATE.search(body) or _is_encodable(
            json.dumps(parsed, ensure_ascii=False)
        )
    except (ValueError, RecursionError):
        raise invalid("body", "this is not JSON in UTF-8") from None
    if not is_text:
        raise invalid("body", "half of a surrogate pair is not Unicode text")
    return parsed


def _unique_fields(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    fields = dict(pairs)
    if len(fields) != len(pairs):
        counts = Counter(name for name, _ in pairs)
        raise repeated_field(next(name for name, times in counts.items() if times > 1))
    for name in fields:
        # Half of a surrogate pair is not text. Here the error message is clearer than further in.
        if not _is_encodable(name):
            raise invalid("body", "the name of a field is not Unicode text")
    return fields


def _parse_number(digits: str) -> float:
    # For JSON Schema 7.0 is an integer. `int(float(digits))` is wrong for some integers from 2**53
    # on: an id would become another id.
    value = float(digits)
    if not value.is_integer():
        return value
    try:
        exact = Decimal(digits)
    except InvalidOperation:  # the exponent is too large for Decimal
        return value
    whole = int(exact)
    return whole if whole == exact else value


def _refuse_constant(name: str) -> Any:
    raise invalid("body", f"{name} is not JSON")


def _is_encodable(text: str) -> bool:
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True
