"""Diagrams of captions and images, as a client gets them."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from models.calibration import Calibration, Calibrations
from models.diagram import closure, covering
from service.app import create_app
from service.diagram import NODES
from service.engine import Engine
from service.questions import Diagram
from service.settings import Settings
from tests.service.client import Client
from tests.service.collection import IMAGES, make_collection


@pytest.fixture(params=["entailment", "truth of images", "nothing"])
def learned(request: pytest.FixtureRequest, client: Client, monkeypatch: pytest.MonkeyPatch) -> str:
    """What the model knows the violations of: pairs of captions too, pairs with images, or none."""
    engine: Engine = client.app.state.engine
    known = {
        "entailment": engine.checkpoint.calibration,
        "truth of images": Calibrations(image=engine.checkpoint.calibration.image),
        "nothing": Calibrations(),
    }[request.param]
    monkeypatch.setattr(engine, "checkpoint", replace(engine.checkpoint, calibration=known))
    return str(request.param)


@pytest.mark.usefixtures("learned")
@pytest.mark.parametrize("path", ["/diagram?caption=a+dog+runs", "/images/1003/diagram"])
def test_a_diagram_has_its_focus_and_only_covering_pairs(client: Client, path: str) -> None:
    response = client.get(path)
    assert response.status_code == 200, response.text
    found = Diagram.model_validate_json(response.content)
    assert [node.place for node in found.nodes].count("focus") == 1
    assert len(found.nodes) <= NODES
    relation = np.zeros((len(found.nodes), len(found.nodes)), np.bool_)
    for edge in found.edges:
        relation[edge.lower, edge.upper] = True
        lower, upper = found.nodes[edge.lower], found.nodes[edge.upper]
        assert lower.depth > upper.depth
        assert lower.place != "focus" or upper.place == "above"
        assert upper.place != "focus" or lower.place == "below"
    assert (covering(closure(relation)) == relation).all()
    texts = [text for node in found.nodes for text in node.captions]
    assert len(texts) == len(set(texts))


def test_captions_are_in_the_order_of_what_follows_where_that_was_learned(client: Client) -> None:
    found = Diagram.model_validate(client.get("/images/1003/diagram").json())
    assert len(found.edges) > 0
    threshold = client.app.state.engine.checkpoint.calibration.caption.threshold
    for edge in found.edges:
        lower, upper = found.nodes[edge.lower], found.nodes[edge.upper]
        pairs = [
            {"premise": said, "hypothesis": caption}
            for said in lower.captions
            for caption in upper.captions
        ]
        if pairs:
            answers = client.post("/entails/batch", json={"pairs": pairs}).json()["answers"]
            assert min(answer["violation"] for answer in answers) <= threshold


def test_a_caption_stands_among_those_that_say_the_same(client: Client) -> None:
    nodes = client.get("/diagram", params={"caption": "a dog runs"}).json()["nodes"]
    (focus,) = [node for node in nodes if node["place"] == "focus"]
    assert "a dog runs" in focus["captions"]


def test_words_that_the_model_never_learned_are_named(client: Client) -> None:
    for path, unknown in (
        ("/diagram?caption=a+zorp+dog", ["zorp"]),
        ("/diagram?caption=a+dog", []),
        ("/images/1003/diagram", []),
    ):
        assert client.get(path).json()["unknown_words"] == unknown


@pytest.mark.parametrize("known", ["captions too", "images alone"])
def test_a_picture_that_no_caption_is_true_of_has_an_empty_diagram(
    client: Client, monkeypatch: pytest.MonkeyPatch, known: str
) -> None:
    engine: Engine = client.app.state.engine
    nothing = Calibration((0.0, 1.0), (0.01, 0.0), 0.0, 100, 10)
    pairs = engine.checkpoint.calibration.caption if known == "captions too" else None
    calibration = Calibrations(image=nothing, caption=pairs)
    monkeypatch.setattr(engine, "checkpoint", replace(engine.checkpoint, calibration=calibration))
    found = client.get("/images/1003/diagram")
    assert (found.status_code, found.json()["nodes"], found.json()["edges"]) == (200, [], [])
    page = client.get("/page/order?image=1003")
    assert "There are no captions in this collection that are true of it." in page.text


def test_a_caption_stands_alone_in_an_empty_collection(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with Client(create_app(Settings(index=make_collection(tmp_path), device="cpu"))) as client:
        engine: Engine = client.app.state.engine
        engine.index.remove(range(1000, 1000 + IMAGES))
        known = engine.checkpoint.calibration
        for learned in (known, Calibrations(image=known.image), Calibrations()):
            checkpoint = replace(engine.checkpoint, calibration=learned)
            monkeypatch.setattr(engine, "checkpoint", checkpoint)
            found = client.get("/diagram", params={"caption": "a dog runs"})
            assert found.status_code == 200, found.text
            assert [node["captions"] for node in found.json()["nodes"]] == [["a dog runs"]]


@pytest.mark.parametrize(
    ("path", "status"),
    [("/diagram", 422), ("/diagram?caption=+", 422), ("/images/7/diagram", 404)],
)
def test_what_cannot_be_drawn_is_a_problem(client: Client, path: str, status: int) -> None:
    response = client.get(path)
    assert response.status_code == status
    assert response.json()["detail"]
