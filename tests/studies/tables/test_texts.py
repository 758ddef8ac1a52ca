from __future__ import annotations

from hasse.studies.tables.texts import Found, tables
from tests.lab.evaluation.test_significance import retrieval


def found(seed: int) -> Found:
    truth = {"violation": (0.9, 0.8, -0.5), "probability": (0.7, 0.6, 0.25 * seed)}
    return Found(retrieval(seed), 20 + seed, truth)


def test_tables_of_several_seeds_give_means_and_compare_models_beside() -> None:
    runs = {"captions": [found(0)], "photographs": [found(1), found(2)]}
    beside = {"`mine`": [found(3), found(4)], "`other`": [found(5)]}
    table, compared = (part.splitlines() for part in tables(runs, beside).split("\n\n"))
    rows = {row.split(" | ")[0].strip("| "): row.split(" | ")[1:] for row in table[2:]}
    assert [(name, cells[0]) for name, cells in rows.items()] == [
        ("captions alone", "1"),
        ("+ a picture of each class: `photographs`", "2"),
        ("+ calibrated on chains", "2"),
        ("`mine`", "2"),
        ("`mine`, by its probability", "2"),
        ("`other`", "1"),
        ("`other`, by its probability", "1"),
    ]
    assert rows["`mine`"][4:] == ["23.5", "0.900", "0.800", "-0.500 |"]
    assert rows["`mine`, by its probability"][4:] == ["23.5", "0.700", "0.600", "0.875 |"]
    low, high = sorted(found(seed).retrieval.evaluation.rsum for seed in (3, 4))
    assert rows["`mine`"][1] == f"{(low + high) / 2:.1f} ({low:.1f} to {high:.1f})"
    assert [line.split(": ")[0] for line in compared] == [
        "photographs less captions",
        "`mine` less `other`",
    ]
