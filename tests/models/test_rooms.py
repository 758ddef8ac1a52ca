"""Rooms of `models` depend on each other in one direction."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping
from graphlib import TopologicalSorter
from pathlib import Path

ROOT = Path(__file__).parents[2] / "models"
PACKAGE = "hasse.models"


def room_of(module: str) -> str:
    """Return the folder, or the module, right below `models` that a module is in."""
    return module.removeprefix(f"{PACKAGE}.").split(".")[0]


def imported(path: Path) -> Iterator[str]:
    """Yield the rooms that a file imports, also within functions and for types only."""
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            yield from (room_of(one.name) for one in node.names if one.name.startswith(PACKAGE))
        elif isinstance(node, ast.ImportFrom) and node.module == PACKAGE:
            yield from (one.name for one in node.names)
        elif isinstance(node, ast.ImportFrom) and (node.module or "").startswith(f"{PACKAGE}."):
            yield room_of(str(node.module))


def imports_between(root: Path) -> Mapping[str, set[str]]:
    rooms: dict[str, set[str]] = {}
    for path in root.rglob("*.py"):
        if path != root / "__init__.py":
            room = path.relative_to(root).parts[0].removesuffix(".py")
            rooms.setdefault(room, set()).update(set(imported(path)) - {room})
    return rooms


def test_rooms_of_models_import_each_other_without_a_cycle() -> None:
    rooms = imports_between(ROOT)
    assert {"datasets", "encoders", "images", "networks", "order"} <= rooms.keys()
    list(TopologicalSorter(rooms).static_order())  # raises CycleError, which names the cycle
