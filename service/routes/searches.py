"""Which requests are searches: those that need a place, and are refused when there is none."""

from __future__ import annotations

import re

from fastapi.routing import APIRoute

from service.routes import lattice, search

_ROUTES = [
    route
    for router in (search.router, lattice.router)
    for route in router.routes
    if isinstance(route, APIRoute)
]
_PLAIN = {
    (method.encode(), route.path.encode()): route.path
    for route in _ROUTES
    for method in route.methods or ()
    if "{" not in route.path
}
_WITH_ID = [
    (method.encode(), re.compile(re.sub(r"\{\w+\}", "[0-9]+", route.path).encode()), route.path)
    for route in _ROUTES
    for method in route.methods or ()
    if "{" in route.path
]


def searched(method: bytes, path: bytes) -> str | None:
    """Return the route of a search, as metrics name it; None for any other request."""
    plain = _PLAIN.get((method, path))
    if plain is not None:
        return plain
    for its_method, pattern, route in _WITH_ID:
        if method == its_method and pattern.fullmatch(path):
            return route
    return None
