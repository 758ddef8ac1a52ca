"""A request to the service as a value, with a function that reads its answer."""

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
    without_password,
)
from hasse.service.questions.table import DIAGRAM, AnswerType_co, Question

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
    """A request, with a function that reads its answer. It may be sent several times.

    Attributes:
        may_be_done: an earlier attempt had no answer or an error, and may have been carried out.
    """

    method: str
    path: str
    read: Callable[[httpx.Response], Result]
    query: dict[str, Any] | None = None
    json: dict[str, Any] | None = None
    data: dict[str, Any] = field(default_factory=dict)
    picture: Picture | None = None
    may_be_done: bool = False

    def request(self, http: httpx.Client | httpx.AsyncClient) -> httpx.Request:
        """Return the request to send, with the bytes of a picture file; raises UnsendableError."""
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
        """Return the content of an answer; raises ClientError if it is an error."""
        if response.is_success:
            return self.read(response)
        error = error_of(response)
        # If an earlier attempt removed the image, the next one does not find it.
        if self.method == "DELETE" and self.may_be_done and isinstance(error, NotFoundError):
            return self.read(response)
        if response.status_code != httpx.codes.TOO_MANY_REQUESTS:
            self.may_be_done = True
        raise error

    def unreachable(self, error: httpx.RequestError) -> UnreachableError:
        """Return the error for an attempt without a readable answer."""
        self.may_be_done = True
        reason = str(error) or type(error).__name__
        return UnreachableError(f"{without_password(error.request.url)} did not answer: {reason}")


@dataclass(slots=True)
class Ask(Generic[Result]):
    """A question with the fields of its request, and a function that converts its answer."""

    question: Question[Any, Any]
    fields: dict[str, Any]
    convert: Callable[[Any], Result]

    def call(self) -> Call[Result]:
        """Return the HTTP request of the question.

        Raises:
            UnsendableError: HTTP takes one picture, as the first part, and all others as captions.
        """
        question, fields = self.question, plain_fields(self.fields)
        read_answer = reader_of(question.answer)

        def read(response: httpx.Response) -> Result:
            return self.convert(read_answer(response))

        if question is DIAGRAM:
            middle = fields["middle"]
            if isinstance(middle, str):
                return Call("GET", question.path, read, query={"caption": middle})
            return Call("GET", f"/images/{middle}/diagram", read)
        if not any(map(_has_picture, fields.values())):
            return Call("POST", question.path, read, json=fields)
        picture = fields.pop(question.picture, None)
        if isinstance(picture, list):
            picture, *fields[question.picture] = picture
        parts = [part for value in fields.values() if isinstance(value, list) for part in value]
        if not is_picture(picture) or any(map(is_picture, parts)):
            raise UnsendableError(f"{question.path} takes one picture, as the first part")
        options = {name: _text_of(value) for name, value in fields.items()}
        return Call("POST", question.path, read, data=options, picture=picture)


def ask(question: Question[Any, AnswerType_co], **fields: Any) -> Ask[AnswerType_co]:
    """Return a question whose answer is not read."""
    return Ask(question, fields, lambda answer: answer)


def is_picture(part: Any) -> bool:
    """Return whether a part is neither a caption nor an id."""
    return isinstance(part, (bytes, os.PathLike)) or hasattr(part, "save")


def picture_of(picture: Picture) -> Any:
    """Return a picture as a part: a text is its path."""
    return Path(picture) if isinstance(picture, str) else picture


def list_of(parts: Iterable[Result]) -> list[Result]:
    """Return captions or parts as a list; TypeError for a single text."""
    if isinstance(parts, str):  # each character would become a caption
        raise TypeError("this takes several: put a single caption into a list")
    return list(parts)


def plain_fields(fields: Mapping[str, Any]) -> dict[str, Any]:
    """Return the fields that are not None, with plain values; raises UnsendableError."""
    plain = {name: value for name, value in fields.items() if value is not None}
    for name, value in plain.items():
        if isinstance(value, datetime):
            # In UTC, because old offsets of some zones have seconds, which RFC 3339 cannot write. A
            # time without a zone is local time.
            try:
                by_wall_clock = name.startswith("taken")
                moment = value.replace(tzinfo=UTC) if by_wall_clock else value.astimezone(UTC)
                plain[name] = moment.isoformat()
            except (ValueError, OverflowError) as error:
                raise UnsendableError(f"{name} cannot be read to UTC: {error}") from error
    if "image_ids" in plain:
        plain["image_ids"] = [int(image_id) for image_id in plain["image_ids"]]
    return plain


def _has_picture(value: Any) -> bool:
    return any(map(is_picture, value)) if isinstance(value, list) else is_picture(value)


def _text_of(value: Any) -> str | list[str]:
    """Return a value as a form sends it: ids comma-separated, texts as repeated fields."""
    if isinstance(value, list):
        are_ids = value and all(isinstance(item, int) for item in value)
        return ",".join(map(str, value)) if are_ids else value
    return str(value).lower() if isinstance(value, bool) else str(value)


def reader_of(model: type[Model]) -> Callable[[httpx.Response], Model]:
    """Return a function that reads an answer as `model`."""

    def read(response: httpx.Response) -> Model:
        try:
            # A later release may answer with more fields.
            return model.model_validate_json(response.content, extra="ignore")
        except ValidationError as error:
            raise _unreadable(response) from error

    return read


def bytes_reader(media_type: str) -> Callable[[httpx.Response], bytes]:
    """Return a function that reads the bytes of an answer with this media type."""

    def read(response: httpx.Response) -> bytes:
        if not response.headers.get("Content-Type", "").startswith(media_type):
            raise _unreadable(response)
        return response.content

    return read


def read_nothing(response: httpx.Response) -> None:
    """Check that an answer has no content."""
    if response.status_code not in (httpx.codes.NO_CONTENT, httpx.codes.NOT_FOUND):
        raise _unreadable(response)


def _unreadable(response: httpx.Response) -> UnreadableError:
    address = without_password(response.url)
    return UnreadableError(f"{address} did not answer as this service does: is this its address?")


def file_of(picture: Picture) -> tuple[str, bytes]:
    """Return a picture as a file name and the bytes of the file; raises UnsendableError."""
    if isinstance(picture, bytes):
        return "picture", picture
    if not isinstance(picture, (str, os.PathLike)):
        png = BytesIO()
        with_png_mode = picture if picture.mode in _PNG_MODES else picture.convert("RGB")
        with_png_mode.save(png, "PNG")  # PNG loses nothing
        return "picture.png", png.getvalue()
    path = Path(picture)
    try:
        content = path.read_bytes()
    except OSError as error:
        reason = error.strerror or error
        raise UnsendableError(f"{path} cannot be read ({reason}): check the path") from None
    # A file name on a disk need not be UTF-8.
    return os.fsencode(path.name).decode("utf-8", "replace"), content
