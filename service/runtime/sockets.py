"""The port: taken by one process, or shared by several."""

from __future__ import annotations

import errno
import socket
from typing import Any, Literal, TypeAlias

from models.errors import HasseError

# A client that finds this queue full is left without an answer for seconds; the system may allow
# fewer (net.core.somaxconn).
BACKLOG = 4096
# From when on connections are taken: who comes before the engine is open is answered with 503.
Listens: TypeAlias = Literal["at once", "when open"]


class ServeError(HasseError):
    """A service that cannot start or had to end; the message says why and what to do."""


def listen(host: str, port: int) -> socket.socket:
    """Take a port.

    Raises:
        ServeError: it is taken, or not ours to take, or no host of this machine is named so.
    """
    try:
        family, kind, protocol, _, address = socket.getaddrinfo(
            host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
        )[0]
        listener = socket.socket(family, kind, protocol)
        try:
            listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            listener.bind(address)
            # Two services may both bind a port; only one of them may listen.
            listener.listen(BACKLOG)
        except BaseException:
            listener.close()
            raise
    except (OSError, UnicodeError) as error:
        why, remedy = str(error), "name an address of this machine with --host"
        if isinstance(error, OSError):
            why = error.strerror or why
            if not isinstance(error, socket.gaierror) and error.errno != errno.EADDRNOTAVAIL:
                remedy = "stop what uses that port, or choose another with --port"
        raise ServeError(f"cannot listen on {host}:{port} ({why}): {remedy}") from error
    return listener


def shared(host: str, port: int) -> socket.socket:
    """Take a port that several processes are to listen on, each by an `another` of this socket.

    Nobody is answered by the socket itself: it only keeps the port.

    Raises:
        ServeError: as `listen` does.
    """
    # Who shares a port does not notice others that share it: only who wants it alone does.
    with listen(host, port) as alone:
        family, address = alone.family, alone.getsockname()
    return _sharing(family, address)


def another(keeper: socket.socket) -> socket.socket:
    """Return a socket that has its share of the connections to a port, once it listens."""
    return _sharing(keeper.family, keeper.getsockname())


def address_of(listener: socket.socket) -> str:
    """Return the URL of a service that listens."""
    host, port = listener.getsockname()[:2]
    host = {"0.0.0.0": "127.0.0.1", "::": "[::1]"}.get(host, host)  # noqa: S104
    return f"http://{f'[{host}]' if ':' in host and not host.startswith('[') else host}:{port}"


def _sharing(family: int, address: Any) -> socket.socket:
    sharing = socket.socket(family, socket.SOCK_STREAM)
    try:
        sharing.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        sharing.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
        sharing.bind(address)
    except OSError as error:
        sharing.close()
        raise ServeError(f"cannot share {address[0]}:{address[1]} ({error.strerror})") from error
    return sharing
