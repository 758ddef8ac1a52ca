"""One request of the service as a value, with how to read its answer."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from io import BytesIO
from pathlib import Path
from typing import TYPE_CHECKING, Any, Generic, TypeAlias, TypeVar

import httpx
from pydantic import BaseModel, ValidationError

from hasse.service.client.errors import (
    NotFoundError,
    UnreachableError,
    UnreadableError,
    UnsendableError,
    error_of,
    shown,
)
from hasse.service.questions.table import DIAGRAM, Answered_co, Question

if TYPE_CHECKING:
    from PIL.Image import Image

_PNG_MODES = frozenset({"1", "L", "LA", "I;16", "P", "RGB", "RGBA"})

Result = TypeVar("Result")
Model = TypeVar("Model", bound=BaseModel)

Picture: TypeAlias = "bytes | str | os.PathLike[str] | Image"  # an image of Pillow
# A text is a caption, a number the id of an image, anything else a picture.
Part: TypeAlias = "str | int | bytes | os.PathLike[str] | Image"


@dataclass(slots=True)
class Call(Generic[Result]):
    """One request, with how to read its answer; it may be sent several times."""

    method: str
    path: str
    read: Callable[[httpx.Response], Result]
    query: dict[str, Any] | None = None
    json: dict[str, Any] | None = None
    data: dict[str, Any] = field(default_factory=dict)
    picture: Picture | None = None
    may_be_done: bool = False  # by an attempt without an answer, or with an error

    def request(self, http: httpx.Client | httpx.AsyncClient) -> httpx.Request:
        """Return the request to send; raises UnsendableError. Reads the file of a picture."""
        files = None if self.picture is None else {"image": file_of(self.picture)}
        try:
            return http.build_request(
                self.method,
                self.path,
                params=self.query,
                json=self.json,
                data=self.data or None,
                files=files,
            )
        except (ValueError, httpx.InvalidURL) as error:
            raise UnsendableError(f"{self.path} cannot carry this request: {error}") from error

    def result(self, response: httpx.Response) -> Result:
        """Return the content of an answer; raises ClientError for one without success."""
        if response.is_success:
            return self.read(response)
        error = error_of(response)
        # An image that an earlier attempt removed is not found by the next one.
        if self.method == "DELETE" and self.may_be_done and isinstance(error, NotFoundError):
            return self.read(response)
        if response.status_code != httpx.codes.TOO_MANY_REQUESTS:
            self.may_be_done = True
        raise error

    def lost(self, error: httpx.RequestError) -> UnreachableError:
        """Return the error for an attempt without an answer that can be read."""
        self.may_be_done = True
        reason = str(error) or type(error).__name__
        return UnreachableError(f"{shown(error.request.url)} did not answer: {reason}")


@dataclass(slots=True)
class Ask(Generic[Result]):
    """A question with the fields of its request, and how to convert its answer."""

    question: Question[Any, Any]
    fields: dict[str, Any]
    convert: Callable[[Any], Result]

    def call(self) -> Call[Result]:
        """Return its HTTP request.

        Raises:
            UnsendableError: HTTP carries one picture, as the first part, beside captions alone.
        """
        question, fields, read = self.question, sendable(self.fields), reads(self.question.answer)

        def converted(response: httpx.Response) -> Result:
            return self.convert(read(response))

        if question is DIAGRAM:
            middle = fields["middle"]
            if isinstance(middle, str):
                return Call("GET", question.path, converted, query={"caption": middle})
            return Call("GET", f"/images/{middle}/diagram", converted)
        if not any(map(_has_picture, fields.values())):
            return Call("POST", question.path, converted, json=fields)
        picture = fields.pop(question.picture, None)
        if isinstance(picture, list):
            picture, *fields[question.picture] = picture
        parts = [part for value in fields.values() if isinstance(value, list) for part in value]
        if not is_picture(picture) or any(map(is_picture, parts)):
            raise UnsendableError(f"{question.path} takes one picture, as the first part")
        options = {name: _text_of(value) for name, value in fields.items()}
        return Call("POST", question.path, converted, data=options, picture=picture)


def ask(question: Question[Any, Answered_co], **fields: Any) -> Ask[Answered_co]:
    """Return a question whose answer is not converted."""
    return Ask(question, fields, lambda answer: answer)


def is_picture(part: Any) -> bool:
    """Return whether a part is neither a caption nor an id."""
    return isinstance(part, (bytes, os.PathLike)) or hasattr(part, "save")


def picture_of(picture: Picture) -> Any:
    """Return a picture as a part: a text is its path."""
    return Path(picture) if isinstance(picture, str) else picture


def several(parts: Iterable[Result]) -> list[Result]:
    """Return several captions or parts as a list; TypeError for a single text."""
    if isinstance(parts, str):  # its characters would be taken for captions
        raise TypeError("this takes several: put a single caption into a list")
    return list(parts)


def sendable(fields: Mapping[str, Any]) -> dict[str, Any]:
    """Return fields with plain values and without those that are None; raises UnsendableError."""
    given = {name: value for name, value in fields.items() if value is not None}
    for name, value in given.items():
        if isinstance(value, datetime):
            # In UTC: some zones' old offsets have seconds, which RFC 3339 cannot write. A time
            # without a zone is taken for local time.
            try:
                by_wall_clock = name.startswith("taken")
                moment = value.replace(tzinfo=UTC) if by_wall_clock else value.astimezone(UTC)
                given[name] = moment.isoformat()
            except (ValueError, OverflowError) as error:
                raise UnsendableError(f"{name} cannot be converted to UTC: {error}") from error
    if "image_ids" in given:
        given["image_ids"] = [int(one) for one in given["image_ids"]]
    return given


def _has_picture(value: Any) -> bool:
    return any(map(is_picture, value)) if isinstance(value, list) else is_picture(value)


def _text_of(value: Any) -> str | list[str]:
    """Return a value as a form sends it: ids with commas between them, texts repeated."""
    if isinstance(value, list):
        numbers = value and all(isinstance(one, int) for one in value)
        return ",".join(map(str, value)) if numbers else value
    return str(value).lower() if isinstance(value, bool) else str(value)


def reads(model: type[Model]) -> Callable[[httpx.Response], Model]:
    """Return what reads an answer as `model`."""

    def read(response: httpx.Response) -> Model:
        try:
            # A later release may answer with more fields.
            return model.model_validate_json(response.content, extra="ignore")
        except ValidationError as error:
            raise _unreadable(response) from error

    return read


def reads_bytes(media_type: str) -> Callable[[httpx.Response], bytes]:
    """Return the reader of answers with this media type."""

    def read(response: httpx.Response) -> bytes:
        if not response.headers.get("Content-Type", "").startswith(media_type):
            raise _unreadable(response)
        return response.content

    return read


def nothing(response: httpx.Response) -> None:
    """Read an answer without content."""
    if response.status_code not in (httpx.codes.NO_CONTENT, httpx.codes.NOT_FOUND):
        raise _unreadable(response)


def _unreadable(response: httpx.Response) -> UnreadableError:
    return UnreadableError(
        f"{shown(response.url)} did not answer as this service does: is this its address?"
    )


def file_of(picture: Picture) -> tuple[str, bytes]:
    """Return a picture as a file name and the bytes of the file."""
    if isinstance(picture, bytes):
        return "picture", picture
    if not isinstance(picture, (str, os.PathLike)):
        png = BytesIO()
        with_png_mode = picture if picture.mode in _PNG_MODES else picture.convert("RGB")
        with_png_mode.save(png, "PNG")  # PNG loses nothing
        return "picture.png", png.getvalue()
    path = Path(picture)
    # A file name on a disk need not be UTF-8.
    return os.fsencode(path.name).decode("utf-8", "replace"), path.read_bytes()
