from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from safetensors.torch import load_file, save_file
from torch import Tensor

from hasse.lab.kernels.violations import violation
from hasse.lab.training.run import Progress
from hasse.models.checkpoints.model_folder import WEIGHTS, CheckpointError
from hasse.studies.hypernyms import checkpoint
from hasse.studies.hypernyms.checkpoint import HypernymCheckpoint, Withheld
from hasse.studies.hypernyms.embedding import COMPARISONS, ConceptEmbedding
from hasse.studies.hypernyms.query import ancestors
from hasse.studies.hypernyms.task import PairSet, Task, make_task
from hasse.studies.hypernyms.taxonomy import HypernymError, Taxonomy, read_wordnet
from hasse.studies.hypernyms.training import (
    PRESETS,
    HypernymRun,
    HypernymTraining,
    distance_to_order,
    evaluate,
    evaluate_closure,
    inferred,
)
from hasse.studies.labelled_pairs import Threshold
from tests.studies.hypernyms.dictionary import tree, write
from tests.tiny import seal

HELD_OUT = 60


@pytest.fixture(scope="module")
def taxonomy(tmp_path_factory: pytest.TempPathFactory) -> Taxonomy:
    return read_wordnet(write(tmp_path_factory.mktemp("wordnet"), tree()))


@pytest.fixture(scope="module")
def task(taxonomy: Taxonomy) -> Task:
    return make_task(taxonomy, "clean", held_out=HELD_OUT)


def small(comparison: str, epochs: int = 40) -> HypernymTraining:
    preset = PRESETS[comparison]  # type: ignore[index]
    return replace(preset, epochs=epochs, batch_size=100, dimension=20)


