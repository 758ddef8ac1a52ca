from __future__ import annotations

from dataclasses import replace
from functools import partial
from pathlib import Path

import numpy as np
import pytest
import torch

from benchmarks.search import accelerator, oracle
from benchmarks.search.oracle import WrongAnswerError
from hasse.index.kernels.threads import Workers
from hasse.index.search.gpu_scan import Accelerator
from hasse.index.search.query import Answer, Query
from hasse.index.search.search import search
from hasse.index.types import Kind
from tests.benchmarks.samples import points_folder
from tests.device import DEVICE
from tests.index.samples import embeddings, snapshot


@pytest.mark.slow
def test_one_command_compares_the_answers_and_prints_the_table(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(accelerator, "COPIED", 1 << 10)
    monkeypatch.setattr(accelerator, "_SECONDS", 0)
    monkeypatch.setattr(accelerator, "Accelerator", partial(Accelerator, memory=10**9, min_bytes=1))
    points = points_folder(tmp_path / "points")
    accelerator.main(
        [
            *("--points", str(points), "--rows", "200", "--queries", "5"),
            *("--device", DEVICE, "--work", str(tmp_path)),
        ]
    )
    said = capsys.readouterr().out
    assert "200 images" in said
    for line in ("| scan ", "| answer ", "| plain torch ", "the first 4 are the CPU's"):
        assert line in said


@pytest.mark.parametrize("kind", ["image", "caption"])
@pytest.mark.slow
def test_plain_torch_finds_the_k_best(kind: Kind, tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    points, queries = embeddings(rng, 300, 16), embeddings(rng, 40, 16)
    now = snapshot(tmp_path, kind, "order", [(np.arange(300), points)])
    found = accelerator.plain(torch.from_numpy(points), torch.from_numpy(queries), kind)
    answers = search(now, queries, Query(kind, accelerator.K, "exact"), Workers())
    assert found.tolist() == [answer.ids.tolist() for answer in answers]


def test_answers_that_differ_are_told(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    points = embeddings(rng, 50, 16)
    now = snapshot(tmp_path, "image", "order", [(np.arange(50), points)])
    here: list[Answer] = search(now, points[:2], Query("image", 3, "exact"), Workers())
    oracle.same("on the device", here, here)
    off = replace(here[1], violations=np.nextafter(here[1].violations, np.float32(np.inf)))
    with pytest.raises(WrongAnswerError, match="query 1"):
        oracle.same("on the device", [here[0], off], here)
