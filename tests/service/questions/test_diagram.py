"""Diagrams of captions and images, as a client gets them."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from hasse.index.store import Index
from hasse.index.types import Kind, Points
from hasse.models.calibration import Calibration, Calibrations
from hasse.models.checkpoints import checkpoint, named_models
from hasse.models.diagram import covering_pairs, transitive_closure
from hasse.models.vocabulary import Vocabulary
from hasse.service.app import create_app
from hasse.service.questions import diagram
from hasse.service.questions.answers import Diagram
from hasse.service.questions.diagram import NODES
from hasse.service.settings import Settings
from hasse.service.telemetry.stages import Stages
from tests.service.calibrated import calibrate
from tests.service.client import Client
from tests.service.collection import IMAGES, make_collection, png


@pytest.fixture(params=["entailment", "truth of images", "nothing"])
def learned(request: pytest.FixtureRequest, client: Client, monkeypatch: pytest.MonkeyPatch) -> str:
    """What the model knows the violations of: pairs of captions too, pairs with images, or none."""
    known = {
        "entailment": client.engine.checkpoint.calibration,
        "truth of images": Calibrations(image=client.engine.checkpoint.calibration.image),
        "nothing": Calibrations(),
    }[request.param]
    calibrate(client, monkeypatch, known)
    return str(request.param)


@pytest.mark.usefixtures("learned")
@pytest.mark.parametrize("path", ["/diagram?caption=a+dog+runs", "/images/1003/diagram"])
def test_diagram_has_one_focus_and_only_covering_edges(client: Client, path: str) -> None:
    response = client.get(path)
    assert response.status_code == 200, response.text
    found = Diagram.model_validate_json(response.content)
    assert [node.place for node in found.nodes].count("focus") == 1
    of_image = [None if node.image_id is None else node.place for node in found.nodes]
    assert [place for place in of_image if place] == ["focus"] * ("1003" in path)
    assert len(found.nodes) <= NODES
    relation = np.zeros((len(found.nodes), len(found.nodes)), np.bool_)
    for edge in found.edges:
        relation[edge.lower, edge.upper] = True
        lower, upper = found.nodes[edge.lower], found.nodes[edge.upper]
        assert lower.depth > upper.depth
        assert lower.place != "focus" or upper.place == "above"
        assert upper.place != "focus" or lower.place == "below"
    assert (covering_pairs(transitive_closure(relation)) == relation).all()
    texts = [text for node in found.nodes for text in node.captions]
    assert len(texts) == len(set(texts))


def test_diagram_with_calibration_of_captions_follows_entailment(client: Client) -> None:
    found = Diagram.model_validate(client.get("/images/1003/diagram").json())
    assert len(found.edges) > 0
    calibration = client.engine.checkpoint.calibration.caption
    assert isinstance(calibration, Calibration)
    for edge in found.edges:
        lower, upper = found.nodes[edge.lower], found.nodes[edge.upper]
        pairs = [
            {"premise": said, "hypothesis": caption}
            for said in lower.captions
            for caption in upper.captions
        ]
        if pairs:
            answers = client.post("/entails/batch", json={"pairs": pairs}).json()["answers"]
            assert min(answer["violation"] for answer in answers) <= calibration.threshold


def test_diagram_compares_captions_as_premises_by_the_threshold_of_what_follows() -> None:
    known = checkpoint.load(named_models.pretrained("photographs"))
    texts = ["an animal", "a dog", "a brown dog runs through the grass", "a car"]
    points = known.model.encode_captions(texts)
    engine: Any = SimpleNamespace(checkpoint=known)
    above = asyncio.run(diagram._precedes(engine, texts, points, [], Stages()))
    assert transitive_closure(above).tolist() == [
        [True, False, False, False],
        [True, True, False, False],
        [True, True, True, False],
        [False, False, False, True],
    ]


def test_diagram_groups_captions_that_mean_the_same(client: Client) -> None:
    nodes = client.get("/diagram", params={"caption": "a dog runs"}).json()["nodes"]
    (focus,) = [node for node in nodes if node["place"] == "focus"]
    assert "a dog runs" in focus["captions"]


def test_diagram_names_unknown_words(client: Client) -> None:
    for path, unknown in (
        ("/diagram?caption=a+zorp+dog", ["zorp"]),
        ("/diagram?caption=a+dog", []),
        ("/images/1003/diagram", []),
    ):
        assert client.get(path).json()["unknown_words"] == unknown


def drawn(client: Client) -> set[str]:
    """Return the captions in the diagram of an image."""
    nodes = client.get("/images/1003/diagram").json()["nodes"]
    return {text for node in nodes for text in node["captions"]}


def own_captions(client: Client) -> set[str]:
    """Return the captions of that image."""
    return {each["caption"] for each in client.get("/images/1003").json()["captions"]}


def test_diagram_without_calibration_takes_the_best_quarter_of_captions_and_its_own(
    client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    files = {"image": ("a.png", png(3))}
    hits = client.post("/search/captions", files=files, data={"k": "24"}).json()["hits"]
    texts = list(dict.fromkeys(hit["caption"] for hit in hits))
    calibrate(client, monkeypatch, Calibrations())
    assert len(texts) == 6
    assert drawn(client) == {*texts[:2], *own_captions(client)}


def test_diagram_of_image_leaves_out_captions_without_a_known_word(
    client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    texts = drawn(client)
    said = min(texts)
    monkeypatch.setattr(Vocabulary, "knows", lambda _, text: text != said)
    assert said not in drawn(client)


def test_diagram_leaves_out_captions_removed_meanwhile(
    client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    index: Index = client.engine.index
    read, gone = index.points, set[str]()

    def without_the_first(kind: Kind, ids: Sequence[int]) -> dict[int, Points]:
        found = dict(read(kind, ids))
        if kind == "caption":
            gone.add(index.catalog.captions([ids[0]])[ids[0]].text)
            del found[ids[0]]
        return found

    before = drawn(client)
    monkeypatch.setattr(index, "points", without_the_first)
    assert drawn(client) & gone == set()
    assert gone <= before


@pytest.mark.parametrize("known", ["captions too", "images alone"])
def test_diagram_of_image_has_its_own_captions_even_if_none_is_likely(
    client: Client, monkeypatch: pytest.MonkeyPatch, known: str
) -> None:
    nothing = Calibration((0.0, 1.0), (0.01, 0.0), 0.0, 100, 10)
    pairs = client.engine.checkpoint.calibration.caption if known == "captions too" else None
    calibration = Calibrations(image=nothing, caption=pairs)
    calibrate(client, monkeypatch, calibration)
    assert drawn(client) == own_captions(client)


def test_diagram_of_image_without_captions_is_empty(tmp_path: Path) -> None:
    index = make_collection(tmp_path, captions_each=0)
    with Client(create_app(Settings(library=index, device="cpu"))) as client:
        found = client.get("/images/1003/diagram")
        assert (found.status_code, found.json()["nodes"], found.json()["edges"]) == (200, [], [])
        page = client.get("/page/diagram?image=1003")
    assert "There are no captions in this collection that are true of it." in page.text


def test_diagram_in_empty_collection_has_only_the_caption(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with Client(create_app(Settings(library=make_collection(tmp_path), device="cpu"))) as client:
        client.engine.index.remove(range(1000, 1000 + IMAGES))
        known = client.engine.checkpoint.calibration
        for learned in (known, Calibrations(image=known.image), Calibrations()):
            calibrate(client, monkeypatch, learned)
            found = client.get("/diagram", params={"caption": "a dog runs"})
            assert found.status_code == 200, found.text
            assert [node["captions"] for node in found.json()["nodes"]] == [["a dog runs"]]


@pytest.mark.parametrize(
    ("path", "status"),
    [
        ("/diagram", 422),
        ("/diagram?caption=+", 422),
        ("/diagram?caption=" + "dog+" * 101, 422),
        ("/images/7/diagram", 404),
    ],
)
def test_diagram_with_bad_request_is_a_problem(client: Client, path: str, status: int) -> None:
    response = client.get(path)
    assert response.status_code == status
    assert response.json()["detail"]
