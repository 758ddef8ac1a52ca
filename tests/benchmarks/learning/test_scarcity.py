from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from benchmarks.learning import scarcity
from benchmarks.search import processes
from tests.benchmarks.samples import points_folder


@pytest.fixture
def groups(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """What looks like control groups, and limits nothing."""
    folder = tmp_path / "cgroup"
    (folder / "memory").mkdir(parents=True)
    (folder / "memory" / "cgroup.procs").touch()
    monkeypatch.setattr(scarcity, "GROUPS", folder)
    return folder / "memory"


def test_a_group_has_its_limit_while_it_is_needed(groups: Path) -> None:
    removed = []
    with pytest.MonkeyPatch.context() as patch:
        # The files of a real group go with it.
        patch.setattr(Path, "rmdir", lambda path: removed.append(path.name))
        with scarcity.limited(12345) as group:
            assert group.parent == groups
            assert (group / "memory.limit_in_bytes").read_text() == "12345"
            assert not removed
    assert removed == [group.name]


def test_where_no_group_can_be_made_it_says_so(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, groups: Path
) -> None:
    def refuse(_path: Path) -> None:
        raise PermissionError(13, "Permission denied")

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Path, "mkdir", refuse)
        with (
            pytest.raises(scarcity.ScarcityError, match=r"Permission denied.*as root"),
            scarcity.limited(1),
        ):
            pass
    monkeypatch.setattr(scarcity, "GROUPS", tmp_path / "nothing")
    with pytest.raises(scarcity.ScarcityError, match="no control groups"), scarcity.limited(1):
        pass


@pytest.fixture
def limits(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """The limits that were asked for, of groups that are plain folders."""
    limits: list[int] = []

    @contextmanager
    def group(memory: int) -> Iterator[Path]:
        limits.append(memory)
        folder = tmp_path / f"group-{len(limits)}"
        folder.mkdir()
        yield folder

    monkeypatch.setattr(scarcity, "limited", group)
    return limits


def test_answers_in_scarcity_are_those_in_plenty(
    tmp_path: Path, limits: list[int], capsys: pytest.CaptureFixture[str]
) -> None:
    points, folder = points_folder(tmp_path / "points"), tmp_path / "index"
    scarcity.main([str(folder), f"--points={points}", "--rows=400", "--queries=6", "--times=8"])
    table = {
        cells[0]: cells[1:]
        for cells in (
            [cell.strip() for cell in line.strip("|").split("|")]
            for line in capsys.readouterr().out.splitlines()
            if line.startswith("|")
        )
    }
    assert table["certified answers"] == ["6 of 6", "6 of 6"]
    assert table["400 x 64"] == ["in plenty", "in scarcity"]
    assert 0 < limits[1] < 400 * 64 * 4
    assert (tmp_path / "group-2" / "cgroup.procs").read_text().isdigit()
    assert not folder.exists()


@pytest.mark.slow
def test_an_answer_that_differs_is_an_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, limits: list[int]
) -> None:
    alone = processes.alone

    def forged(work: Any, *args: Any) -> Any:
        found = alone(work, *args)
        if work is scarcity.ask and args[-1] is not None:
            found.found[0].violations[0] += 1
        return found

    monkeypatch.setattr(processes, "alone", forged)
    points = points_folder(tmp_path / "points")
    with pytest.raises(RuntimeError, match="another than in plenty"):
        scarcity.main([str(tmp_path / "index"), f"--points={points}", "--rows=400", "--queries=2"])
    assert len(limits) == 2
