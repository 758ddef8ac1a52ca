from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from hasse.studies.hypernyms.task import LabelledPairs, PairSet, Task, corrupt, make_task
from hasse.studies.hypernyms.taxonomy import HypernymError, Taxonomy, closure, read_wordnet
from hasse.studies.hypernyms.training import evaluate_closure
from tests.studies.hypernyms.dictionary import SMALL, tree, write


@pytest.fixture
def taxonomy(tmp_path: Path) -> Taxonomy:
    words: dict[str, list[str]] = tree()
    words["w000"] = ["w00", "w01"]  # two ways up
    return read_wordnet(write(tmp_path, words))


def codes(pairs: np.ndarray) -> set[tuple[int, int]]:
    return {(a, b) for a, b in pairs.tolist()}


def test_clean_parts_are_disjoint_and_their_false_pairs_false(taxonomy: Taxonomy) -> None:
    task = make_task(taxonomy, "clean", held_out=100)
    known = codes(taxonomy.paths()[0])
    parts = [codes(task.train)]
    for held in (task.validation, task.test):
        assert held.true.sum() == 100 == (~held.true).sum()
        parts.append(codes(held.pairs[held.true]))
        assert not codes(held.pairs[~held.true]) & known
        assert (held.pairs[~held.true][:, 0] != held.pairs[~held.true][:, 1]).all()
    assert sum(map(len, parts)) == len(set.union(*parts)) == len(known)
    assert set.union(*parts) == known
    assert task.oracle == 1


def test_a_false_pair_differs_from_its_true_one_at_one_end(taxonomy: Taxonomy) -> None:
    for protocol in ("clean", "paper"):
        test = make_task(taxonomy, protocol, held_out=100).test
        same = test.pairs[test.true] == test.pairs[~test.true]
        assert same.any(1).all()
        assert {(False, True), (True, False)} <= {tuple(row) for row in same.tolist()}


def test_the_papers_protocol_counts_paths_and_lets_false_pairs_be_true(
    taxonomy: Taxonomy,
) -> None:
    distinct, ways = taxonomy.paths()
    task = make_task(taxonomy, "paper", held_out=100)
    assert len(task.train) + 200 == ways.sum() > len(distinct)
    true_after_all = PairSet(distinct, len(taxonomy)).holds(task.test.pairs[~task.test.true])
    assert true_after_all.any()
    assert task.oracle == pytest.approx(1 - true_after_all.mean() / 2)


def test_the_seed_decides_the_split_and_the_fingerprint_tells(taxonomy: Taxonomy) -> None:
    prints = [make_task(taxonomy, "clean", seed, 50).fingerprint for seed in (0, 0, 1)]
    assert prints[0] == prints[1] != prints[2]
    task = make_task(taxonomy, "clean", 0, 50)
    others = (
        replace(task, protocol="paper"),
        replace(task, validation=task.test),
        replace(task, test=task.validation),
    )
    assert len({one.fingerprint for one in (task, *others)}) == 4


def test_something_is_left_to_learn_from(tmp_path: Path) -> None:
    chain = read_wordnet(
        write(tmp_path, {"a": [], "b": ["a"], "c": ["b"], "d": ["c"]})
    )  # six pairs
    with pytest.raises(HypernymError, match="too few to withhold"):
        make_task(chain, "paper", held_out=3)
    with pytest.raises(HypernymError, match=r"has 6 pairs .* too few to withhold twice 4,000"):
        make_task(chain, "clean")
    assert len(make_task(chain, "paper", held_out=2).train) == 2


def test_a_hierarchy_without_false_pairs_is_refused(tmp_path: Path) -> None:
    chain = read_wordnet(write(tmp_path, {"a": [], "b": ["a"], "c": ["b"]}))
    ends = np.array([[2, 0]])  # whatever replaces one of them makes a true pair
    with pytest.raises(HypernymError, match="no false pairs"):
        corrupt(ends, 3, np.random.default_rng(0), PairSet(chain.paths()[0], 3))


def test_the_closure_of_edges_is_what_follows_from_them(tmp_path: Path) -> None:
    found = read_wordnet(write(tmp_path, SMALL))
    assert codes(closure(found.edges)) == codes(found.paths()[0])
    assert closure(np.empty((0, 2), dtype=np.int64)).shape == (0, 2)


def test_the_closure_baseline_says_what_follows_and_nothing_else(taxonomy: Taxonomy) -> None:
    found = evaluate_closure(make_task(taxonomy, "clean", held_out=100))
    assert found.of_true is not None
    assert found.of_false == 100
    assert 50 < found.of_true < 100
    assert found.accuracy == pytest.approx((found.of_true + found.of_false) / 2)
    assert found.low <= found.accuracy <= found.high


def test_the_closure_baseline_knows_the_pairs_of_validation_too() -> None:
    def held(*pairs: list[int]) -> LabelledPairs:
        return LabelledPairs(np.array(pairs), np.array([True, False]))

    task = Task("clean", 3, np.array([[0, 1]]), held([1, 2], [2, 1]), held([0, 2], [2, 0]), 1.0)
    assert evaluate_closure(task).accuracy == 100


def test_a_set_of_pairs_knows_its_own(taxonomy: Taxonomy) -> None:
    pairs = taxonomy.paths()[0]
    known = PairSet(pairs[:10], len(taxonomy))
    assert known.holds(pairs).tolist() == [True] * 10 + [False] * (len(pairs) - 10)
    assert len(known) == 10
    assert (0, 0) not in known
    assert not PairSet(pairs[:0], len(taxonomy)).holds(pairs).any()
