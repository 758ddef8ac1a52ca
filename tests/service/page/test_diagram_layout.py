"""The layout of a diagram: rows by depth, no overlaps, edges that meet their nodes."""

from __future__ import annotations

import re

import pytest

from hasse.service.page.diagram_layout import Box, lay_out
from hasse.service.page.query import PageQuery
from hasse.service.questions.answers import Diagram, DiagramEdge, DiagramNode

CROSSED = "An animal;A thing;A dog;A red thing that is long enough for two lines;Red dogs"


@pytest.fixture
def boxes() -> dict[str, Box]:
    """Two at the top, what is below each of them in the other order, and one below both."""
    depths = (0, 0, 1, 1, 2)
    nodes = [
        DiagramNode(captions=[said], image_id=None, place="beside", depth=depth)
        for said, depth in zip(CROSSED.split(";"), depths, strict=True)
    ]
    edges = [DiagramEdge(lower=x, upper=y) for x, y in ((2, 1), (3, 0), (4, 2), (4, 3))]
    return placed(Diagram(nodes=nodes, edges=edges, model="m", unknown_words=[]))


def placed(diagram: Diagram) -> dict[str, Box]:
    """Return the boxes by what they say, after a look at the lines between them."""
    layout = lay_out(diagram, PageQuery())
    by_text = {box.label.partition(" (")[0]: box for box in layout.boxes}
    for edge, path in zip(diagram.edges, layout.edges, strict=True):
        ends = [int(number) for number in re.findall(r"\d+", path)]
        lower, upper = (by_text[diagram.nodes[at].captions[0]] for at in (edge.lower, edge.upper))
        assert ends[:2] == [lower.x + lower.width // 2, lower.y]
        assert ends[-2:] == [upper.x + upper.width // 2, upper.y + upper.height]
    return by_text


def test_layout_puts_general_above_specific_without_overlaps(boxes: dict[str, Box]) -> None:
    animal, thing, dog, red, both = (boxes[said] for said in CROSSED.split(";"))
    for upper, lower in ((animal, dog), (thing, red), (dog, both), (red, both)):
        assert upper.y + upper.height < lower.y
    for one, other in ((animal, thing), (dog, red)):
        assert one.y == other.y
        assert abs(one.x - other.x) > one.width


def test_layout_orders_a_row_by_its_upper_neighbours(boxes: dict[str, Box]) -> None:
    animal, thing, dog, red, both = (boxes[said] for said in CROSSED.split(";"))
    assert (dog.x, red.x) == (thing.x, animal.x)
    assert dog.x > red.x
    assert both.x == (dog.x + red.x) // 2
