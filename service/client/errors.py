"""What a client raises: one class for each thing a program may want to do about it."""

from __future__ import annotations

import httpx
from pydantic import ValidationError

from models.errors import HasseError
from service.schemas import Problem


class UnreachableError(HasseError):
    """The service did not answer, however often it was asked."""


class UnreadableError(HasseError):
    """Something answered that is not this service."""


class UnsendableError(HasseError):
    """The request cannot be written down: half a character, a NaN, more than an address holds."""


class ProblemError(HasseError):
    """The service answered with a problem; its sentence is the message.

    Attributes:
        problem: what was answered: status, reason, the fields at fault, the request's id.
        retry_after: seconds after which the service asked to be tried again, if it did.
    """

    def __init__(self, problem: Problem, retry_after: float | None) -> None:
        super().__init__(problem.detail)
        self.args = (problem, retry_after)  # what a copy is made from
        self.problem = problem
        self.retry_after = retry_after

    def __str__(self) -> str:
        said = self.problem
        return f"{said.detail} ({said.reason}, request {said.request_id})"


class InvalidError(ProblemError):
    """The request, or the picture in it, cannot be accepted as it is."""


class AccessError(ProblemError):
    """There is no key, it is not known, or it may not do this."""


class NotFoundError(ProblemError):
    """There is no such image or caption."""


class ConflictError(ProblemError):
    """The id belongs to another picture, or the picture to another id."""


class BusyError(ProblemError):
    """Too many requests, or the key's quota is used up."""


class UnavailableError(ProblemError):
    """The service is not ready, did not answer in time, or has no room left."""


_CLASSES: dict[int, type[ProblemError]] = {
    400: InvalidError,
    401: AccessError,
    403: AccessError,
    404: NotFoundError,
    409: ConflictError,
    413: InvalidError,
    415: InvalidError,
    422: InvalidError,
    429: BusyError,
    503: UnavailableError,
    507: UnavailableError,
}


def error_of(response: httpx.Response) -> HasseError:
    """Return the error that an answer without success means."""
    try:
        problem = Problem.model_validate_json(response.content, extra="ignore")
    except ValidationError:
        return UnreadableError(
            f"{told(response.url)} answered {response.status_code} and no problem document: "
            "is this the address of the service?"
        )
    return _CLASSES.get(problem.status, ProblemError)(problem, retry_after(response))


def told(url: httpx.URL) -> str:
    """Return an address as it may stand in a log: without the name and the password in it."""
    return str(url.copy_with(userinfo=b""))


def retry_after(response: httpx.Response) -> float | None:
    """Return the seconds that an answer asks to wait."""
    said = response.headers.get("Retry-After", "")
    return float(said) if said.isascii() and said.isdigit() else None
