"""The rooms of the service depend on each other in one direction."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from graphlib import TopologicalSorter
from pathlib import Path

PACKAGE = Path(__file__).parents[2] / "service"


def imports(path: Path) -> Iterator[str]:
    """Yield the modules that a file imports, also inside functions and for types only."""
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.ImportFrom) and node.module:
            yield from (f"{node.module}.{alias.name}" for alias in node.names)
        elif isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)


def room_of(module: str) -> str:
    """Return the folder below `service`, or the module that lies in `service` itself."""
    return module.split(".")[2]


def graph() -> dict[str, set[str]]:
    """Return the rooms that each room imports."""
    rooms: dict[str, set[str]] = {}
    for path in PACKAGE.rglob("*.py"):
        room = path.relative_to(PACKAGE).with_suffix("").parts[0]
        imported = {room_of(name) for name in imports(path) if name.startswith("hasse.service.")}
        rooms.setdefault(room, set()).update(imported - {room})
    return rooms


def test_rooms_of_the_service_form_no_cycle() -> None:
    rooms = graph()
    assert {"errors", "settings", "schemas", "verdict", "keys", "addresses", "plural"} <= set(rooms)
    order = list(TopologicalSorter(rooms).static_order())  # CycleError names the cycle
    layers = ["telemetry", "writing", "core", "questions", "http", "routes", "page", "app"]
    layers += ["runtime", "cli"]
    assert [room for room in order if room in layers] == layers
