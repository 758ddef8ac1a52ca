"""One request of the service as a value, with how to read its answer."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from io import BytesIO
from pathlib import Path
from typing import TYPE_CHECKING, Any, Generic, TypeAlias, TypedDict, TypeVar

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
from hasse.service.picture_schemas import Prefer
from hasse.service.schemas import Mode

if TYPE_CHECKING:
    from PIL.Image import Image

_PNG_MODES = frozenset({"1", "L", "LA", "I;16", "P", "RGB", "RGBA"})

Result = TypeVar("Result")
Other = TypeVar("Other")
Model = TypeVar("Model", bound=BaseModel)

Picture: TypeAlias = "bytes | str | os.PathLike[str] | Image"  # an image of Pillow
Part: TypeAlias = str | int  # a caption, or the id of an image


class Options(TypedDict, total=False):
    """How to search. What is left out is the service's default; /docs describes each."""

    k: int
    mode: Mode
    candidates: int
    max_violation: float
    offset: int
    split: str
    image_ids: Sequence[int]
    added_from: datetime | str
    added_before: datetime | str
    taken_from: datetime | str
    taken_before: datetime | str
    path_prefix: str


class DistinctOptions(Options, total=False):
    """How to search for captions."""

    distinct: bool
    written: bool


class CaptionOptions(DistinctOptions, total=False):
    """How to search for the captions of a picture."""

    prefer: Prefer


@dataclass(slots=True)
class Call(Generic[Result]):
    """One request, with how to read its answer; it may be sent several times."""

    method: str
    path: str
    read: Callable[[httpx.Response], Result]
    query: dict[str, str] | None = None
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
            raise UnsendableError(f"{self.path} cannot be asked this: {error}") from error

    def then(self, convert: Callable[[Result], Other]) -> Call[Other]:
        """Return the same request, with its answer converted."""
        read = self.read
        return Call(
            self.method,
            self.path,
            lambda answer: convert(read(answer)),
            json=self.json,
            picture=self.picture,
        )

    def result(self, response: httpx.Response) -> Result:
        """Return what was answered; raises ClientError for an answer without success."""
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


def several(parts: Iterable[Result]) -> list[Result]:
    """Return several captions or parts as a list; TypeError for a single text."""
    if isinstance(parts, str):  # its characters would be taken for captions
        raise TypeError("this takes several: put a single caption into a list")
    return list(parts)


def fields_of(options: Options) -> dict[str, Any]:
    """Return options as the fields of a request."""
    fields: dict[str, Any] = {name: value for name, value in options.items() if value is not None}
    for name in ("added_from", "added_before", "taken_from", "taken_before"):
        if isinstance(fields.get(name), datetime):
            # In UTC: some zones' old offsets have seconds, which RFC 3339 cannot write. A time
            # without a zone is taken for local time.
            try:
                fields[name] = fields[name].astimezone(UTC).isoformat()
            except (ValueError, OverflowError) as error:
                raise UnsendableError(f"{name} cannot be told in UTC: {error}") from error
    if "image_ids" in fields:
        fields["image_ids"] = [int(one) for one in fields["image_ids"]]
    return fields


def form_of(options: Options) -> dict[str, str]:
    """Return options as the fields of a form."""
    fields = fields_of(options)
    if "image_ids" in fields:
        fields["image_ids"] = ",".join(map(str, fields["image_ids"]))
    truths = {True: "true", False: "false"}
    return {
        name: truths[value] if isinstance(value, bool) else str(value)
        for name, value in fields.items()
    }


def post(
    path: str, model: type[Model], options: Options | None = None, **fields: Any
) -> Call[Model]:
    """Return a call that sends JSON and is answered with `model`."""
    return Call("POST", path, reads(model), json=fields | fields_of(options or {}))


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
    """Return what reads an answer whose media type begins like that."""

    def read(response: httpx.Response) -> bytes:
        if not response.headers.get("Content-Type", "").startswith(media_type):
            raise _unreadable(response)
        return response.content

    return read


def nothing(response: httpx.Response) -> None:
    """Read the answer to a deletion."""
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
