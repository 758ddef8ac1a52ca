"""Kill a service at any write of the changes it is asked for, or fill its disk there; start again.

    python -m tests.service.crashes FOLDER SEED COUNT

adds and deletes pictures over the API of a whole service, stopped in each way (`kill` and `full`)
at COUNT write points chosen by the seed, and prints one JSON line for each: the fault found, or
null. After a kill, a new service over the same folder has everything that was acknowledged, and
of what was not either everything or nothing. After a full disk, the same service says so, goes on
serving, and takes the next change.
"""

from __future__ import annotations

import json
import os
import shutil
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from hasse.index.verify import verify
from hasse.service.app import create_app
from hasse.service.settings import Settings
from tests.index.write_points import WritePoints, forked
from tests.service.client import Client
from tests.service.collection import IMAGES, make_collection, picture
from tests.service.hostile_pictures import encoded

PICTURES = {name: encoded(picture(seed), "PNG") for seed, name in enumerate("ABC", start=100)}
IDS = {"A": 1, "B": 2, "C": 3, "first": 1000}
# What is asked for, in turn: a picture comes, or goes.
STEPS = ("+A", "+B", "-A", "+C", "-first", "+A", "-B")


def settings(place: Path) -> Settings:
    """Serve on the CPU, open to writes, answer probes afresh, and write only what is asked for."""
    return Settings(
        library=place, device="cpu", open_writes=True, ready_seconds=0, compact_seconds=0
    )


def take(client: Client, step: str) -> Any:
    """Ask for one change."""
    name = step[1:]
    if step[0] == "-":
        return client.request("DELETE", f"/images/{IDS[name]}")
    fields = {"image_id": str(IDS[name]), "caption": [f"a dog {name}", "a cat"]}
    return client.post("/images", files={"image": (f"{name}.png", PICTURES[name])}, data=fields)


def after(present: set[int], step: str) -> set[int]:
    """Return the ids that are there after a step."""
    return present | {IDS[step[1:]]} if step[0] == "+" else present - {IDS[step[1:]]}


def work(place: Path, note: Path, stop_at: int, *, full: bool) -> int:
    """Take all steps, noting each before it is asked for and when it is acknowledged."""
    with Client(create_app(settings(place))) as client, note.open("ab", buffering=0) as log:
        points = WritePoints(stop_at, full=full)
        present = set(range(1000, 1000 + IMAGES))
        for step in STEPS:
            log.write(b"?")
            response = take(client, step)
            if response.status_code in (200, 201, 204):
                present = after(present, step)
            elif response.status_code == 404:
                assert step[0] == "-", response.text
                assert IDS[step[1:]] not in present, response.text
            else:
                assert full, response.text
                assert response.json()["reason"] == "disk_full", response.text
            log.write(b"!")
            if full:
                look(client, present)
        return points.passed


def look(client: Client, present: set[int]) -> None:
    """A service that holds these images finds, describes and shows each, and no other."""
    assert client.get("/readyz").status_code == 200
    answer = client.post("/search/images", json={"caption": "a dog", "k": 100}).json()
    assert {hit["image_id"] for hit in answer["hits"]} == present
    for name, image_id in IDS.items():
        described = client.get(f"/images/{image_id}")
        shown = client.get(f"/images/{image_id}/file")
        if image_id not in present:
            assert (described.status_code, shown.status_code) == (404, 404)
            continue
        assert len(described.json()["captions"]) == 2
        assert shown.status_code == 200
        assert name not in PICTURES or shown.content == PICTURES[name]


def check(place: Path, note: Path) -> None:
    """A new service has what was acknowledged; what was not is there whole or not at all."""
    text = note.read_bytes()
    present = set(range(1000, 1000 + IMAGES))
    for step in STEPS[: text.count(b"!")]:
        present = after(present, step)
    possible = [present]
    if text.endswith(b"?"):
        possible.append(after(present, STEPS[text.count(b"!")]))
    with Client(create_app(settings(place))) as client:
        report = verify(place)
        assert report.ok, report.findings
        answer = client.post("/search/images", json={"caption": "a dog", "k": 100}).json()
        found = {hit["image_id"] for hit in answer["hits"]}
        assert found in possible, (sorted(found), text)
        look(client, found)
        gone = "-A" if IDS["A"] in found else "+A"
        assert take(client, gone).status_code in (201, 204)
        look(client, after(found, gone))


def attempt(folder: Path, stop_at: int, *, full: bool) -> dict[str, Any]:
    """Take the steps once, stopped at one write point; say what was wrong then or afterwards."""
    place, note, passed = folder / "index", folder / "note", folder / "passed"
    shutil.rmtree(place, ignore_errors=True)
    shutil.copytree(folder / "whole" / "index", place)
    note.write_bytes(b"")

    def stopped() -> None:
        passed.write_text(str(work(place, note, stop_at, full=full)))

    status, said = forked(stopped)
    if not said and not full:
        _, said = forked(lambda: check(place, note))
    return {
        "work": "service",
        "way": "full" if full else "kill",
        "point": stop_at,
        "killed": os.WIFSIGNALED(status),
        "acknowledged": note.read_bytes().count(b"!"),
        "fault": said or None,
    }


def prepare(folder: Path) -> None:
    """Make the collection that every attempt starts from, and load what all of them need."""
    (folder / "whole").mkdir(parents=True, exist_ok=True)
    make_collection(folder / "whole")
    outcome = attempt(folder, 0, full=False)
    assert outcome["fault"] is None, outcome["fault"]


def main(say: Callable[[str], object] = sys.stdout.write) -> None:
    """Run the attempts that the command line asks for."""
    folder, seed, count = Path(sys.argv[1]).resolve(), int(sys.argv[2]), int(sys.argv[3])
    prepare(folder)
    total = int((folder / "passed").read_text())
    for full in (False, True):
        chosen = np.random.default_rng(seed).permutation(total)[:count] + 1
        for point in chosen.tolist():
            say(json.dumps({**attempt(folder, point, full=full), "of": total}) + "\n")
            sys.stdout.flush()


if __name__ == "__main__":
    main()
