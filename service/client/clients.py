"""The clients: one for plain programs, one for programs with an event loop.

Both have the methods of `service.client.calls`. They differ in how they send and wait.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, Generic, Self, TypeVar

import httpx
from tenacity import (
    AsyncRetrying,
    RetryCallState,
    Retrying,
    retry_if_exception,
    stop_after_attempt,
    wait_exponential,
    wait_random_exponential,
)

from hasse.service.client.call import Ask, Call, Result
from hasse.service.client.calls import Blocking, Calls, embed_calls
from hasse.service.client.errors import ClientError
from hasse.service.questions.answers import Embedding

DEFAULT_URL = "http://127.0.0.1:8000"

Http = TypeVar("Http")
Transport = TypeVar("Transport")


@dataclass(frozen=True, slots=True)
class Retries:
    """When to repeat a request. Every request may be repeated, because all are idempotent.

    Attributes:
        attempts: maximum number of attempts; 1 never repeats.
        first_wait: seconds before the second attempt, doubled before each further one, and made
            up to half as long at random, so that clients do not come back at the same time.
        longest_wait: maximum seconds between two attempts. If the service demands more with
            `Retry-After`, the request is not repeated.
    """

    attempts: int = 4
    first_wait: float = 0.2
    longest_wait: float = 10.0

    def rules(self) -> dict[str, Any]:
        """Return the arguments of tenacity's classes."""
        return {
            "stop": stop_after_attempt(self.attempts),
            "wait": self._wait,
            "retry": retry_if_exception(self._should_retry),
            "reraise": True,
        }

    def _should_retry(self, error: BaseException) -> bool:
        if not isinstance(error, ClientError):
            return False
        return error.is_passing and (error.retry_after or 0.0) <= self.longest_wait

    def _wait(self, state: RetryCallState) -> float:
        error = state.outcome.exception() if state.outcome else None
        if isinstance(error, ClientError) and error.retry_after is not None:
            return error.retry_after
        halves = {"multiplier": self.first_wait / 2, "max": self.longest_wait / 2}
        return (wait_exponential(**halves) + wait_random_exponential(**halves))(state)


class _Base(Calls, Generic[Http, Transport]):
    _kind: Any

    def __init__(
        self,
        url: str = DEFAULT_URL,
        key: str | None = None,
        *,
        retries: Retries | None = None,
        timeout: float = 30.0,
        transport: Transport | None = None,
    ) -> None:
        """Make a client of the service at `url`, with a `key` if it needs one.

        An attempt ends after `timeout` seconds without data.

        Raises:
            ValueError: `url` is not the address of a service, or the key does not fit in a header.
        """
        self._retries = retries or Retries()
        service = _address(url)
        headers = _key_header(key, service)
        self._http: Http = self._kind(
            base_url=service, headers=headers, timeout=timeout, transport=transport
        )


class Client(_Base[httpx.Client, httpx.BaseTransport], Blocking):
    """Asks one service. Threads may share it; close it, or use it in a `with` block.

    Every method raises a `ClientError`: a `ProblemError` with the error of the service,
    `UnreachableError` without an answer, `UnreadableError` if something else answered,
    `UnsendableError` if HTTP cannot carry the request. A request that may succeed later is first
    repeated.
    """

    _kind = httpx.Client

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    def close(self) -> None:
        """Close the connections."""
        self._http.close()

    def embed(self, texts: Iterable[str]) -> list[Embedding]:
        """Return the embeddings of any number of texts, with as many requests as they need."""
        return [embedding for call in embed_calls(texts) for embedding in self.make(call)]

    def make(self, call: Call[Result] | Ask[Result]) -> Result:
        """Send a request until it is answered, and return the answer."""
        call = call.call() if isinstance(call, Ask) else call
        request = call.request(self._http)

        def attempt() -> Result:
            try:
                response = self._http.send(request)
            except httpx.RequestError as error:
                raise call.unreachable(error) from error
            return call.result(response)

        return Retrying(**self._retries.rules())(attempt)


class AsyncClient(_Base[httpx.AsyncClient, httpx.AsyncBaseTransport]):
    """Asks one service from one event loop; close it, or use it in an `async with` block.

    It has the methods of `Client`, as coroutines.
    """

    _kind = httpx.AsyncClient

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *error: object) -> None:
        await self.close()

    async def close(self) -> None:
        """Close the connections."""
        await self._http.aclose()

    async def embed(self, texts: Iterable[str]) -> list[Embedding]:
        """Return the embeddings of any number of texts, with as many requests as they need."""
        return [embedding for call in embed_calls(texts) for embedding in await self.make(call)]

    async def make(self, call: Call[Result] | Ask[Result]) -> Result:
        """Send a request until it is answered, and return the answer."""
        call = call.call() if isinstance(call, Ask) else call
        if call.picture is None:
            request = call.request(self._http)
        else:  # reading the file of a picture would block the event loop
            request = await asyncio.to_thread(call.request, self._http)

        async def attempt() -> Result:
            try:
                response = await self._http.send(request)
            except httpx.RequestError as error:
                raise call.unreachable(error) from error
            return call.result(response)

        return await AsyncRetrying(**self._retries.rules())(attempt)


def _address(url: str) -> httpx.URL:
    try:
        parsed = httpx.URL(url)
    except httpx.InvalidURL:
        parsed = httpx.URL()
    if parsed.scheme not in {"http", "https"} or not parsed.host or b"?" in parsed.raw_path:
        raise ValueError(f"this is no address of a service, such as {DEFAULT_URL}")
    return parsed


def _key_header(key: str | None, url: httpx.URL) -> dict[str, str]:
    if not key:
        return {}
    if not (key.strip() and key.isascii() and key.isprintable()):
        raise ValueError("this is no key: it is blank, or has a line end or non-ASCII letters")
    if url.username or url.password:  # these are sent as "Authorization"
        return {"X-API-Key": key}
    return {"Authorization": f"Bearer {key}"}
