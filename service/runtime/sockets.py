"""Listening sockets of the service."""

from __future__ import annotations

import errno
import socket
from typing import Any

from hasse.models.errors import HasseError

# Connections that may wait to be accepted; with a full queue, a client waits for seconds.
BACKLOG = 4096


class ServeError(HasseError):
    """The service cannot start, or had to stop. The message has the remedy."""


def listen(host: str, port: int) -> socket.socket:
    """Listen on a port.

    Raises:
        ServeError: the port is in use or forbidden, or the host is not an address of this machine.
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
        reason, remedy = str(error), "name an address of this machine with --host"
        if isinstance(error, OSError):
            reason = error.strerror or reason
            if not isinstance(error, socket.gaierror) and error.errno != errno.EADDRNOTAVAIL:
                remedy = "stop what uses that port, or choose another with --port"
        raise ServeError(f"cannot listen on {host}:{port} ({reason}): {remedy}") from error
    return listener


def reserve(host: str, port: int) -> socket.socket:
    """Bind a socket to a port, without listening, for several processes that `share` it.

    Raises:
        ServeError: see `listen`.
    """
    # If another service shares the port, binding it here as a shared port succeeds. Listening to
    # it alone fails, which is the check.
    with listen(host, port) as listener:
        family, address = listener.family, listener.getsockname()
    return _bind_shared(family, address)


def share(reserved: socket.socket) -> socket.socket:
    """Return another socket of a reserved port. Listening sockets get equal shares of clients."""
    return _bind_shared(reserved.family, reserved.getsockname())


def _bind_shared(family: int, address: Any) -> socket.socket:
    bound = socket.socket(family, socket.SOCK_STREAM)
    try:
        bound.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        bound.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
        bound.bind(address)
    except OSError as error:
        bound.close()
        raise ServeError(f"cannot share {address[0]}:{address[1]} ({error.strerror})") from error
    return bound


def address_of(listener: socket.socket) -> str:
    """Return the URL of a listening service."""
    host, port = listener.getsockname()[:2]
    host = {"0.0.0.0": "127.0.0.1", "::": "[::1]"}.get(host, host)  # noqa: S104
    return f"http://{f'[{host}]' if ':' in host and not host.startswith('[') else host}:{port}"
