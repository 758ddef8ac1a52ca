"""Who may change the collection by a form of the page."""

from __future__ import annotations

from fastapi import Request

from hasse.service.errors import ServiceError
from hasse.service.services import Services


def require_writes(services: Services) -> None:
    """Raise ServiceError `forbidden` where nobody may write."""
    if not services.settings.takes_writes:
        raise ServiceError("forbidden", "this service does not let anybody change its pictures")


def admit_writer(request: Request, services: Services, key: str) -> None:
    """Refuse a form of another site, or one without a key that may write, where one is needed.

    The key is a field of the form, and no password that browsers send by themselves. So another
    site cannot make them use it.

    Raises:
        ServiceError: `forbidden`, also for `unauthorized`, for which a browser would ask for a
            password; or `quota`.
    """
    services.hosts.require_same_origin(request.headers)
    require_writes(services)
    key = key.strip()
    if services.settings.writes_need_key and not key:
        raise ServiceError("forbidden", "type the key that lets you write here")
    try:
        request.scope["hasse.key"] = services.access.admit_key(key, "write") or None
    except ServiceError as error:
        if error.reason != "unauthorized":
            raise
        raise ServiceError("forbidden", error.detail) from None
