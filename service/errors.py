"""The table of the service's errors (RFC 9457); `http/problems.py` turns them into responses.

Every error is answered as `application/problem+json` with a reason from this table, except on the
page (`service.page.errors`). The detail is a sentence for people. It never contains paths or
exceptions. It repeats no input except words that the model does not know.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, TypeVar

from pydantic import BaseModel, ValidationError
from sqlalchemy.exc import SQLAlchemyError

from hasse.index.errors import (
    CatalogUnreachableError,
    DiskFullError,
    HasseIndexError,
    IndexLockedError,
    ReadOnlyIndexError,
    ShardUnreachableError,
)
from hasse.models.errors import HasseError
from hasse.service.addresses import address
from hasse.service.telemetry.logs import event

Model = TypeVar("Model", bound=BaseModel)

MEDIA_TYPE = "application/problem+json"

# Errors of reading an intact index. SQLite also writes when it reads: it merges its log, and needs
# disk space for memory that its processes share.
UNREADABLE = (
    CatalogUnreachableError,
    DiskFullError,
    IndexLockedError,
    ReadOnlyIndexError,
    ShardUnreachableError,
)


@dataclass(frozen=True, slots=True)
class ErrorKind:
    """A row of the table: the status of a reason, and its title."""

    status: int
    title: str


REASONS: Mapping[str, ErrorKind] = {
    "malformed": ErrorKind(400, "The request could not be read"),
    "unauthorized": ErrorKind(401, "A key is needed"),
    "forbidden": ErrorKind(403, "This is not allowed"),
    "not_found": ErrorKind(404, "This does not exist here"),
    "picture_missing": ErrorKind(404, "The file of this image is missing"),
    "method_not_allowed": ErrorKind(405, "This address does not support the method"),
    "body_timeout": ErrorKind(408, "The body did not arrive in time"),
    "conflict": ErrorKind(409, "This conflicts with another image"),
    "no_captioner": ErrorKind(409, "This model has no captioner"),
    "body_too_large": ErrorKind(413, "The body is too large"),
    "too_many_pixels": ErrorKind(413, "The picture has too many pixels"),
    "wrong_media_type": ErrorKind(415, "The type of the body is not supported"),
    "not_a_picture": ErrorKind(415, "The file is not a supported picture"),
    "wrong_host": ErrorKind(421, "The request is for another host"),
    "invalid": ErrorKind(422, "The request is not valid"),
    "damaged_picture": ErrorKind(422, "The picture is damaged"),
    "busy": ErrorKind(429, "There are too many requests at the moment"),
    "quota": ErrorKind(429, "The quota is used up"),
    "head_too_large": ErrorKind(431, "The head of the request is too large"),
    "client_gone": ErrorKind(499, "The client left before the answer"),
    "encoding_failed": ErrorKind(500, "The model could not encode this"),
    "internal": ErrorKind(500, "Something went wrong inside the service"),
    "not_ready": ErrorKind(503, "The service is not ready"),
    "catalog_unreachable": ErrorKind(503, "The catalog does not answer"),
    "late": ErrorKind(503, "The answer took too long"),
    "write_failed": ErrorKind(503, "The collection could not be changed"),
    "disk_full": ErrorKind(507, "The disk is full"),
}

_UNCHANGED = "nothing was changed, and searches go on"


class ServiceError(HasseError):
    """An error with a reason from the table and a sentence for people."""

    def __init__(
        self,
        reason: str,
        detail: str,
        *,
        errors: Sequence[tuple[str, str]] = (),
        retry_after: int | None = None,
    ) -> None:
        super().__init__(detail)
        self.reason = reason
        self.detail = detail
        self.errors = tuple(errors)
        self.retry_after = retry_after

    @property
    def kind(self) -> ErrorKind:
        """Return the row of the table."""
        return REASONS[self.reason]


@contextmanager
def writing_catalog() -> Iterator[None]:
    """Raise ServiceError if the block cannot write; then nothing was written.

    The reason is `catalog_unreachable`, `disk_full` or `write_failed`.
    """
    try:
        yield
    except CatalogUnreachableError as error:
        raise unreachable(error) from None
    except DiskFullError:
        event("disk full", logging.ERROR)
        raise ServiceError("disk_full", f"the disk is full: {_UNCHANGED}") from None
    except IndexLockedError:
        raise ServiceError(
            "write_failed", "another process is writing to the collection", retry_after=5
        ) from None
    except (HasseIndexError, SQLAlchemyError, OSError) as error:
        event("write failed", logging.ERROR, error=repr(error))
        raise ServiceError(
            "write_failed", f"the collection cannot be written: {_UNCHANGED}", retry_after=5
        ) from None


def unreachable(error: Exception) -> ServiceError:
    """Return the error for a catalog or a shard that does not answer, and log the cause."""
    if isinstance(error, ShardUnreachableError):
        event("shard unreachable", logging.ERROR, error=str(error))
        detail = "a part of the collection does not answer: try again shortly"
        return ServiceError("not_ready", detail, retry_after=1)
    event("catalog unreachable", logging.ERROR, error=str(error))
    return ServiceError(
        "catalog_unreachable",
        "the database of the collection does not answer: try again shortly",
        retry_after=5,
    )


def invalid(field: str, reason: str) -> ServiceError:
    """Return the error for one field."""
    return ServiceError("invalid", f"{field}: {reason}", errors=((field, reason),))


def repeated_field(field: str) -> ServiceError:
    """Return the error for a field that is repeated but must not be."""
    return invalid(shortened(field), "this field is given twice")


def shortened(word: str) -> str:
    """Return the start of a word of a client, or of a field's name, to repeat it in a message."""
    return word[:64]


