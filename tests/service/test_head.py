"""What of an answer goes out in which write."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable

import pytest

from service.head import HeldHead

HEAD = b"HTTP/1.1 200 OK\r\ncontent-length: 4\r\n\r\n"


class Wire(asyncio.Transport):
    """A connection that keeps what was written to it, in the parts in which it was."""

    def __init__(self) -> None:
        super().__init__()
        self.sent: list[bytes | str] = []

    def write(self, data: bytes | bytearray | memoryview) -> None:
        if self.is_closing():
            raise RuntimeError("unable to perform operation: the handler is closed")  # as uvloop
        self.sent.append(bytes(data))

    def writelines(self, list_of_data: Iterable[bytes | bytearray | memoryview]) -> None:
        self.sent.append(b"".join(list_of_data))

    def close(self) -> None:
        self.sent.append("closed")

    def is_closing(self) -> bool:
        return "closed" in self.sent


@pytest.mark.parametrize("body", [b"", b"body", 100_000 * b"b", b"HTTP/1.1 100 is no head"])
def test_the_head_goes_out_with_the_beginning_of_the_body(body: bytes) -> None:
    wire = Wire()
    answer = HeldHead(wire)
    answer.write(HEAD)
    assert wire.sent == []
    answer.write(body)
    answer.write(b"and more")
    answer.finish()
    assert wire.sent == [HEAD + body, b"and more"]


def test_an_answer_without_a_body_goes_out_when_it_is_complete() -> None:
    wire = Wire()
    answer = HeldHead(wire)
    answer.write(HEAD)
    answer.finish()
    assert wire.sent == [HEAD]


def test_a_connection_is_closed_behind_the_answer() -> None:
    wire = Wire()
    answer = HeldHead(wire)
    answer.write(HEAD)
    assert not answer.is_closing()
    answer.close()
    assert answer.is_closing()
    answer.finish()
    assert wire.sent == [HEAD, "closed"]


def test_nothing_is_sent_to_a_client_that_is_gone() -> None:
    wire = Wire()
    answer = HeldHead(wire)
    answer.write(HEAD)
    wire.close()
    answer.close()
    assert wire.sent == ["closed", "closed"]


def test_who_waits_to_be_told_to_go_on_is_told_at_once() -> None:
    wire = Wire()
    answer = HeldHead(wire)
    answer.write(b"HTTP/1.1 100 Continue\r\n\r\n")
    assert wire.sent == [b"HTTP/1.1 100 Continue\r\n\r\n"]
    answer.write(HEAD)
    answer.write(b"body")
    assert wire.sent[1:] == [HEAD + b"body"]
