"""A port in use or forbidden is refused in words, with the remedy."""

from __future__ import annotations

import socket

import pytest

from service.runtime.sockets import ServeError, address_of, listen


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
