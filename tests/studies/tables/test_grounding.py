from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
import pytest

from hasse.studies.tables import grounding
from tests.studies.tables.drawn import make
from tests.studies.transfer.test_transfer import write_tasks
from tests.tiny import TINY

NETWORK = TINY
SMALL = ("states=8", "epochs=1", "batch_size=8", "min_word_count=1")


def test_interval_over_seeds_is_students() -> None:
    assert grounding.over_seeds([71.0]) == "71.0"
    # 4.303 / sqrt(3) of the standard deviation
    assert grounding.over_seeds([70.0, 71.0, 72.0]) == "71.0 ± 2.5"


def test_table_gives_what_a_column_has_more_than_its_twin_seed_by_seed() -> None:
    scores = [{"MR": {"a": 60.0, "b": 62.0}}, {"MR": {"a": 70.0, "b": 72.0}}]
    row = grounding.table(scores, ["a", "b"], {"b": "a"}).splitlines()[-1]
    assert row == "| MR | 65.0 ± 63.5 | 67.0 ± 63.5 (+2.0 ± 0.0) |"
    del scores[1]["MR"]["b"]
    assert grounding.table(scores, ["b"], {"b": "a"}).endswith("| MR | 62.0 (+2.0) |")


@pytest.mark.slow
def test_grounding_is_measured_once_and_printed_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    make(tmp_path, NETWORK, lambda at: f"a good film {at % 3}\na bad thing {at % 7}\n")
    data, features, tasks = tmp_path / "data", tmp_path / "features", tmp_path / "tasks"
    write_tasks(tasks)
    pairs = ("good bad 9", "film good 5", "bad film 1", "thing good 3")
    (tasks / "EN-MEN-TR-3k.txt").write_text("\n".join(pairs))
    known = ("a", "good", "bad", "film", "thing", "the", "was", "it")
    rows = np.random.default_rng(0).normal(size=(len(known), 8)).round(3)
    lines = [f"{word} {' '.join(map(str, row))}" for word, row in zip(known, rows, strict=True)]
    (tmp_path / "vectors.txt").write_text("\n".join(lines))

    command = ["grounding", data, features, tmp_path / "vectors.txt", tasks]
    options = ["--out", tmp_path / "out", "--seeds", 2, "--once", "cap2cap", "--set", *SMALL]
    words = [str(word) for word in (*command, *options)]
    monkeypatch.setattr(sys, "argv", [*words, "--brief", "--task", "MRPC"])
    grounding.main()
    brief = capsys.readouterr()
    names = [line.split(" | ")[0].strip("| ") for line in brief.out.splitlines() if line]
    assert names[2:5] == ["cap2img", "cap2both", "cap2order"]
    assert names[7:-1] == ["MEN", "MRPC"]
    assert brief.err.count("epoch 1") == 7
    monkeypatch.setattr(sys, "argv", words)
    grounding.main()
    first = capsys.readouterr()
    names = [line.split(" | ")[0].strip("| ") for line in first.out.splitlines() if line]
    assert sorted(names[7:12]) == ["MEN", "MR", "MRPC", "SICK-E", "SICK-R"]
    assert first.out.count("| MEN |") == 2
    assert "epoch" not in first.err, "the trainings were kept"
    grounding.main()
    again = capsys.readouterr()
    assert (again.out, again.err) == (first.out, "")
