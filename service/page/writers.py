"""Access control of the forms that change the collection."""

from __future__ import annotations

from fastapi import Request

from hasse.service.errors import ServiceError
from hasse.service.http.services import Services


def require_writes(services: Services) -> None:
    """Raise ServiceError `forbidden` if the service accepts no writes."""
    if not services.settings.takes_writes:
        raise ServiceError("forbidden", "this service does not let anybody change its pictures")


def admit_writer(request: Request, services: Services, key: str) -> None:
    """Check that a form is from our own page, and that its key may write.

    The key is a field of the form. Browsers do not send it by themselves as they do a password, so
    another site cannot make them use it.

    Raises:
        ServiceError: `forbidden` or `quota`. An unknown key is `forbidden` too, because for
            `unauthorized` a browser asks for a password.
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


async def written_fields(request: Request, services: Services) -> dict[str, str]:
    """Return the fields of a form that writes; raises as `admit_writer`."""
    fields = request.state.fields = dict((await services.bodies.form(request)).texts)
    admit_writer(request, services, fields.get("key", ""))
    return fields
