"""The figures of releases, kept from what programs print."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from benchmarks.history.__main__ import keep, moved, read
from benchmarks.history.paired import UnknownReleaseError, commit_of
from benchmarks.report import Line, lines_table, table

MACHINE = "A Processor, 2 cores, load 0.1 at the start, Python 3.11.7"


def _printed(first: str, second: str) -> list[str]:
    promised = lines_table([Line("a search", first, "1 ms"), Line("memory", second)])
    other = table(["", "images", "captions"], [["certified", "1.0 ms", "2.0 ms"]])
    return f"\nTime\n{MACHINE}\n\n{promised}\n\nOthers\n\n{other}\n".splitlines()


def test_figures_of_two_releases_stand_beside_each_other(tmp_path: Path) -> None:
    keep("0.10.0", _printed("3.00 ms", "1,500 MB"), tmp_path)
    keep("0.9.0", _printed("9.00 ms", "9 MB"), tmp_path)
    keep("0.9.0", _printed("2.00 ms", "1,000 MB"), tmp_path)
    releases = read(tmp_path)
    assert list(releases) == ["0.9.0", "0.10.0"]
    assert releases["0.9.0"][f"Time · {MACHINE}"] == {"a search": "2.00 ms", "memory": "1,000 MB"}
    assert releases["0.9.0"][f"Others · {MACHINE}"] == {
        "certified: images": "1.0 ms",
        "certified: captions": "2.0 ms",
    }
    drawn = dict(moved(releases))
    assert [line.split("|")[-2].strip() for line in drawn["Time"].splitlines()[2:]] == [
        "x 1.50",
        "x 1.50",
    ]
    assert "x 1.00" in drawn["Others"]


def test_tables_below_one_heading_are_one_and_columns_named_alike_are_left_out(
    tmp_path: Path,
) -> None:
    times = table(["", "one", "beside", "ten", "beside"], [["certified", "1", "2 x", "3", "4 x"]])
    work = table(["", "build"], [["certified", "5"]])
    source = f"`command`\n\nA source. {MACHINE}; libraries."
    text = f"{source}\n\n### Images\n\n{times}\n\nOf it.\n\n{work}"
    keep("0.3.0", text.splitlines(), tmp_path)
    (figures,) = read(tmp_path)["0.3.0"].items()
    expected = {"certified: one": "1", "certified: ten": "3", "certified": "5"}
    assert figures == (f"Images · {MACHINE}", expected)


def test_release_is_the_commit_that_first_kept_its_figures(tmp_path: Path) -> None:
    def git(*arguments: str) -> str:
        who = ("-c", "user.name=a", "-c", "user.email=a@example.org")
        command = ["git", *who, *arguments]
        done = subprocess.run(command, cwd=tmp_path, capture_output=True, check=True)
        return done.stdout.decode().strip()

    git("init", "-q")
    kept = tmp_path / "benchmarks" / "history" / "0.3.0.json"
    kept.parent.mkdir(parents=True)
    commits = []
    for content in ("{}", '{"a": {}}'):
        kept.write_text(content)
        git("add", ".")
        git("commit", "-q", "-m", "keep figures")
        commits.append(git("rev-parse", "HEAD"))
    assert commit_of("0.3.0", tmp_path) == commits[0] != commits[1]
    with pytest.raises(UnknownReleaseError, match="is in no commit"):
        commit_of("0.2.0", tmp_path)


def test_release_of_a_folder_without_history_is_unknown(tmp_path: Path) -> None:
    with pytest.raises(UnknownReleaseError, match="git rev-parse"):
        commit_of("0.3.0", tmp_path)
