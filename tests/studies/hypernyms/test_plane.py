from __future__ import annotations

from pathlib import Path
from xml.etree import ElementTree

import numpy as np
import pytest
import torch

from hasse.studies.hypernyms.plane import (
    SPURIOUS,
    TRUE,
    Plane,
    best_plane,
    draw,
    learn_plane,
    rank_places,
)
from hasse.studies.hypernyms.taxonomy import HypernymError, Taxonomy, read_wordnet
from tests.studies.hypernyms.dictionary import tree, write


@pytest.fixture
def taxonomy(tmp_path: Path) -> Taxonomy:
    return read_wordnet(write(tmp_path))


def test_a_few_concepts_are_learned_without_a_mistake(taxonomy: Taxonomy) -> None:
    told: list[int] = []
    words = ["entity", "animal", "dog", "poodle", "cat"]
    chosen = [taxonomy.senses(word)[0] for word in words]
    found = learn_plane(taxonomy, chosen, 0, lambda at, of: told.append(at), steps=300)
    named = {(found.names[a], found.names[b]) for a, b in found.true.tolist()}
    assert named == {
        ("animal", "entity"),
        ("dog", "animal"),
        ("poodle", "dog"),
        ("cat", "animal"),
    }
    assert len(found.missed) == len(found.spurious) == 0
    assert told == list(range(0, 300, 50))
    assert found.points.min() >= 0


def test_a_pair_shown_wrongly_is_left_out_where_two_others_make_it(
    taxonomy: Taxonomy,
) -> None:
    row = torch.tensor([[0.0, 0.0], [1.0, 1.0], [2.0, 2.0]])  # each below the one before it
    chosen = [taxonomy.senses(word)[0] for word in ("cat", "poodle", "Rex")]
    found = best_plane(taxonomy, chosen, row[None])
    assert found.true.tolist() == []
    assert found.spurious.tolist() == [[1, 0], [2, 1]]


def test_the_start_with_the_fewest_mistakes_is_kept_and_what_it_misses_told(
    taxonomy: Taxonomy,
) -> None:
    apart = torch.tensor([[0.0, 2.0], [1.0, 1.0], [2.0, 0.0]])
    upside_down = torch.tensor([[2.0, 2.0], [1.0, 1.0], [0.0, 0.0]])
    starts = torch.stack([upside_down, apart, upside_down])
    chain = [taxonomy.senses(word)[0] for word in ("entity", "animal", "dog")]
    found = best_plane(taxonomy, chain, starts)
    assert found.points.tolist() == apart.tolist()
    assert found.missed.tolist() == found.true.tolist() == [[1, 0], [2, 1]]
    assert found.spurious.tolist() == []


def test_too_few_and_too_many_and_a_seed_below_0_are_refused(tmp_path: Path) -> None:
    taxonomy = read_wordnet(write(tmp_path, tree()))
    for concepts in ([], [0, 0], range(61)):
        with pytest.raises(HypernymError, match="from 2 to 60"):
            learn_plane(taxonomy, list(concepts))
    first, other = (learn_plane(taxonomy, range(60), seed, steps=1).points for seed in (0, 1))
    assert first.shape == (60, 2)
    assert (first != other).any()
    with pytest.raises(HypernymError, match="a seed is a whole number from 0"):
        learn_plane(taxonomy, range(60), -1)


def test_points_that_differ_by_less_than_can_be_learned_are_at_one_place() -> None:
    points = np.array([[0, 0], [1, 2], [1.001, 1.999], [1.02, 2.02]], dtype=np.float32)
    places = [tuple(place) for place in rank_places(points)]
    assert places[0] != places[1] == places[2] != places[3]


def test_points_of_one_coordinate_are_at_the_edge_of_the_origin() -> None:
    places = rank_places(np.array([[0, 1], [1, 1]], dtype=np.float32))
    assert places.tolist() == [[0, 0], [1, 0]]


def test_picture_has_every_concept_and_an_arrow_for_every_pair(tmp_path: Path) -> None:
    pairs = np.array([[1, 0], [2, 1]])
    shown = Plane(
        ("a & b", "<c>", "d"),
        np.array([[0, 0], [1, 0.5], [2, 3]], dtype=np.float32),
        pairs,
        pairs[1:],
        np.array([[2, 0]]),
    )
    draw(shown, tmp_path / "plane.svg")
    root = ElementTree.parse(tmp_path / "plane.svg").getroot()  # noqa: S314
    texts = {node.text for node in root.iter() if node.tag.endswith("text")}
    assert texts == {"a & b", "<c>", "d"}
    strokes = [
        node.get("style", "")
        for node in root.iter()
        if node.tag.endswith("path") and "fill: none" in node.get("style", "")
    ]
    arrows = [style for style in strokes if f"stroke: {TRUE}" in style]
    assert len(arrows) == 2
    assert sum("stroke-dasharray" in style for style in arrows) == 1
    assert sum(f"stroke: {SPURIOUS}" in style for style in strokes) == 1
