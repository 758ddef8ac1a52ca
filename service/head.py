"""The head of an answer, which goes out with the beginning of its body."""

from __future__ import annotations

import asyncio

_INTERIM = b"HTTP/1.1 1"  # the beginning of a head that another one follows, such as 100 Continue
_SHORT = 65_536  # bytes of a body that are sooner copied than handed over apart


class HeldHead:
    """What uvicorn takes for the transport of one answer, to which it writes head and body apart.

    They go out in one write, so that a client is woken once and a short answer is one packet.
    """

    __slots__ = ("_begun", "_head", "_transport")

    def __init__(self, transport: asyncio.Transport) -> None:
        self._transport = transport
        self._head = b""
        self._begun = False  # to send the answer

    def write(self, data: bytes) -> None:
        """Keep the head, and send it with what follows."""
        if self._begun or (not self._head and data.startswith(_INTERIM)):
            self._transport.write(data)
        elif not self._head:
            self._head = data
        else:
            self._begun = True
            if len(data) <= _SHORT:
                self._transport.write(self._head + data)
            else:
                self._transport.writelines((self._head, data))

    def close(self) -> None:
        """Close the connection when all that was written is sent."""
        self.finish()
        self._transport.close()

    def is_closing(self) -> bool:
        """Tell whether nothing can be sent any more."""
        return self._transport.is_closing()

    def finish(self) -> None:
        """Send the head, if that is all there is."""
        if self._head and not self._begun and not self._transport.is_closing():
            self._begun = True
            self._transport.write(self._head)
