"""Access keys and per-key rate limits.

Settings contain the SHA-256 of a key, not the key, so that neither a list of settings nor the
environment of a process reveals it. `hasse lab key` makes both.
"""

from __future__ import annotations

import base64
import hashlib
import hmac
import math
import secrets
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from time import monotonic
from typing import Literal, TypeAlias

from starlette.datastructures import Headers

from hasse.service.errors import ServiceError
from hasse.service.plural import count
from hasse.service.settings import Settings

Purpose: TypeAlias = Literal["read", "search", "write"]

_KEY_BYTES = 24


def new_key() -> str:
    """Return a new random key."""
    return f"hasse_{secrets.token_urlsafe(_KEY_BYTES)}"


def fingerprint(key: str) -> str:
    """Return the SHA-256 of a key, as settings contain it."""
    return hashlib.sha256(key.encode()).hexdigest()


class Access:
    """Keys and quotas of one application. Belongs to one event loop."""

    def __init__(self, settings: Settings) -> None:
        self._quotas = {"search": Quota(None), "write": Quota(None)}
        self.update(settings)

    def update(self, settings: Settings) -> None:
        """Apply the keys and limits of settings. A quota with an unchanged limit keeps counting."""
        self._readers, self._writers = settings.readers, settings.writers
        self._open_writes = settings.open_writes
        limits = {"search": settings.searches_per_minute, "write": settings.writes_per_minute}
        for purpose, limit in limits.items():
            if limit != self._quotas[purpose].per_minute:
                self._quotas[purpose] = Quota(limit)
        # Reading and searching need no key and have no limit.
        has_keys = bool(self._readers or self._writers)
        self.is_open = not has_keys and settings.searches_per_minute is None

    def admit(self, headers: Headers, purpose: Purpose) -> str:
        """Return the name of the key of a request; "" if it needs none.

        Raises:
            ServiceError: `unauthorized` without a known key, `forbidden` if this key or nobody may
                write, `quota` if the key made too many requests.
        """
        # A browser sends a stored password even with requests from pages of other sites.
        key = _bearer(headers) or ("" if purpose == "write" else _password(headers))
        return self.admit_key(key, purpose)

    def admit_key(self, key: str, purpose: Purpose) -> str:
        """Return the name of a key, or "" if none is needed; raises as `admit`."""
        name = self._name_of(key, purpose)
        if purpose in self._quotas:
            self._quotas[purpose].take(name)
        return name

    def _name_of(self, key: str, purpose: Purpose) -> str:
        is_write = purpose == "write"
        if is_write and not self._writers and not self._open_writes:
            raise ServiceError(
                "forbidden",
                "this service takes no writes: its operator can allow them to holders of a key "
                "(HASSE_WRITE_KEYS)",
            )
        writer, reader = _match(key, self._writers), _match(key, self._readers)
        if is_write and self._writers:
            if writer:
                return writer
            if reader:
                raise ServiceError("forbidden", "this key is for reading only")
        elif writer or reader or not self._readers:
            return writer or reader
        raise ServiceError(
            "unauthorized",
            "this key is not known here"
            if key
            else "send a key, as 'Authorization: Bearer KEY' or 'X-API-Key: KEY'",
        )


@dataclass(slots=True)
class _Bucket:
    tokens: float
    filled_at: float


class Quota:
    """Rate limit for each name: a token bucket that holds the tokens of one minute.

    Without `per_minute` there is no limit.
    """

    def __init__(self, per_minute: int | None, clock: Callable[[], float] = monotonic) -> None:
        self.per_minute = per_minute
        self._clock = clock
        self._buckets: dict[str, _Bucket] = {}

    def take(self, name: str) -> None:
        """Take one token; raises ServiceError `quota` if the bucket is empty."""
        if self.per_minute is None:
            return
        now = self._clock()
        bucket = self._buckets.setdefault(name, _Bucket(self.per_minute, now))
        per_second = self.per_minute / 60
        bucket.tokens = min(self.per_minute, bucket.tokens + (now - bucket.filled_at) * per_second)
        bucket.filled_at = now
        if bucket.tokens < 1:
            subject = "this key" if name else "all clients without a key together"
            limit = count(self.per_minute, "such request")
            raise ServiceError(
                "quota",
                f"{subject} may make {limit} in a minute, and no more",
                retry_after=math.ceil((1 - bucket.tokens) / per_second),
            )
        bucket.tokens -= 1


def _match(key: str, digests: Mapping[str, str]) -> str:
    """Return the name of a key, or "", in constant time."""
    if not digests:
        return ""
    key_digest = fingerprint(key)
    key_name = ""
    for name, digest in digests.items():
        if hmac.compare_digest(key_digest, digest):
            key_name = name
    return key_name


def _bearer(headers: Headers) -> str:
    scheme, _, value = headers.get("authorization", "").partition(" ")
    if scheme.lower() == "bearer":
        return value.strip()
    return headers.get("x-api-key", "").strip()


def _password(headers: Headers) -> str:
    """Return the password of Basic authentication; the user name does not matter."""
    scheme, _, value = headers.get("authorization", "").partition(" ")
    if scheme.lower() != "basic":
        return ""
    try:
        return base64.b64decode(value.strip(), validate=True).decode().partition(":")[2]
    except ValueError:  # not base64, or not UTF-8 inside
        return ""