def no_image(image_id: int) -> ServiceError:
    """Return the error for an image that is not in the collection."""
    return ServiceError("not_found", f"there is no image with the id {image_id}")


def invalid_fields(rows: Sequence[Any], start: int = 0) -> ServiceError:
    """Return the error for errors of pydantic; it names the fields and never repeats the input.

    `start` is the number of parts of a location to leave out of the field's name.
    """
    errors = [(_field(row["loc"][start:]), reason_of(row)) for row in rows[:20]]
    detail = "; ".join(f"{field}: {reason}" for field, reason in errors[:5])
    return ServiceError("invalid", detail or "the request is not valid", errors=errors)


def validated(model: type[Model], values: Any) -> Model:
    """Return values as `model`; raises ServiceError `invalid` with the fields at fault."""
    try:
        return model.model_validate(values)
    except ValidationError as error:
        raise invalid_fields(error.errors()) from None


def _field(location: Sequence[Any]) -> str:
    return ".".join(shortened(str(part)) for part in location) or "body"


def reason_of(row: Mapping[str, Any]) -> str:
    """Return the reason why a value is invalid, from one error of pydantic."""
    if row["type"] == "extra_forbidden":
        return "there is no such field"
    if row["type"] == "model_type":
        return "this is not a JSON object"
    if row["type"] == "string_pattern_mismatch":
        return "this contains a character that is not allowed here"
    if row["type"] == "too_short":
        return f"there must be at least {row['ctx']['min_length']:,} of these"
    if row["type"] == "too_long":
        return too_many(row["ctx"]["max_length"], row["ctx"]["actual_length"])
    message = str(row["msg"]).removeprefix("Value error, ")
    return message[:1].lower() + message[1:200]


def too_many(limit: int, count: int) -> str:
    """Return the reason for a list that is too long."""
    return f"there may be at most {limit:,} of these, not {count:,}"


def problem_body(error: ServiceError, request_id: str) -> bytes:
    """Return the JSON document of an error."""
    body = {
        "type": address(f"/docs#{error.reason}"),
        "title": error.kind.title,
        "status": error.kind.status,
        "detail": error.detail,
        "reason": error.reason,
        "request_id": request_id,
        "errors": [{"field": field, "reason": reason} for field, reason in error.errors],
    }
    # ASCII with escapes can represent even a lone surrogate in the name of a field.
    return json.dumps(body).encode("ascii")
