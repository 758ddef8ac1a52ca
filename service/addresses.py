"""Addresses of the service as its clients see them: below the path prefix of a proxy.

The prefix belongs to the request, so it is a context variable: what makes an answer need not be
told it.
"""

from __future__ import annotations

import re
from contextvars import ContextVar
from ipaddress import IPv4Network, IPv6Network, ip_address, ip_network

from starlette.types import Scope

# The path prefix of the request that is answered, as in "/hasse"; empty without one.
ROOT_PATH: ContextVar[str] = ContextVar("root_path", default="")
# Where the stored picture of an image, and its thumbnail, are served.
IMAGE_URL = "/images/%d/file"
THUMBNAIL_URL = "/images/%d/thumbnail"
PREFIX = re.compile(r"(/[A-Za-z0-9._~-]+)*")

Network = IPv4Network | IPv6Network


def address(path: str) -> str:
    """Return the address of a path of this service."""
    return ROOT_PATH.get() + path


def image_url(image_id: int) -> str:
    """Return where the stored picture of an image is served."""
    return address(IMAGE_URL % image_id)


def thumbnail_url(image_id: int) -> str:
    """Return where the thumbnail of an image is served."""
    return address(THUMBNAIL_URL % image_id)


def networks_of(setting: str) -> tuple[Network, ...]:
    """Return the networks of a setting with commas; ValueError if one is none."""
    parts = (part.strip() for part in setting.split(","))
    return tuple(ip_network(part) for part in parts if part)


def root_path_of(scope: Scope, root_path: str, trusted: tuple[Network, ...]) -> str:
    """Return the path prefix of a request: what a trusted proxy says, or else `root_path`."""
    if trusted and _is_from(scope, trusted):
        for name, value in scope["headers"]:
            if name == b"x-forwarded-prefix":
                said: str = value.decode("latin-1").strip().rstrip("/")
                if PREFIX.fullmatch(said):
                    return said
    return root_path


def with_root_path(scope: Scope, root_path: str) -> Scope:
    """Return the scope of a request below a prefix, whether the proxy has taken it off or not."""
    path = scope["path"]
    if path != root_path and not path.startswith(f"{root_path}/"):
        path = root_path + path
    elif path == root_path:
        path = f"{root_path}/"
    return {**scope, "root_path": root_path, "path": path}


def _is_from(scope: Scope, networks: tuple[Network, ...]) -> bool:
    try:
        client = ip_address((scope.get("client") or ("",))[0])
    except ValueError:  # no address, as of a Unix socket
        return False
    return any(client in network for network in networks)
