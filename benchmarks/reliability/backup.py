"""Does a backup that is made during writes hold every write that was acknowledged before it?

    python -m benchmarks.reliability.backup FOLDER [--rounds 20] [--seconds 60] [--rate 20]

A service takes pictures over HTTP, and removes some, RATE writes a second. In each round of so many
seconds, 'hasse backup' runs in a process of its own, to a folder and to a file in turn. Each backup
is restored elsewhere, read as a whole, and compared with what had been acknowledged.
"""

from __future__ import annotations

import asyncio
import json
import re
import shutil
import subprocess
import sys
from collections import Counter
from dataclasses import dataclass, field
from datetime import UTC, datetime
from io import BytesIO
from pathlib import Path
from time import perf_counter

import numpy as np
from PIL import Image

from benchmarks.reliability.collection import collection
from benchmarks.reliability.connection import Connection, form
from benchmarks.reliability.load import run
from benchmarks.reliability.served import Served, served
from benchmarks.report import Line, finish, machine, options_of
from hasse.index.store import Index
from hasse.index.verify import verify

ROWS = 20_000
REMOVED_ONE_IN = 3


@dataclass(slots=True)
class Writes:
    """What was acknowledged, and when."""

    added: dict[int, str] = field(default_factory=dict)  # the moment, by id
    removed: dict[int, str] = field(default_factory=dict)
    asked: dict[int, str] = field(default_factory=dict)  # when a removal was asked for
    refused: Counter[int] = field(default_factory=Counter)  # by status
    seconds: list[float] = field(default_factory=list)

    def faults(self, moment: str, held: set[int]) -> list[str]:
        """Compare a backup of a moment with what had been acknowledged before."""
        lost = {
            id_
            for id_, at in self.added.items()
            if at < moment and id_ not in held and not self.asked.get(id_, "9") < moment
        }
        back = {id_ for id_, at in self.removed.items() if at < moment and id_ in held}
        faults = [f"lost {id_}" for id_ in sorted(lost)]
        return faults + [f"not removed {id_}" for id_ in sorted(back)]


def now() -> str:
    """Return the moment, as a backup names it."""
    return datetime.now(UTC).isoformat(timespec="milliseconds")


def picture(seed: int) -> bytes:
    """Return a PNG that no other seed gives."""
    pixels = np.random.default_rng(seed).integers(0, 255, (24, 24, 3), np.uint8)
    file = BytesIO()
    Image.fromarray(pixels).save(file, "PNG")
    return file.getvalue()


async def _write(service: Served, writes: Writes, at: int) -> None:
    connection = await Connection.open(service.host, service.port)
    live = [id_ for id_ in writes.added if id_ not in writes.asked]
    began = perf_counter()
    if at % REMOVED_ONE_IN == 0 and live:
        writes.asked[live[0]] = now()
        head = f"DELETE /images/{live[0]} HTTP/1.1\r\nHost: localhost\r\n\r\n"
        reply = await connection.ask(head.encode())
        if reply.status == 204:
            writes.removed[live[0]] = now()
    else:
        reply = await connection.ask(form("/images", picture(at), caption=f"picture {at}"))
        if reply.status == 201:
            writes.added[json.loads(reply.body)["image_id"]] = now()
    if reply.status >= 400:
        writes.refused[reply.status] += 1
    writes.seconds.append(perf_counter() - began)
    await connection.close()


async def _keep_writing(service: Served, writes: Writes, rate: float) -> None:
    async with asyncio.TaskGroup() as group:
        at = 0
        while True:
            group.create_task(_write(service, writes, at := at + 1))
            await asyncio.sleep(1 / rate)


def back_up(library: Path, place: Path) -> str:
    """Run 'hasse backup'; return the moment that it prints."""
    command: list[str | Path] = [
        sys.executable,
        "-m",
        "hasse",
        "backup",
        place,
        "--library",
        library,
    ]
    said = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    found = re.search(r"answered before (\S+)", said)
    assert found is not None, said
    return found[1]


def restored(place: Path, library: Path) -> tuple[set[int], tuple[str, ...]]:
    """Restore a backup; return the ids in it, and what is wrong with it."""
    shutil.rmtree(library, ignore_errors=True)
    command: list[str | Path] = [
        sys.executable,
        "-m",
        "hasse",
        "restore",
        place,
        "--library",
        library,
    ]
    subprocess.run(command, capture_output=True, check=True)
    findings = verify(library).findings
    with Index.open(library, threads=1) as index:
        return {image.id for image in index.catalog.all_rows()[0]}, findings


async def _rounds(
    service: Served, library: Path, folder: Path, rounds: int, seconds: float, rate: float
) -> tuple[Writes, list[str], list[float]]:
    writes, faults, took = Writes(), [], []
    writing = asyncio.create_task(_keep_writing(service, writes, rate))
    for at in range(rounds):
        until = perf_counter() + seconds
        await asyncio.sleep(seconds / 4)
        place = folder / ("backup" if at % 2 == 0 else f"backup-{at}.tar")
        began = perf_counter()
        moment = await asyncio.to_thread(back_up, library, place)
        took.append(perf_counter() - began)
        held, findings = await asyncio.to_thread(restored, place, folder / "restored")
        found = [*writes.faults(moment, held), *findings]
        faults += found
        answered = len(writes.added) + len(writes.removed)
        print(
            f"{place.name}: {len(held):,} images, {answered:,} writes, {found or 'whole'}",
            flush=True,
        )
        if place.is_file():
            place.unlink()
        await asyncio.sleep(max(0.0, until - perf_counter()))
    writing.cancel()
    await asyncio.gather(writing, return_exceptions=True)
    return writes, faults, took


def main() -> None:
    """Back up and print."""
    given = options_of(__doc__, rounds=20, seconds=60.0, rate=20.0)
    at = machine()
    place = given.folder / "backed-up"
    for path in (place, given.folder / "backup"):
        shutil.rmtree(path, ignore_errors=True)
    for archive in given.folder.glob("backup-*.tar*"):
        archive.unlink()
    shutil.copytree(collection(given.folder, ROWS), place)
    with served(place, open_writes=True) as service:
        writes, faults, took = run(
            _rounds(service, place, given.folder, given.rounds, given.seconds, given.rate)
        )
    answered = len(writes.added) + len(writes.removed)
    finish(
        f"{given.rounds} backups of {ROWS:,} images under {given.rate:g} writes a second",
        [
            Line("writes acknowledged", f"{answered:,} in {given.rounds * given.seconds:,.0f} s"),
            Line("writes refused, by status", str(dict(writes.refused) or "none")),
            Line("longest write", f"{max(writes.seconds):.2f} s"),
            Line("a backup, with its check", f"{np.median(took):.1f} s at the median"),
            Line(
                "acknowledged before and not there, or torn", str(len(faults)), "none", not faults
            ),
        ],
        at,
    )
    for fault in faults[:10]:
        print(fault)


if __name__ == "__main__":
    main()
