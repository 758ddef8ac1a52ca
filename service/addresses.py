"""Addresses of the service for its clients, below the path prefix of a proxy.

The prefix is a context variable, not a parameter, because each request has its own.
"""

from __future__ import annotations

import re
from contextvars import ContextVar
from ipaddress import IPv4Network, IPv6Network, ip_address, ip_network
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from starlette.types import Scope

# The path prefix of the current request, as in "/hasse"; empty without one.
ROOT_PATH: ContextVar[str] = ContextVar("root_path", default="")
# Addresses of the stored picture of an image and of its thumbnail.
IMAGE_URL = "/images/%d/file"
THUMBNAIL_URL = "/images/%d/thumbnail"
PREVIEW_URL = "/images/%d/preview/%s"
PREFIX = re.compile(r"(/[A-Za-z0-9._~-]+)*")

Network = IPv4Network | IPv6Network


def address(path: str) -> str:
    """Return the address of a path of this service."""
    return ROOT_PATH.get() + path


def image_url(image_id: int) -> str:
    """Return the address of the stored picture of an image."""
    return address(IMAGE_URL % image_id)


def thumbnail_url(image_id: int) -> str:
    """Return the address of the thumbnail of an image."""
    return address(THUMBNAIL_URL % image_id)


def preview_url(image_id: int, size: str) -> str:
    """Return the address of a preview of an image."""
    return address(PREVIEW_URL % (image_id, size))


def networks_of(setting: str) -> tuple[Network, ...]:
    """Return the networks of a comma-separated setting; ValueError if one is not a network."""
    parts = (part.strip() for part in setting.split(","))
    return tuple(ip_network(part) for part in parts if part)


def root_path_of(scope: Scope, root_path: str, trusted: tuple[Network, ...]) -> str:
    """Return the path prefix of a request: the header of a trusted proxy, or else `root_path`."""
    if trusted and _is_from(scope, trusted):
        for name, value in scope["headers"]:
            if name == b"x-forwarded-prefix":
                prefix: str = value.decode("latin-1").strip().rstrip("/")
                if PREFIX.fullmatch(prefix):
                    return prefix
    return root_path


def with_root_path(scope: Scope, root_path: str) -> Scope:
    """Return the scope of a request below a prefix, also if the proxy has removed the prefix."""
    path = scope["path"]
    if path != root_path and not path.startswith(f"{root_path}/"):
        path = root_path + path
    elif path == root_path:
        path = f"{root_path}/"
    return {**scope, "root_path": root_path, "path": path}


def _is_from(scope: Scope, networks: tuple[Network, ...]) -> bool:
    try:
        client = ip_address((scope.get("client") or ("",))[0])
    except ValueError:  # a Unix socket has no address
        return False
    return any(client in network for network in networks)
