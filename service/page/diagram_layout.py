"""Places the nodes of a Hasse diagram in rows by depth, the most general on top."""

from __future__ import annotations

from dataclasses import dataclass
from statistics import fmean

from hasse.service.addresses import thumbnail_url
from hasse.service.page.query import PageQuery
from hasse.service.questions.answers import Diagram, DiagramNode

# Pixels.
_WIDTH, _GAP = 184, 20  # width of a node, and gap between two nodes of a row
_ROW_GAP = 64
_TEXT_HEIGHT, _PICTURE_HEIGHT = 84, 144  # of nodes: three lines of text, or a picture

_PLACES = {
    "focus": "you are here",
    "above": "more general",
    "below": "more particular",
    "beside": "neither above nor below",
}


@dataclass(frozen=True, slots=True)
class Box:
    """A node: its upper left corner, its size, and its text or the address of its picture."""

    x: int
    y: int
    width: int
    height: int
    text: str
    label: str
    url: str
    place: str
    also: tuple[str, ...]
    picture: str


@dataclass(frozen=True, slots=True)
class Layout:
    """Boxes in reading order, SVG paths of the edges, and the size of the whole."""

    width: int
    height: int
    boxes: tuple[Box, ...]
    edges: tuple[str, ...]


def lay_out(diagram: Diagram, query: PageQuery) -> Layout:
    """Place the nodes and edges of a diagram."""
    rows = _rows(diagram)
    width = max((len(row) for row in rows), default=1) * (_WIDTH + _GAP) - _GAP
    boxes: dict[int, Box] = {}
    bottom = 4
    for row in rows:
        left = (width - len(row) * (_WIDTH + _GAP) + _GAP) // 2
        for column, at in enumerate(row):
            boxes[at] = _box(diagram.nodes[at], left + column * (_WIDTH + _GAP), bottom, query)
        bottom += max(boxes[at].height for at in row) + _ROW_GAP
    edges = []
    for edge in diagram.edges:
        lower, upper = boxes[edge.lower], boxes[edge.upper]
        start, end = (
            (lower.x + _WIDTH // 2, lower.y),
            (upper.x + _WIDTH // 2, upper.y + upper.height),
        )
        middle = (start[1] + end[1]) // 2
        edges.append(
            f"M{start[0]} {start[1]}C{start[0]} {middle} {end[0]} {middle} {end[0]} {end[1]}"
        )
    return Layout(width, bottom - _ROW_GAP + 4, tuple(boxes.values()), tuple(edges))


def _rows(diagram: Diagram) -> list[list[int]]:
    """Return the nodes of each depth, ordered by the mean position of their upper neighbours."""
    rows: list[list[int]] = []
    place: dict[int, float] = {}
    above: dict[int, list[int]] = {}
    for edge in diagram.edges:
        above.setdefault(edge.lower, []).append(edge.upper)
    deepest = max((node.depth for node in diagram.nodes), default=-1)
    for depth in range(deepest + 1):
        row = [at for at, node in enumerate(diagram.nodes) if node.depth == depth]
        row.sort(key=lambda at: fmean([place[upper] for upper in above.get(at, [])] or [0.5]))
        place |= {at: (column + 0.5) / len(row) for column, at in enumerate(row)}
        rows.append(row)
    return rows


def _box(node: DiagramNode, x: int, y: int, query: PageQuery) -> Box:
    url = query.diagram_url(image_id=node.image_id)
    name = "this picture"
    if node.image_id is None:
        name = node.captions[0]
        url = query.diagram_url(text=name)
    also = tuple(node.captions[1:])
    same = f"; means the same here as {'; '.join(also)}" if also else ""
    return Box(
        x=x,
        y=y,
        width=_WIDTH,
        height=_TEXT_HEIGHT if node.image_id is None else _PICTURE_HEIGHT,
        text=name,
        label=f"{name} ({_PLACES[node.place]}{same})",
        url=url,
        place=node.place,
        also=also,
        picture="" if node.image_id is None else thumbnail_url(node.image_id),
    )
