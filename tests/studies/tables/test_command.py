"""`hasse study figures` and `hasse study lengths` on a model that `hasse lab train` made."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest

from tests.service.cli.shapes import done
from tests.service.cli.shell import hasse

pytestmark = pytest.mark.slow


def measure(name: str, home: Path) -> tuple[object, ...]:
    return (f"study {name}", home / "data", "--model", home / "model", "--split", "")


def test_figures_are_drawn_beside_the_evaluation(home: Path, tmp_path: Path) -> None:
    shown = done(hasse(*measure("figures", home), "--out", tmp_path / "figures"))
    assert shown.out == f"{tmp_path / 'figures'}: 4 figures\n"
    names = {path.name for path in (tmp_path / "figures").glob("*.svg")}
    assert names == {"recall.svg", "ranks.svg", "violations.svg", "points.svg"}
    document = json.loads((tmp_path / "figures" / "evaluation.json").read_text())
    assert document["images"] == 23


def test_figures_stopped_halfway_says_what_is_there(
    home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupted(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("hasse.studies.tables.figures._points", interrupted)
    stopped = hasse(*measure("figures", home), "--out", tmp_path)
    assert stopped.status == 130
    assert f"stopped: {tmp_path} holds some of the figures" in stopped.err
    assert (tmp_path / "recall.svg").is_file()


def test_figures_without_matplotlib_name_it_before_anything_is_encoded(
    home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    refused = hasse(*measure("figures", home), "--out", tmp_path / "undrawn")
    assert "pip install matplotlib" in refused.error
    assert not (tmp_path / "undrawn").exists()


def test_lengths_prints_the_ranks_that_its_json_has(home: Path) -> None:
    study = json.loads(done(hasse(*measure("lengths", home), "--json")).out)
    assert (study["model"], study["pairs"]) == ("model", 23)
    shown = done(hasse(*measure("lengths", home))).out
    ranks = f"{study['image_rank']:.1f}, of the longer caption by the shorter one "
    assert f"{ranks}{study['caption_rank']:.1f}" in shown
