from __future__ import annotations

from pathlib import Path

import pytest

from benchmarks.lifecycle import main
from tests.benchmarks.samples import points_folder


@pytest.mark.slow
def test_an_index_is_built_grown_under_search_killed_and_nothing_is_lost(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    points, folder = points_folder(tmp_path / "points"), tmp_path / "index"
    sizes = ["--rows=400", "--additions=12", "--clients=2", "--seconds=0.2"]
    main([str(folder), f"--points={points}", *sizes])
    table = dict(
        [cell.strip() for cell in line.strip("|").split("|")]
        for line in capsys.readouterr().out.splitlines()
        if line.startswith("|")
    )
    assert table["rows built"] == "400 x 64"
    assert table["not found by the next search, of 12 (0)"] == "0"
    (lost,) = [value for name, value in table.items() if name.startswith("lost, of ")]
    assert lost == "0"
    assert table["findings of 'verify' (0)"] == "0"
    assert not folder.exists()
