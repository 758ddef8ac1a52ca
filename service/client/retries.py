"""When to ask again, and how long to wait before."""

from __future__ import annotations

import random
from dataclasses import dataclass

import httpx

from service.client.errors import UnreachableError, error_of, retry_after, told

_PASSING = frozenset({429, 502, 503, 504})


@dataclass(frozen=True, slots=True)
class Retries:
    """How patient a client is. Every request may be repeated: none does its work twice.

    Attributes:
        attempts: requests in all; 1 never repeats.
        first_wait: seconds before the second request, doubled before each further one, and
            made up to half as long by chance, so that clients do not come back together.
        longest_wait: seconds between two requests at most. A service that asks for more with
            `Retry-After` is not waited for.
    """

    attempts: int = 4
    first_wait: float = 0.2
    longest_wait: float = 10.0

    def after_silence(self, attempt: int, error: httpx.RequestError) -> float:
        """Return the seconds to wait after a request without an answer that can be read.

        Raises:
            UnreachableError: that was the last attempt.
        """
        if attempt >= self.attempts:
            words = str(error) or type(error).__name__
            raise UnreachableError(f"{told(error.request.url)} did not answer: {words}") from error
        return self._backoff(attempt)

    def after_refusal(self, attempt: int, response: httpx.Response) -> float:
        """Return the seconds to wait after an answer without success.

        Raises:
            ProblemError: asking again would not help, now or ever.
        """
        asked = retry_after(response)
        wait = self._backoff(attempt) if asked is None else asked
        passing = response.status_code in _PASSING and wait <= self.longest_wait
        if attempt >= self.attempts or not passing:
            raise error_of(response)
        return wait

    def _backoff(self, attempt: int) -> float:
        longest = self.first_wait * 2 ** (attempt - 1)
        return float(min(self.longest_wait, longest) * random.uniform(0.5, 1.0))
