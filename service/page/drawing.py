"""A Hasse diagram laid out for a page: rows by depth, the general above, each node a link."""

from __future__ import annotations

import textwrap
from dataclasses import dataclass

from service.lattice_schemas import Diagram, DiagramNode
from service.page.views import Query
from service.schemas import THUMBNAIL_URL

_WIDE, _GAP = 184, 20  # of a node, and between two
_LINE, _PADDING = 20, 12
_BETWEEN = 64  # rows
_LETTERS = 22  # of a line
_LINES = 3
_PICTURE = 120

_WORDS = {
    "focus": "you are here",
    "above": "more general",
    "below": "more particular",
    "beside": "neither above nor below",
}


@dataclass(frozen=True, slots=True)
class Box:
    """A node where it stands: its corner, its size, and the lines of its text."""

    x: int
    y: int
    wide: int
    high: int
    lines: tuple[tuple[int, str], ...]
    label: str
    url: str
    place: str
    also: tuple[str, ...]
    picture: str


@dataclass(frozen=True, slots=True)
class Drawing:
    """Boxes in reading order, the lines between them, and the size of it all."""

    wide: int
    high: int
    boxes: tuple[Box, ...]
    edges: tuple[str, ...]


def drawn(diagram: Diagram, query: Query) -> Drawing:
    """Lay a diagram out."""
    rows = _rows(diagram)
    wide = max((len(row) for row in rows), default=1) * (_WIDE + _GAP) - _GAP
    boxes: dict[int, Box] = {}
    y = 4
    for row in rows:
        high = max(_height(diagram.nodes[at]) for at in row)
        left = (wide - len(row) * (_WIDE + _GAP) + _GAP) // 2
        for column, at in enumerate(row):
            boxes[at] = _box(diagram.nodes[at], left + column * (_WIDE + _GAP), y, query)
        y += high + _BETWEEN
    edges = []
    for edge in diagram.edges:
        lower, upper = boxes[edge.lower], boxes[edge.upper]
        start, end = (lower.x + _WIDE // 2, lower.y), (upper.x + _WIDE // 2, upper.y + upper.high)
        middle = (start[1] + end[1]) // 2
        edges.append(
            f"M{start[0]} {start[1]}C{start[0]} {middle} {end[0]} {middle} {end[0]} {end[1]}"
        )
    return Drawing(wide, y - _BETWEEN + 4, tuple(boxes.values()), tuple(edges))


def _rows(diagram: Diagram) -> list[list[int]]:
    """Return the nodes of each depth, each near the middle of what it hangs from."""
    rows: list[list[int]] = []
    place: dict[int, float] = {}
    above: dict[int, list[int]] = {}
    for edge in diagram.edges:
        above.setdefault(edge.lower, []).append(edge.upper)
    deepest = max((node.depth for node in diagram.nodes), default=-1)
    for depth in range(deepest + 1):
        row = [at for at, node in enumerate(diagram.nodes) if node.depth == depth]
        pulled = {
            at: sum(place[u] for u in above[at]) / len(above[at]) if at in above else 0.5
            for at in row
        }
        row.sort(key=lambda at, pulled=pulled: pulled[at])  # type: ignore[misc]
        place |= {at: (column + 0.5) / len(row) for column, at in enumerate(row)}
        rows.append(row)
    return rows


def _text(node: DiagramNode) -> list[str]:
    if node.image_id is not None:
        return []
    return textwrap.wrap(node.captions[0], _LETTERS, max_lines=_LINES, placeholder="…")


def _height(node: DiagramNode) -> int:
    if node.image_id is not None:
        return _PICTURE + 2 * _PADDING
    return len(_text(node)) * _LINE + 2 * _PADDING


def _box(node: DiagramNode, x: int, y: int, query: Query) -> Box:
    url = query.of_order(image_id=node.image_id)
    name = "this picture"
    if node.image_id is None:
        name = node.captions[0]
        url = query.of_order(text=name)
    also = tuple(node.captions[1:])
    same = f"; means the same here as {'; '.join(also)}" if also else ""
    return Box(
        x=x,
        y=y,
        wide=_WIDE,
        high=_height(node),
        lines=tuple((y + _PADDING + 15 + at * _LINE, line) for at, line in enumerate(_text(node))),
        label=f"{name} ({_WORDS[node.place]}{same})",
        url=url,
        place=node.place,
        also=also,
        picture="" if node.image_id is None else THUMBNAIL_URL % node.image_id,
    )
