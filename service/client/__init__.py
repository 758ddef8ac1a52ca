"""A client for the service: needs httpx and pydantic, and nothing else of this project's needs.

It lives with the service because what goes over the wire is written down here once
(`service.schemas`): a field that the service gains is a field that the client has.

    from service.client import Client

    with Client("http://127.0.0.1:8000") as hasse:
        for hit in hasse.search_images("a dog on a beach", k=3).hits:
            print(hit.image_id, hit.violation)
"""

from models.errors import HasseError
from service.client.asynchronous import AsyncClient
from service.client.calls import Options
from service.client.errors import (
    AccessError,
    BusyError,
    ConflictError,
    InvalidError,
    NotFoundError,
    ProblemError,
    UnavailableError,
    UnreachableError,
    UnreadableError,
    UnsendableError,
)
from service.client.retries import Retries
from service.client.synchronous import Client

__all__ = [
    "AccessError",
    "AsyncClient",
    "BusyError",
    "Client",
    "ConflictError",
    "HasseError",
    "InvalidError",
    "NotFoundError",
    "Options",
    "ProblemError",
    "Retries",
    "UnavailableError",
    "UnreachableError",
    "UnreadableError",
    "UnsendableError",
]
