"""Checks the `Host` of requests, and refuses writes from pages of other sites.

A page of another site can give its own name the address of this service (DNS rebinding). The
browser then sends that name as `Host`, so only known names are answered. An IP address as `Host` is
safe: a browser that sends it has connected to it.
"""

from __future__ import annotations

import re
from functools import lru_cache
from ipaddress import IPv4Address, IPv6Address, ip_address

from starlette.datastructures import Headers

from hasse.service.errors import ServiceError
from hasse.service.settings import Settings, hosts_of, origins_of

WRONG_HOST = ServiceError(
    "wrong_host",
    "this service does not know the name in Host: its operator can add it to HASSE_ALLOWED_HOSTS",
)
_HOST = re.compile(r"(?:\[([0-9a-f:.]+)\]|([a-z0-9._-]+?)\.?)(?::[0-9]{0,5})?")


class Hosts:
    """Allowed values of `Host`, and the origins that may write."""

    def __init__(self, settings: Settings) -> None:
        self._names = hosts_of(settings.allowed_hosts) | {"localhost", settings.host.lower()}
        self._suffixes = tuple(name[1:] for name in self._names if name.startswith("*."))
        address = _address(settings.host)
        self._has_all_addresses = not settings.host or bool(address and address.is_unspecified)
        self._origins = frozenset(origins_of(settings.cors_origins))
        self.knows = lru_cache(maxsize=256)(self._knows)

    def _knows(self, host: str, connected_to: str) -> bool:
        """Return whether a `Host` header names this service.

        `connected_to` is the address of this machine that the client has connected to.
        """
        parts = _HOST.fullmatch(host.lower())
        if parts is None:
            return "*" in self._names
        name = parts[1] or parts[2]
        if not self._names.isdisjoint((name, "*")) or name.endswith(self._suffixes):
            return True
        address = _address(name)
        return name == connected_to or (
            address is not None and (self._has_all_addresses or address.is_loopback)
        )

    def require_same_origin(self, headers: Headers) -> None:
        """Refuse a request from a page of another site, unless CORS allows the site.

        Browsers send `Sec-Fetch-Site` over TLS and to loopback addresses, and always `Origin`.
        Other programs send neither.

        Raises:
            ServiceError: `forbidden`.
        """
        origin, site = headers.get("origin"), headers.get("sec-fetch-site")
        if not self._origins.isdisjoint((origin, "*")):
            return
        if site is not None:
            is_ours = site in ("same-origin", "none")
        else:
            is_ours = origin is None or origin.partition("://")[2] == headers.get("host")
        if not is_ours:
            raise ServiceError(
                "forbidden",
                "pages of other sites may not write here: the operator of this service can "
                "allow it to some (HASSE_CORS_ORIGINS)",
            )


def _address(text: str) -> IPv4Address | IPv6Address | None:
    try:
        return ip_address(text)
    except ValueError:
        return None