@pytest.fixture(scope="module")
def learned(taxonomy: Taxonomy, task: Task, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the folder of a model of the order."""
    folder = tmp_path_factory.mktemp("model") / "order"
    config = small("order")
    model, threshold = HypernymRun(config, task).train()
    withheld = Withheld("clean", 0, HELD_OUT, task.fingerprint)
    metrics = {"test": evaluate(model, threshold.value, task).to_json()}
    checkpoint.save(
        HypernymCheckpoint(model, taxonomy, threshold.value, withheld, config, metrics, folder)
    )
    return folder


@pytest.mark.slow
def test_the_order_beats_transitivity(task: Task, learned: Path) -> None:
    loaded = checkpoint.load(learned)
    found = evaluate(loaded.model, loaded.threshold, task)
    assert found.accuracy > evaluate_closure(task).accuracy


@pytest.mark.parametrize("comparison", COMPARISONS)
def test_every_comparison_learns(task: Task, comparison: str) -> None:
    seen: list[Progress[Threshold]] = []
    config = small(comparison, epochs=8)
    _, threshold = HypernymRun(config, task).train(seen.append)
    assert threshold.accuracy > 0.6
    ends = [now for now in seen if now.measurement is not None]
    assert [now.epoch for now in ends] == list(range(8))
    assert max(now.measurement.accuracy for now in ends if now.measurement) == threshold.accuracy


def test_batches_are_drawn_and_steps_sized_as_the_training_says(task: Task) -> None:
    config = replace(small("order", 2), batch_size=300, negatives=3)
    run = HypernymRun(config, task)
    known = PairSet(run.edges, task.concepts)
    steps = math.ceil(len(run.edges) / 300)
    for epoch in range(2):
        batches = list(run.batches(epoch, 0))
        assert len(batches) == steps
        assert sum(len(true) for true, _ in batches) == len(run.edges)
        for true, false in batches:
            assert len(false) == 3 * len(true)
            assert known.holds(true).all()
            assert not known.holds(false).any()
    rates = [run.rate(epoch, step) for epoch in range(2) for step in range(steps)]
    assert rates == pytest.approx([0.05 * (1 - at / (2 * steps)) for at in range(2 * steps)])


def test_false_pairs_replace_the_more_specific_end_as_often_as_the_training_says(
    task: Task,
) -> None:
    shares = []
    for specific in (0.1, 0.9):
        run = HypernymRun(replace(small("order"), negatives=1, specific=specific), task)
        true, false = (np.concatenate(sides) for sides in zip(*run.batches(0, 0), strict=True))
        shares.append((true[:, 0] != false[:, 0]).mean())
    assert shares[0] < 0.5 < shares[1]


def test_a_step_moves_points_by_the_rate_of_its_place(task: Task) -> None:
    moved = []
    for step in (0, 1):
        run = HypernymRun(replace(small("order", 1), batch_size=len(inferred(task.train))), task)
        run.steps = 2
        before = run.model.points.clone()
        run.step(0, step, next(run.batches(0, 0)))
        moved.append(float((run.model.points - before).abs().max()))
    assert moved[0] == pytest.approx(2 * moved[1], rel=0.01)


def test_the_same_seed_trains_the_same_model(task: Task) -> None:
    first, second = (
        HypernymRun(small("order", epochs=2), task).train()[0].points for _ in range(2)
    )
    assert torch.equal(first, second)
    other = HypernymRun(replace(small("order", epochs=2), seed=1), task).train()[0].points
    assert not torch.equal(first, other)


def test_false_pairs_are_pushed_as_far_as_the_margin(task: Task) -> None:
    near, far = (
        HypernymRun(replace(small("order", epochs=5), margin=margin), task).train()[0].points.max()
        for margin in (0.1, 3.0)
    )
    assert far > 2 * near


def test_points_of_the_order_have_no_negative_coordinate(learned: Path) -> None:
    assert checkpoint.load(learned).model.points.min() >= 0


def test_a_false_pair_that_slipped_into_order_still_has_a_gradient() -> None:
    above = torch.tensor([[0.5, 0.9]])
    slack = torch.tensor([[0.3, 0.1]], requires_grad=True)
    inside = distance_to_order(above + slack, above)
    assert inside.item() == pytest.approx(-0.1)
    inside.backward()  # type: ignore[no-untyped-call]
    assert slack.grad is not None
    assert slack.grad.tolist() == [[0, -1]]


def test_outside_of_the_order_the_distance_is_the_root_of_the_violation() -> None:
    draw = torch.Generator().manual_seed(0)
    below, above = torch.rand(2, 100, 4, generator=draw)
    found, expected = distance_to_order(below, above), violation(below, above).sqrt()
    outside = expected > 0
    torch.testing.assert_close(found[outside], expected[outside])
    assert (found[~outside] <= 0).all()


def test_training_knows_what_follows_from_its_edges() -> None:
    edges = np.array([[3, 2], [2, 1], [2, 1], [1, 0]])
    found = inferred(edges)
    assert found[:4].tolist() == edges.tolist()
    assert {tuple(pair) for pair in found[4:].tolist()} == {(3, 1), (3, 0), (2, 0)}


def test_a_checkpoint_is_measured_like_the_model_it_holds(task: Task, learned: Path) -> None:
    loaded = checkpoint.load(learned)
    again = loaded.task()
    assert np.array_equal(again.test.pairs, task.test.pairs)
    assert np.array_equal(
        loaded.model.penalties(task.test.pairs), loaded.model.penalties(again.test.pairs)
    )
    assert {path.name for path in learned.iterdir()} == {
        "model.safetensors",
        "concepts.json",
        "config.json",
        "SHA256SUMS",
    }


def test_a_split_that_comes_out_differently_is_refused(learned: Path) -> None:
    loaded = checkpoint.load(learned)
    other = replace(loaded, withheld=replace(loaded.withheld, fingerprint="another"))
    with pytest.raises(HypernymError, match="would not be fair: train the model again"):
        other.task()


def test_points_of_other_concepts_are_refused(learned: Path, tmp_path: Path) -> None:
    for path in learned.iterdir():
        (tmp_path / path.name).write_bytes(path.read_bytes())
    (tmp_path / "concepts.json").write_text('[["00000001", ["one"], ""]]')
    seal(tmp_path)
    with pytest.raises(CheckpointError, match="the points of 1 concepts are"):
        checkpoint.load(tmp_path)


@pytest.mark.parametrize(
    ("part", "spoil", "said"),
    [
        ("points", lambda points: points[:, :-1].clone(), "the points of 341 concepts are"),
        ("edges", lambda edges: edges.clamp(min=341), "the hypernyms lead nowhere"),
        ("edges", lambda edges: edges - 1, "the hypernyms lead nowhere"),
        ("edges", torch.flatten, "the hypernyms lead nowhere"),
        ("relation", lambda _: torch.eye(20), "the relation is not what the comparison needs"),
    ],
)
def test_weights_that_do_not_go_together_are_refused(
    learned: Path, tmp_path: Path, part: str, spoil: Callable[[Tensor | None], Tensor], said: str
) -> None:
    for path in learned.iterdir():
        (tmp_path / path.name).write_bytes(path.read_bytes())
    found = load_file(learned / WEIGHTS)
    save_file(found | {part: spoil(found.get(part))}, tmp_path / WEIGHTS)
    seal(tmp_path)
    with pytest.raises(CheckpointError, match=said):
        checkpoint.load(tmp_path)


def test_a_model_with_a_relation_is_kept_with_it(
    taxonomy: Taxonomy, task: Task, tmp_path: Path
) -> None:
    config = small("bilinear", epochs=1)
    model, threshold = HypernymRun(config, task).train()
    withheld = Withheld("clean", 0, HELD_OUT, task.fingerprint)
    checkpoint.save(
        HypernymCheckpoint(model, taxonomy, threshold.value, withheld, config, {}, tmp_path)
    )
    again = checkpoint.load(tmp_path).model
    np.testing.assert_array_equal(
        again.penalties(task.test.pairs), model.penalties(task.test.pairs)
    )


def test_a_split_of_another_seed_is_made_again(taxonomy: Taxonomy, learned: Path) -> None:
    other = make_task(taxonomy, "clean", 3, HELD_OUT)
    withheld = Withheld("clean", 3, HELD_OUT, other.fingerprint)
    again = replace(checkpoint.load(learned), withheld=withheld).task()
    assert np.array_equal(again.test.pairs, other.test.pairs)


def test_penalties_are_those_of_the_comparison_in_blocks_of_any_size() -> None:
    draw = np.random.default_rng(0)
    points, relation = draw.random((9, 4)), draw.random((4, 4))
    pairs = draw.integers(0, 9, (20, 2))
    below, above = points[pairs[:, 0]], points[pairs[:, 1]]
    lengths = np.linalg.norm(below, axis=1) * np.linalg.norm(above, axis=1)
    expected = {
        "order": np.square(np.maximum(above - below, 0)).sum(1),
        "symmetric": 1 - (below * above).sum(1) / lengths,
        "bilinear": 1 - np.einsum("bn,nm,bm->b", below, relation, above),
    }
    for comparison in COMPARISONS:
        learned = torch.from_numpy(relation) if comparison == "bilinear" else None
        model = ConceptEmbedding(comparison, torch.from_numpy(points), learned)
        np.testing.assert_allclose(model.penalties(pairs, 7), expected[comparison], atol=1e-6)


def test_ancestors_come_from_specific_to_general_and_are_mostly_known(learned: Path) -> None:
    loaded = checkpoint.load(learned)
    concept = loaded.taxonomy.senses("w0123")[0]
    found = ancestors(loaded, concept, 10)
    names = [loaded.taxonomy.concepts[one.concept].name for one in found]
    assert "w0123" not in names
    known = [name for name, one in zip(names, found, strict=True) if one.known]
    assert known == sorted(known, key=len, reverse=True)
    assert {"w", "w0"} <= set(known)
    depth = loaded.model.depth()[[one.concept for one in found]]
    assert (np.diff(depth) <= 0).all()
    assert all(one.violation < loaded.threshold for one in found)
    (likeliest,) = ancestors(loaded, concept, 1)
    assert likeliest.violation == min(one.violation for one in found)
    strict = replace(loaded, threshold=sorted(one.violation for one in found)[3])
    assert len(ancestors(strict, concept, 10)) == 3, "and not the one at the threshold"


def test_concepts_above_one_come_by_penalty_where_none_is_more_general(learned: Path) -> None:
    loaded = checkpoint.load(learned)
    symmetric = ConceptEmbedding.random("symmetric", len(loaded.taxonomy), 20, 0)
    found = ancestors(replace(loaded, model=symmetric, threshold=2.0), 0, 10)
    penalties = [one.violation for one in found]
    assert penalties == sorted(penalties)
    assert not any(one.known for one in found), "nothing is above the root"


@pytest.mark.parametrize(
    "wrong",
    [
        {"epochs": 0},
        {"dimension": 0},
        {"dimension": 4097},
        {"seed": -1},
        {"negatives": 0},
        {"margin": 0.0},
        {"margin": float("inf")},
        {"learning_rate": float("inf")},
        {"specific": 2.0},
    ],
)
def test_a_training_that_cannot_be_is_refused(wrong: dict[str, float]) -> None:
    with pytest.raises(ValueError, match=r"at least 1|at most|above 0|a share|from 0"):
        HypernymTraining(**wrong)  # type: ignore[arg-type]
