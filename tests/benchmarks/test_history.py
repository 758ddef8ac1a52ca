"""The figures of releases, kept from what programs print."""

from __future__ import annotations

from pathlib import Path

from benchmarks.history.__main__ import keep, moved, read
from benchmarks.report import Line, lines_table, table


def _printed(first: str, second: str) -> list[str]:
    promised = lines_table([Line("a search", first, "1 ms"), Line("memory", second)])
    other = table(["", "images", "captions"], [["certified", "1.0 ms", "2.0 ms"]])
    return f"\nTime\nA processor\n\n{promised}\n\nOthers\n\n{other}\n".splitlines()


def test_figures_of_two_releases_stand_beside_each_other(tmp_path: Path) -> None:
    keep("0.10.0", _printed("3.00 ms", "1,500 MB"), tmp_path)
    keep("0.9.0", _printed("9.00 ms", "9 MB"), tmp_path)
    keep("0.9.0", _printed("2.00 ms", "1,000 MB"), tmp_path)
    releases = read(tmp_path)
    assert list(releases) == ["0.9.0", "0.10.0"]
    assert releases["0.9.0"]["Time · A processor"] == {"a search": "2.00 ms", "memory": "1,000 MB"}
    assert releases["0.9.0"]["Others"] == {
        "certified: images": "1.0 ms",
        "certified: captions": "2.0 ms",
    }
    drawn = dict(moved(releases))
    assert [line.split("|")[-2].strip() for line in drawn["Time"].splitlines()[2:]] == [
        "x 1.50",
        "x 1.50",
    ]
    assert "x 1.00" in drawn["Others"]
