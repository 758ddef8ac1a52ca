"""Where the nodes of a diagram stand, and which lines lead from one to another."""

from __future__ import annotations

import re

import pytest

from service.lattice_schemas import Diagram, DiagramEdge, DiagramNode
from service.page.drawing import Box, drawn
from service.page.views import Query

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
    drawing = drawn(diagram, Query())
    by_text = {box.label.partition(" (")[0]: box for box in drawing.boxes}
    for edge, path in zip(diagram.edges, drawing.edges, strict=True):
        ends = [int(number) for number in re.findall(r"\d+", path)]
        lower, upper = (by_text[diagram.nodes[at].captions[0]] for at in (edge.lower, edge.upper))
        assert ends[:2] == [lower.x + lower.wide // 2, lower.y]
        assert ends[-2:] == [upper.x + upper.wide // 2, upper.y + upper.high]
    return by_text


def test_the_general_stands_above_and_nothing_covers_another(boxes: dict[str, Box]) -> None:
    animal, thing, dog, red, both = (boxes[said] for said in CROSSED.split(";"))
    for upper, lower in ((animal, dog), (thing, red), (dog, both), (red, both)):
        assert upper.y + upper.high < lower.y
    for one, other in ((animal, thing), (dog, red)):
        assert one.y == other.y
        assert abs(one.x - other.x) > one.wide


def test_each_stands_below_what_it_hangs_from(boxes: dict[str, Box]) -> None:
    animal, thing, dog, red, both = (boxes[said] for said in CROSSED.split(";"))
    assert (dog.x, red.x) == (thing.x, animal.x)
    assert dog.x > red.x
    assert both.x == (dog.x + red.x) // 2
