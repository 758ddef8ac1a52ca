"""The errors of a client: one class for each different reaction of a program."""

from __future__ import annotations

import httpx
from pydantic import ValidationError

from hasse.models.errors import HasseError
from hasse.service.schemas import Problem


class ClientError(HasseError):
    """Base of the errors of a client.

    Attributes:
        is_passing: the same request may succeed later.
        retry_after: seconds to wait before another attempt, if the service named them.
    """

    is_passing: bool = False
    retry_after: float | None = None


class UnreachableError(ClientError):
    """The service did not answer any of the attempts."""

    is_passing = True


class UnreadableError(ClientError):
    """The answer is not from this service."""


class UnsendableError(ClientError):
    """It cannot be sent: a lone surrogate, a NaN, too long an address, a file that is missing."""


class ProblemError(ClientError):
    """The service answered with an error, whose detail is the message.

    Attributes:
        problem: the answer: status, reason, invalid fields, the id of the request.
    """

    def __init__(self, problem: Problem) -> None:
        super().__init__(problem.detail)
        self.args = (problem,)  # pickle makes a copy from these
        self.problem = problem

    def __str__(self) -> str:
        request = f", request {self.problem.request_id}" if self.problem.request_id else ""
        return f"{self.problem.detail} ({self.problem.reason}{request})"


class InvalidError(ProblemError):
    """The request, or the picture in it, is not valid."""


class AccessError(ProblemError):
    """The key is missing, unknown, or not allowed to do this."""


class NotFoundError(ProblemError):
    """There is no such image or caption."""


class ConflictError(ProblemError):
    """The id belongs to another picture, or the picture to another id."""


class BusyError(ProblemError):
    """Too many requests, or the key's quota is used up."""


class UnavailableError(ProblemError):
    """The service is not ready, did not answer in time, or has no room left."""


_CLASSES: dict[int, type[ProblemError]] = {
    **dict.fromkeys((400, 413, 415, 422), InvalidError),
    **dict.fromkeys((401, 403), AccessError),
    404: NotFoundError,
    409: ConflictError,
    429: BusyError,
    **dict.fromkeys((503, 507), UnavailableError),
}
_PASSING = frozenset({429, 502, 503, 504})


def problem_error(problem: Problem) -> ProblemError:
    """Return the error for a problem document."""
    return _CLASSES.get(problem.status, ProblemError)(problem)


def error_of(response: httpx.Response) -> ClientError:
    """Return the error for an error answer."""
    error: ClientError
    try:
        error = problem_error(Problem.model_validate_json(response.content, extra="ignore"))
    except ValidationError:
        error = UnreadableError(
            f"{without_password(response.url)} answered {response.status_code} and no problem "
            "document: is this the address of the service?"
        )
    error.is_passing = response.status_code in _PASSING
    seconds = response.headers.get("Retry-After", "")
    error.retry_after = float(seconds) if seconds.isascii() and seconds.isdigit() else None
    return error


def without_password(url: httpx.URL) -> str:
    """Return an address without its user name and password, for messages and logs."""
    return str(url.copy_with(userinfo=b""))
