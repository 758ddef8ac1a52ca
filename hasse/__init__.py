"""Hasse for your own programs: ask a service, search an index in this process, encode.

This package is the only Python API that is promised. Each name is imported when it is first used:
`Client` and `AsyncClient` need httpx, pydantic and tenacity alone.
"""

from __future__ import annotations

from importlib import import_module
from importlib.metadata import version
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from hasse.local_index import LocalIndex, open_index
    from hasse.model import Model, load_model
    from hasse.models.errors import HasseError
    from hasse.service.client.clients import AsyncClient, Client, Retries
    from hasse.service.client.errors import (
        AccessError,
        BusyError,
        ClientError,
        ConflictError,
        InvalidError,
        NotFoundError,
        ProblemError,
        UnavailableError,
        UnreachableError,
        UnreadableError,
        UnsendableError,
    )
    from hasse.service.client.options import Options

    __version__: str

__all__ = [
    "AccessError",
    "AsyncClient",
    "BusyError",
    "Client",
    "ClientError",
    "ConflictError",
    "HasseError",
    "InvalidError",
    "LocalIndex",
    "Model",
    "NotFoundError",
    "Options",
    "ProblemError",
    "Retries",
    "UnavailableError",
    "UnreachableError",
    "UnreadableError",
    "UnsendableError",
    "load_model",
    "open_index",
]

_MODULES = {
    **dict.fromkeys(("LocalIndex", "open_index"), "hasse.local_index"),
    **dict.fromkeys(("Model", "load_model"), "hasse.model"),
    **dict.fromkeys(("AsyncClient", "Client", "Retries"), "hasse.service.client.clients"),
    "HasseError": "hasse.models.errors",
    "Options": "hasse.service.client.options",
}


if not TYPE_CHECKING:  # a type checker would take every other name for one that is there

    def __getattr__(name: str) -> Any:
        if name == "__version__":
            return version("hasse-search")
        if name not in __all__:
            raise AttributeError(f"module 'hasse' has no attribute '{name}'")
        return getattr(import_module(_MODULES.get(name, "hasse.service.client.errors")), name)


def __dir__() -> list[str]:
    return __all__
