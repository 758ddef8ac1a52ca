"""A port is one service's, however many processes share it, and is told in words when it is not."""

from __future__ import annotations

import socket
from collections import Counter
from contextlib import ExitStack

import pytest

from service.runtime.sockets import ServeError, address_of, another, listen, shared


def test_a_port_in_use_is_one_sentence_with_the_remedy() -> None:
    with listen("127.0.0.1", 0) as taken:
        port = taken.getsockname()[1]
        with pytest.raises(ServeError, match=f"cannot listen on 127.0.0.1:{port} .*--port"):
            listen("127.0.0.1", port)


def test_a_port_can_be_taken_again_though_connections_of_the_last_service_are_remembered() -> None:
    with listen("127.0.0.1", 0) as listener:
        port = listener.getsockname()[1]
        with socket.create_connection(("127.0.0.1", port)):
            listener.accept()[0].close()  # who closes first remembers it for a minute
    listen("127.0.0.1", port).close()


@pytest.mark.parametrize(
    ("host", "told"),
    [("127.0.0.1", "127.0.0.1"), ("0.0.0.0", "127.0.0.1"), ("::1", "[::1]"), ("::", "[::1]")],  # noqa: S104
)
def test_the_address_that_is_told_can_be_asked(host: str, told: str) -> None:
    try:
        listener = listen(host, 0)
    except ServeError:
        pytest.skip("this machine has no such address")
    with listener:
        port = listener.getsockname()[1]
        assert address_of(listener) == f"http://{told}:{port}"


@pytest.mark.parametrize("host", ["", "a b", "nowhere.invalid", "192.0.2.1", "n" * 80])
def test_a_host_that_is_not_ours_is_one_sentence_with_the_remedy(host: str) -> None:
    with pytest.raises(ServeError, match=f"cannot listen on {host}:80 .*--host"):
        listen(host, 80)


def test_connections_to_a_shared_port_go_to_those_who_listen() -> None:
    with ExitStack() as stack:
        keeper = stack.enter_context(shared("127.0.0.1", 0))
        early, late = (stack.enter_context(another(keeper)) for _ in range(2))

        def taken(clients: int) -> Counter[str]:
            found: Counter[str] = Counter()
            for _ in range(clients):
                stack.enter_context(socket.create_connection(keeper.getsockname()))
                for name, listener in (("early", early), ("late", late)):
                    try:
                        listener.setblocking(False)
                        stack.enter_context(listener.accept()[0])
                    except OSError:
                        continue
                    found[name] += 1
            return found

        with pytest.raises(ConnectionRefusedError):
            socket.create_connection(keeper.getsockname())
        early.listen()
        assert taken(30) == {"early": 30}
        late.listen()
        both = taken(60)
        assert both.total() == 60
        assert min(both.values()) > 0
        early.close()
        assert taken(30) == {"late": 30}


def test_a_port_that_several_share_is_nobody_elses() -> None:
    with shared("127.0.0.1", 0) as keeper, another(keeper) as one:
        one.listen()
        host, port = keeper.getsockname()
        for take in (listen, shared):
            with pytest.raises(ServeError, match=f"cannot listen on {host}:{port}"):
                take(host, port)
