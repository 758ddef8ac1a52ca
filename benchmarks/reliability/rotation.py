"""Are keys rotated under load without a good one refused, or a removed one served?

    python -m benchmarks.reliability.rotation FOLDER [--rows 10000] [--rounds 20] [--processes 1]

Clients ask without a pause with a key that stays and with two that take turns: each round replaces
the file of keys and sends SIGHUP. A second later the removed key has to be refused and the new one
served; the key that stays has to be served always. FOLDER keeps the collection for the next run.
"""

from __future__ import annotations

import asyncio
import signal
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from time import perf_counter

from benchmarks.reliability.collection import captions, collection
from benchmarks.reliability.connection import Connection, search
from benchmarks.reliability.served import Served, served
from benchmarks.report import Line, finish, machine, milliseconds, options_of
from hasse.service.http.access import fingerprint, new_key

CLIENTS_EACH = 6
STAYS, TURNS = "stays", ("odd", "even")
NAMES = (STAYS, *TURNS)
KEYS = {name: new_key() for name in NAMES}
ROUND_SECONDS = 1.5
_LATE_SECONDS = 1.0  # after SIGHUP, in which either is right for a key that changed


@dataclass(frozen=True, slots=True)
class Asked:
    """A request: the name of its key, when it was sent and what it was answered."""

    name: str
    sent: float
    status: int


@dataclass(frozen=True, slots=True)
class Rotations:
    """What was asked, and when the keys of each round were announced."""

    asked: Sequence[Asked]
    signals: Sequence[float]

    @property
    def refused(self) -> int:
        """Requests with a good key that were not served."""
        return sum(one.status != 200 and self._expected(one) is True for one in self.asked)

    @property
    def served(self) -> int:
        """Requests with a removed key that were served."""
        return sum(one.status != 401 and self._expected(one) is False for one in self.asked)

    @property
    def delay(self) -> float:
        """The longest time from a signal to the last request by the keys of before, in seconds."""
        late = (
            one.sent - self.signals[at]
            for one in self.asked
            if one.name != STAYS and (at := self._round(one)) >= 0
            if (one.status == 200) != (one.name == TURNS[at % 2])
        )
        return max(late, default=0.0)

    def _round(self, one: Asked) -> int:
        """Return the last round that was announced before a request was sent."""
        return sum(signal <= one.sent for signal in self.signals) - 1

    def _expected(self, one: Asked) -> bool | None:
        """Tell whether a request has to be served; None where either is right."""
        at = self._round(one)
        if one.name == STAYS:
            return True
        if at < 0 or one.sent - self.signals[at] < _LATE_SECONDS:
            return None
        return one.name == TURNS[at % 2]


def write_keys(file: Path, turn: int) -> None:
    """Replace a file of keys by that of a round."""
    lines = [f"read {name}:{fingerprint(KEYS[name])}\n" for name in (STAYS, TURNS[turn % 2])]
    new = file.with_name(file.name + ".new")
    new.write_text("".join(lines))
    new.replace(file)


def rotate(service: Served, file: Path, rounds: int) -> Rotations:
    """Rotate the keys of a service that is at work."""
    return asyncio.run(_rotate(service, file, rounds))


async def _rotate(service: Served, file: Path, rounds: int) -> Rotations:
    asked: list[Asked] = []
    signals: list[float] = []
    texts, ended = captions(100), asyncio.Event()

    async def client(name: str, at: int) -> None:
        connection = await Connection.open(service.host, service.port)
        key = f"\r\nX-API-Key: {KEYS[name]}\r\n".encode()
        while not ended.is_set():
            at += 1
            if not connection.is_open:
                connection = await Connection.open(service.host, service.port)
            request = search(texts[at % len(texts)]).replace(b"\r\n", key, 1)
            sent = perf_counter()
            asked.append(Asked(name, sent, (await connection.ask(request)).status))
        await connection.close()

    clients = [
        asyncio.create_task(client(name, at)) for name in NAMES for at in range(CLIENTS_EACH)
    ]
    for turn in range(rounds):
        await asyncio.sleep(ROUND_SECONDS)
        write_keys(file, turn)
        signals.append(perf_counter())
        service.process.send_signal(signal.SIGHUP)
    await asyncio.sleep(ROUND_SECONDS)
    ended.set()
    await asyncio.gather(*clients)
    return Rotations(asked, signals)


def main() -> None:
    """Rotate and print."""
    given = options_of(__doc__, rows=10_000, rounds=20, processes=1)
    at = machine()
    file = given.folder / "keys"
    index = collection(given.folder, given.rows)
    write_keys(file, 1)
    with served(index, keys_file=file, processes=given.processes) as service:
        seen = rotate(service, file, given.rounds)
    finish(
        f"Keys rotated {given.rounds} times under {len(NAMES) * CLIENTS_EACH} clients",
        [
            Line("requests", f"{len(seen.asked):,}"),
            Line("with a good key, refused", str(seen.refused), "0", seen.refused == 0),
            Line(
                "with a removed key, served a second later", str(seen.served), "0", seen.served == 0
            ),
            Line(
                "from the signal to the last request by the keys before",
                f"at most {milliseconds(seen.delay)}",
                "1 s",
                seen.delay <= _LATE_SECONDS,
            ),
        ],
        at,
    )


if __name__ == "__main__":
    main()
