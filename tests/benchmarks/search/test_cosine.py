from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from benchmarks.search import cosine


@pytest.mark.slow
def test_table_has_a_row_for_each_contender(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    rng = np.random.default_rng(0)
    near = rng.normal(size=(20, 256))[rng.integers(0, 20, 17_000)]
    vectors = near + 0.3 * rng.normal(size=near.shape)
    np.save(tmp_path / "v.npy", vectors.astype(np.float16))
    cosine.main([str(tmp_path / "v.npy"), "--queries", "4"])
    shown = capsys.readouterr().out
    assert "16,996 x 256, 4 queries, k = 10" in shown
    lines = shown.splitlines()[-3:]
    assert [line.split("|")[1].strip() for line in lines] == [
        "faiss.IndexFlatIP",
        "exact",
        "certified",
    ]
    scored = float(lines[2].split("|")[4].replace(",", ""))
    assert scored < 8_000, "the bounds rule rows out"
