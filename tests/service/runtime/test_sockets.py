"""A port in use or forbidden is refused in words, with the remedy."""

from __future__ import annotations

import socket
from contextlib import ExitStack

import pytest

from hasse.service.runtime.sockets import ServeError, address_of, listen, reserve, share


def test_listen_on_a_port_in_use_is_refused_with_the_remedy() -> None:
    with listen("127.0.0.1", 0) as taken:
        port = taken.getsockname()[1]
        with pytest.raises(ServeError, match=f"cannot listen on 127.0.0.1:{port} .*--port"):
            listen("127.0.0.1", port)


def test_listen_after_a_service_that_closed_connections_first_succeeds() -> None:
    with listen("127.0.0.1", 0) as listener:
        port = listener.getsockname()[1]
        with socket.create_connection(("127.0.0.1", port)):
            listener.accept()[0].close()  # whoever closes first remembers it for a minute
    listen("127.0.0.1", port).close()


@pytest.mark.parametrize(
    ("host", "told"),
    [("127.0.0.1", "127.0.0.1"), ("0.0.0.0", "127.0.0.1"), ("::1", "[::1]"), ("::", "[::1]")],  # noqa: S104
)
def test_address_of_every_host_can_be_asked(host: str, told: str) -> None:
    try:
        listener = listen(host, 0)
    except ServeError:
        pytest.skip("this machine has no such address")
    with listener:
        port = listener.getsockname()[1]
        assert address_of(listener) == f"http://{told}:{port}"


@pytest.mark.parametrize("host", ["", "a b", "nowhere.invalid", "192.0.2.1", "n" * 80])
def test_listen_on_a_foreign_host_is_refused_with_the_remedy(host: str) -> None:
    with pytest.raises(ServeError, match=f"cannot listen on {host}:80 .*--host"):
        listen(host, 80)


def accepted(listener: socket.socket) -> int:
    """How many connections wait to be accepted."""
    listener.setblocking(False)
    count = 0
    while True:
        try:
            listener.accept()[0].close()
        except BlockingIOError:
            return count
        count += 1


def test_connections_to_a_shared_port_go_to_all_that_listen() -> None:
    with ExitStack() as stack:
        reserved = stack.enter_context(reserve("127.0.0.1", 0))
        first, second = (stack.enter_context(share(reserved)) for _ in range(2))
        address = reserved.getsockname()
        with pytest.raises(ConnectionRefusedError):
            socket.create_connection(address)
        first.listen(100)
        for _ in range(10):
            stack.enter_context(socket.create_connection(address))
        assert (accepted(first), first.getsockname()) == (10, address)
        second.listen(100)
        for _ in range(60):
            stack.enter_context(socket.create_connection(address))
        counts = [accepted(first), accepted(second)]
        assert sum(counts) == 60
        assert min(counts) > 0


def test_shared_port_is_refused_to_other_services() -> None:
    with reserve("127.0.0.1", 0) as reserved, share(reserved) as one:
        one.listen()
        host, port = reserved.getsockname()
        for take in (listen, reserve):
            with pytest.raises(ServeError, match=f"cannot listen on {host}:{port}"):
                take(host, port)
